// SPDX-License-Identifier: MIT OR Apache-2.0
// What happens to handles, and to channels and regions while there are some.
#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "soft/programs/run.hpp"

namespace lend::test {

namespace {

bool same(Result<WorkSuccess> const& a, Result<WorkSuccess> const& b) {
  if (a.has_value() != b.has_value()) return false;
  if (!a.has_value()) return a.error().message() == b.error().message();
  return a.value().bytes == b.value().bytes && a.value().operation == b.value().operation &&
         a.value().immediate == b.value().immediate;
}

std::string answer_words(Result<std::optional<WorkSuccess>> const& answer) {
  if (!answer.has_value()) return std::string{name_of(answer.error().code())};
  return answer.value() ? std::to_string(answer.value()->bytes) + " bytes" : "not yet";
}

}  // namespace

void Run::ask(Step const& step, bool waits) {
  if (handles_.empty()) return;
  auto const at =
      std::next(handles_.begin(), static_cast<std::ptrdiff_t>(step.numbers[0] % handles_.size()));
  auto const polls_failed = model_.spy().polls_failed;
  Result<std::optional<WorkSuccess>> answer{std::optional<WorkSuccess>{}};
  if (waits) {
    auto waited = at->work.wait(deadline_of(step.numbers[1]));
    if (waited.has_value())
      answer = std::optional<WorkSuccess>{waited.value()};
    else
      answer = waited.error();
  } else {
    answer = at->work.poll();
  }
  tell(std::string{waits ? "wait for" : "poll"} + " work " + std::to_string(at->post) + ": " +
       answer_words(answer));
  check_answer(*at, answer, waits, polls_failed);
}

void Run::check_answer(Handle& handle, Result<std::optional<WorkSuccess>> const& answer,
                       bool may_time_out, unsigned polls_failed) {
  Posted& post = model_.posts[handle.post];
  Accepted const& work = model_.device_side(post);
  if (answer.has_value() && !answer.value()) {
    if (may_time_out || !work.is_in_progress() || handle.told)
      model_.complain("a handle has no result of work that is over");
    return;
  }
  Result<WorkSuccess> const result =
      answer.has_value() ? Result<WorkSuccess>{*answer.value()} : answer.error();
  if (handle.told) {
    if (!same(*handle.told, result)) model_.complain("a handle has changed its mind");
    return;
  }
  if (!result.has_value()) {
    auto const& error = result.error();
    bool const is_early = error == Errc::timed_out || error == Errc::cancelled;
    bool const is_queue = error == Errc::system_failed;
    if (is_early || is_queue) {
      if (is_early ? !may_time_out : model_.spy().polls_failed == polls_failed)
        model_.complain("a handle gives up for no reason");
      if (!work.is_in_progress()) model_.complain("a handle gives up on work that is over");
      return;
    }
  }
  handle.told = result;
  if (model_.ends[post.end].is_gone || post.retired) {
    if (result.has_value() || result.error() != Errc::stale_handle)
      model_.complain("a handle that outlives its scope or channel is not stale");
    return;
  }
  post.told = true;
  if (work.is_in_progress()) return model_.complain("a handle has a result before there is one");
  if (result.has_value() == work.has_failed())
    return model_.complain("a handle does not say how its work ended");
  if (!result.has_value()) {
    auto const* const failure = result.error().work();
    if (failure == nullptr || failure->slot != work.slot() ||
        failure->status != static_cast<WorkStatus>(work.status))
      model_.complain("a handle has the failure of other work");
    return;
  }
  auto const bytes = work.is_receive ? work.bytes_received : bytes_of(post.ranges);
  if (result.value().bytes != bytes || result.value().immediate != work.immediate ||
      result.value().operation != post.operation)
    model_.complain("a handle has the success of other work");
}

void Run::drop(Step const& step) {
  if (handles_.empty()) return;
  auto const at =
      std::next(handles_.begin(), static_cast<std::ptrdiff_t>(step.numbers[0] % handles_.size()));
  tell("drop work " + std::to_string(at->post));
  model_.posts[at->post].held = false;
  handles_.erase(at);
}

void Run::leak(Step const& step) {
  if (handles_.empty()) return;
  auto const at =
      std::next(handles_.begin(), static_cast<std::ptrdiff_t>(step.numbers[0] % handles_.size()));
  tell("leak work " + std::to_string(at->post));
  if (at->told) return;  // what it was told would leak for good
  alignas(PendingWork) std::byte nowhere[sizeof(PendingWork)];
  new (nowhere) PendingWork{std::move(at->work)};
  handles_.erase(at);
}

void Run::move(Step const& step) {
  if (handles_.empty()) return;
  auto const from =
      std::next(handles_.begin(), static_cast<std::ptrdiff_t>(step.numbers[0] % handles_.size()));
  auto const onto =
      std::next(handles_.begin(), static_cast<std::ptrdiff_t>(step.numbers[1] % handles_.size()));
  if (from == onto) {
    PendingWork moved{std::move(from->work)};
    // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
    auto const left = from->work.poll();
    if (left.has_value() || left.error() != Errc::stale_handle)
      model_.complain("a handle that was moved from is not stale");
    from->work = std::move(moved);
    return tell("move work " + std::to_string(from->post));
  }
  tell("move work " + std::to_string(from->post) + " over work " + std::to_string(onto->post));
  model_.posts[onto->post].held = false;
  onto->work = std::move(from->work);
  onto->post = from->post;
  onto->told = std::move(from->told);
  handles_.erase(from);
}

void Run::move_channel(Step const& step) {
  End& end = model_.ends[step.numbers[0] % model_.ends.size()];
  if (end.is_gone) return;
  end.channel = std::make_unique<Channel>(std::move(*end.channel));
  tell("move channel");
}

void Run::destroy_channel(std::size_t end) {
  End& gone = model_.ends[end];
  if (gone.is_gone) return;
  gone.is_gone = true;
  gone.channel.reset();
  tell("destroy channel " + std::to_string(end));
  for (auto const& post : model_.posts)
    if (post.end == end && model_.is_in_progress(post))
      model_.complain("a channel is gone and its work in progress");
}

void Run::destroy_region(Step const& step) {
  auto const region = step.numbers[0] % model_.regions.size();
  if (!model_.regions[region]) return;
  model_.regions[region].reset();
  tell("destroy region " + std::to_string(region));
}

}  // namespace lend::test
