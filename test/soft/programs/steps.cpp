// SPDX-License-Identifier: MIT OR Apache-2.0
// What happens inside scopes: posts, handles, and the end of channels and regions.
#include <lend/channel/unsafe.hpp>

#include <type_traits>
#include <utility>

#include "soft/programs/run.hpp"
#include "support/two_ends.hpp"

namespace lend::test {

using namespace std::chrono_literals;

namespace {

constexpr std::size_t unsafe_region = SIZE_MAX;

std::string name_of_end(std::size_t end) {
  return end == 0 ? "A" : "B";
}

}  // namespace

/// What is so before a post, and what may come of it.
struct Run::Before {
  bool is_gone = false;
  bool is_broken = false;
  bool has_room = false;
  bool waits = false;
  std::size_t accepted = 0;
  unsigned polls_failed = 0;
};

Run::Before Run::before(std::size_t end, std::optional<std::size_t> scope, Request const& request,
                        bool waits) {
  return {.is_gone = model_.ends[end].is_gone || (scope && model_.scopes[*scope].has_ended),
          .is_broken = model_.is_broken(end),
          .has_room = model_.has_room(end, request.operation),
          .waits = waits,
          .accepted = spy_.works().size(),
          .polls_failed = spy_.polls_failed};
}

Deadline Run::deadline_of(std::uint32_t number) const {
  auto const time = within(std::chrono::microseconds{number / 4 % 4 * 60});
  if (number % 4 == 0) return within(10s).unless(cancelled_);
  return number % 4 == 1 ? time.unless(never_cancelled_) : time;
}

Run::Request Run::request_of(Step const& step, bool unsafely) {
  Request request;
  auto const numbers = step.numbers;
  std::size_t const of_result = unsafely ? unsafe_region : numbers[4] % model_.regions.size();
  if (!program_.is_unreliable && numbers[2] % 9 == 8 && (unsafely || model_.regions[of_result]))
    return atomic_of(step, of_result);
  request.operation = static_cast<Operation>(numbers[2] % 8 < 3       ? 0
                                             : numbers[2] % 8 < 6     ? 1
                                             : numbers[2] % 8 < 7     ? 2
                                             : program_.is_unreliable ? 2
                                                                      : 3);
  bool const writes = writes_here(request.operation);
  auto const oddity = numbers[3] % 64;
  // Mostly one piece; none at all, one too many, or more than a pool's piece holds, now and then.
  std::size_t const pieces = oddity == 0   ? 0
                             : oddity == 1 ? 4
                             : oddity <= 8 ? 3
                                           : 1 + (numbers[3] / 64 % 8) / 4;
  for (std::size_t i = 0; i < pieces; ++i) {
    std::size_t const region = unsafely ? unsafe_region : (numbers[4] + i) % model_.regions.size();
    if (!unsafely && !model_.regions[region]) continue;
    std::size_t const offset =
        (unsafely ? unsafe_at_ : 0) + (numbers[4] / 4 + i * 17) % (region_bytes - 8);
    std::size_t const length = numbers[5] / 8 % 16 == 0 ? 0 : 1 + numbers[5] / 128 % 8;
    ByteRange range{offset, length};
    auto& memory = unsafely ? *unsafe_ : *model_.regions[region];
    if (oddity == 2) {
      range.length = memory.size() + 1 - offset;  // one byte beyond
      request.is_wrong = true;
    }
    request.ranges.push_back({region, range});
    if (writes)
      request.scattered.push_back(memory.scatter(range.offset, range.length));
    else
      request.gathered.push_back(memory.gather(range.offset, range.length));
  }
  if (!writes && numbers[5] % 4 == 0) request.immediate = numbers[5];
  request.may_be_empty = request.operation == Operation::receive && numbers[5] % 2 == 0;
  if (request.ranges.empty() && !request.immediate && !request.may_be_empty)
    request.is_wrong = true;
  if (request.ranges.size() > elements_of_program) request.is_wrong = true;
  if (request.operation == Operation::receive && program_.has_pool) request.is_wrong = true;
  request.bytes = bytes_of(request.ranges);
  // Remote lengths and keys that do not fit, now and then; a bad key is the peer's to refuse.
  auto const length = static_cast<std::size_t>(request.bytes);
  request.remote = remote_.slice(numbers[4] % 16, length);
  bool const is_remote =
      request.operation == Operation::write || request.operation == Operation::read;
  if (is_remote && oddity == 3) {
    request.remote = remote_.slice(0, length + 1);
    request.is_wrong = true;
  }
  if (is_remote && oddity == 4) request.remote = nobody(length);
  choose_options(request, step);
  return request;
}

/// Also such as make no sense: a fence where there are no reads, a solicited write nobody sees.
void Run::choose_options(Request& request, Step const& step) const {
  if (request.operation == Operation::receive) return;
  bool const may_be_odd = step.numbers[3] % 64 == 5;
  if (step.numbers[1] / 4096 % 4 == 0 && (!program_.is_unreliable || may_be_odd))
    request.options = RequestOption::fenced;
  bool const wakes = request.operation == Operation::send || request.immediate;
  bool const may_be_solicited =
      request.operation == Operation::send || request.operation == Operation::write;
  if (step.numbers[1] / 16384 == 0 && may_be_solicited && (wakes || may_be_odd))
    request.options = request.options | RequestOption::solicited;
  if ((has(request.options, RequestOption::fenced) && program_.is_unreliable) ||
      (has(request.options, RequestOption::solicited) && !wakes))
    request.is_wrong = true;
}

bool Run::is_as_asked(Accepted const& work, Request const& request) noexcept {
  return work.is_receive == (request.operation == Operation::receive) &&
         work.device_writes == writes_here(request.operation) &&
         work.is_fenced == has(request.options, RequestOption::fenced) &&
         work.is_solicited == has(request.options, RequestOption::solicited);
}

Run::Request Run::atomic_of(Step const& step, std::size_t region) {
  auto const numbers = step.numbers;
  Request request;
  request.operation = Operation::atomic;
  request.swaps = numbers[5] % 2 == 0;
  request.numbers[0] = numbers[5] % 3;
  request.numbers[1] = numbers[5];
  ByteRange result{numbers[4] / 4 % 7 * 8, RemoteWord::size};
  std::size_t word = numbers[4] / 32 % 8 * RemoteWord::size;
  // A result or word off 8 bytes or of another length, and a bad key, now and then.
  auto const oddity = numbers[3] % 32;
  if (oddity == 0) result.offset += 4;
  if (oddity == 1) result.length = 4;
  if (oddity == 2) word += 4;
  request.is_wrong = oddity <= 2;
  request.word = remote_.word(word);
  if (oddity == 3) request.word.key = 0xbad'0bad;
  bool const is_unsafe = region == unsafe_region;
  if (is_unsafe) result.offset += unsafe_at_;
  request.ranges.push_back({region, result});
  auto& memory = is_unsafe ? *unsafe_ : *model_.regions[region];
  request.scattered.push_back(memory.scatter(result.offset, result.length));
  request.bytes = result.length;
  choose_options(request, step);
  return request;
}

bool Run::note(std::size_t before, std::size_t end, std::optional<std::size_t> scope,
               Request const& request, bool lends) {
  auto const& works = spy_.works();
  if (works.size() == before) return false;
  if (works.size() > before + 1) complain("one request was posted twice");
  auto const& work = works.back();
  if (work.queue_pair != model_.ends[end].queue_pair || !is_as_asked(work, request))
    complain("another request was posted than was asked for");
  if (request.is_wrong) complain("a request that makes no sense was posted");
  model_.posts.push_back({.accepted = before,
                          .end = end,
                          .scope = scope,
                          .operation = request.operation,
                          .ranges = request.ranges,
                          .lends = lends});
  return true;
}

void Run::check_refusal(Error const& error, Before const& before, std::size_t end,
                        Request const& request) {
  auto const refuse = [&](char const* why) {
    complain(std::string{"a post was refused as "} + std::string{name_of(error.code())} + ", " +
             why);
  };
  if (spy_.works().size() != before.accepted) refuse("and was posted all the same");
  switch (error.code()) {
    case Errc::stale_handle:
      if (!before.is_gone) refuse("but its scope and channel are there");
      return;
    case Errc::channel_broken:
      // Where there is no room, every post polls.
      if (!before.is_broken && (before.has_room || !model_.is_broken(end)))
        refuse("but the channel works");
      return;
    case Errc::queue_full:
      if (before.waits ? !model_.is_hoarded(end) : model_.has_room(end, request.operation))
        refuse("but there is room");
      return;
    case Errc::timed_out:
    case Errc::cancelled:
      if (!before.waits || before.has_room || model_.has_room(end, request.operation))
        refuse("but there is room");
      if (model_.is_hoarded(end)) refuse("but waiting was without hope");
      return;
    case Errc::system_failed:
      if (spy_.polls_failed == before.polls_failed) refuse("but no poll has failed");
      return;
    case Errc::already_borrowed:
      if (!model_.meets_a_loan(request.ranges, writes_here(request.operation)))
        refuse("but it meets no loan");
      return;
    case Errc::invalid_argument:
      if (!request.is_wrong) refuse("but it makes sense");
      return;
    default: refuse("for no reason that there is");
  }
}

void Run::post(Step const& step) {
  auto const chosen = chosen_scope(step);
  if (!chosen) return;
  auto const scope = *chosen;
  auto const end = model_.scopes[scope].end;
  auto const request = request_of(step, false);
  bool const waits = step.numbers[1] % 2 == 0;
  auto const state = before(end, scope, request, waits);
  bool const meets = model_.meets_a_loan(request.ranges, writes_here(request.operation));
  auto& polling = *model_.scopes[scope].scope;
  auto const deadline = deadline_of(step.numbers[1] / 2);
  auto result = with(request, [&](auto const& work) {
    using Work = std::remove_cvref_t<decltype(work)>;
    if constexpr (std::is_same_v<Work, Send>)
      return waits ? polling.post_send(work, deadline) : polling.try_post_send(work);
    else if constexpr (std::is_same_v<Work, Receive>)
      return waits ? polling.post_receive(work, deadline) : polling.try_post_receive(work);
    else if constexpr (std::is_same_v<Work, Write>)
      return waits ? polling.post_write(work, deadline) : polling.try_post_write(work);
    else if constexpr (std::is_same_v<Work, Atomic>)
      return waits ? polling.post_atomic(work, deadline) : polling.try_post_atomic(work);
    else
      return waits ? polling.post_read(work, deadline) : polling.try_post_read(work);
  });
  std::string text = name_of_end(end) + (waits ? ".post_" : ".try_post_") +
                     std::string{name_of(request.operation)};
  for (auto const& range : request.ranges)
    text += " r" + std::to_string(range.region) + "[" + std::to_string(range.bytes.offset) + ",+" +
            std::to_string(range.bytes.length) + ")";
  tell(text + " in scope " + std::to_string(scope) + ": " + words_of(result));
  if (!result.has_value()) {
    check_refusal(result.error(), state, end, request);
    if (state.has_room && !state.is_broken && !state.is_gone && !meets && !request.is_wrong)
      complain("a post was refused though nothing is in its way");
    return;
  }
  // A post that found no room has polled.
  if (state.is_gone || state.is_broken || !model_.has_room(end, request.operation))
    complain("a post was accepted that could not be");
  if (model_.meets_a_loan(request.ranges, writes_here(request.operation)))
    complain("a loan was given that meets another");
  if (!note(state.accepted, end, scope, request, true))
    return complain("a post was answered with a handle and was not posted");
  handles_.push_back({std::move(result).value(), model_.posts.size() - 1, {}});
}

/// Each has bytes of its own: nothing else keeps work off the bytes of such a post.
void Run::post_unsafely(Step const& step) {
  auto const end = step.numbers[0] % model_.ends.size();
  if (model_.ends[end].is_gone) return;
  auto const request = request_of(step, true);
  auto const state = before(end, {}, request, false);
  auto& channel = *model_.ends[end].channel;
  // SAFETY: no other work has these bytes, now or later, and their region outlives both channels.
  auto result = with(request, [&](auto const& work) {
    using Work = std::remove_cvref_t<decltype(work)>;
    if constexpr (std::is_same_v<Work, Send>)
      return unsafe_post_send(channel, work);
    else if constexpr (std::is_same_v<Work, Receive>)
      return unsafe_post_receive(channel, work);
    else if constexpr (std::is_same_v<Work, Write>)
      return unsafe_post_write(channel, work);
    else if constexpr (std::is_same_v<Work, Atomic>)
      return unsafe_post_atomic(channel, work);
    else
      return unsafe_post_read(channel, work);
  });
  tell(name_of_end(end) + ".unsafe_post_" + std::string{name_of(request.operation)} + ": " +
       words_of(result));
  if (!result.has_value()) return check_refusal(result.error(), state, end, request);
  if (!note(state.accepted, end, {}, request, false))
    return complain("a post was answered with a handle and was not posted");
  unsafe_at_ += region_bytes;
  handles_.push_back({std::move(result).value(), model_.posts.size() - 1, {}});
}

void Run::block(Step const& step) {
  auto const end = step.numbers[0] % model_.ends.size();
  if (model_.ends[end].is_gone) return;
  auto const request = request_of(step, false);
  auto const state = before(end, {}, request, true);
  auto const deadline = deadline_of(step.numbers[1] / 2);
  auto& channel = *model_.ends[end].channel;
  auto const result = with(request, [&](auto const& work) -> Result<std::uint64_t> {
    using Work = std::remove_cvref_t<decltype(work)>;
    if constexpr (std::is_same_v<Work, Receive>) {
      LEND_TRY(done, channel.receive(work, deadline));
      return done.bytes;
    } else {
      if constexpr (std::is_same_v<Work, Send>) {
        LEND_TRYV(channel.send(work, deadline));
      }
      if constexpr (std::is_same_v<Work, Write>) {
        LEND_TRYV(channel.write(work, deadline));
      }
      if constexpr (std::is_same_v<Work, Atomic>) {
        LEND_TRYV(channel.atomic(work, deadline));
      }
      if constexpr (std::is_same_v<Work, Read>) {
        LEND_TRYV(channel.read(work, deadline));
      }
      return request.bytes;
    }
  });
  tell(name_of_end(end) + "." + std::string{name_of(request.operation)} + ": " + words_of(result));
  if (!note(state.accepted, end, {}, request, true)) {
    if (result.has_value()) return complain("a call succeeded and posted nothing");
    return check_refusal(result.error(), state, end, request);
  }
  Posted& post = model_.posts.back();
  post.held = false;
  post.told = true;
  Accepted const& work = model_.device_side(post);
  if (work.is_in_progress()) return complain("a call returned with its work in progress");
  if (work.has_failed() == result.has_value())
    return complain("a call does not say how its work ended");
  if (result.has_value()) {
    if (work.is_receive && result.value() != work.bytes_received)
      complain("a call miscounts what was received");
    return;
  }
  auto const& error = result.error();
  bool const by_time = error == Errc::timed_out || error == Errc::cancelled;
  bool const by_queue = error == Errc::system_failed && spy_.polls_failed > state.polls_failed;
  bool const by_work = error == Errc::work_failed && error.work() != nullptr &&
                       error.work()->slot == work.slot() &&
                       error.work()->status == static_cast<WorkStatus>(work.status);
  if (!by_time && !by_queue && !by_work)
    complain("a call failed for no reason that there is: " + error.message());
  if (!model_.is_broken(end)) complain("a channel works although its work has failed");
}

}  // namespace lend::test
