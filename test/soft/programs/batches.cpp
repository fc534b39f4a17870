// SPDX-License-Identifier: MIT OR Apache-2.0
// Batches: filled, posted in each way that there is, or left by an exception.
#include <algorithm>
#include <list>
#include <type_traits>
#include <utility>

#include "soft/programs/run.hpp"

namespace lend::test {

using namespace std::chrono_literals;

/// Work of one batch, and what has become of it.
struct Run::Added {
  struct Item {
    Request request;
    std::optional<PendingWork> work{};  // none where it was added without a handle
    std::optional<std::size_t> post{};  // in the model, once the device has it
    std::optional<std::string> told{};
  };
  std::size_t scope = 0;
  std::size_t end = 0;
  std::size_t noted = 0;  // of Spy::works()
  std::list<Item> items{};
  std::size_t dropped = 0;  // of the last, by an exception

  [[nodiscard]] auto unposted(bool receives) const {
    return std::ranges::count_if(items, [&](Item const& item) {
      return !item.post && (item.request.operation == Operation::receive) == receives;
    });
  }
  [[nodiscard]] bool has_unposted() const { return unposted(true) + unposted(false) > 0; }
};

namespace {

/// Thrown past a batch.
struct Left {};

bool may_be_tried_again(Error const& error) noexcept {
  return error == Errc::timed_out || error == Errc::cancelled || error == Errc::system_failed;
}

}  // namespace

/// Receives and the others each come in the order in which they were added.
void Run::note_added(Added& added) {
  auto const& works = spy_.works();
  for (; added.noted < works.size(); ++added.noted) {
    auto const& work = works[added.noted];
    auto const item = std::ranges::find_if(added.items, [&](Added::Item const& one) {
      return !one.post && (one.request.operation == Operation::receive) == work.is_receive;
    });
    if (item == added.items.end()) return complain("a batch posted what nobody added");
    if (work.queue_pair != model_.ends[added.end].queue_pair || !is_as_asked(work, item->request) ||
        std::cmp_greater(work.pieces.size(), item->request.ranges.size()))
      complain("a batch posted other work than was added, or in another order");
    model_.posts.push_back({.accepted = added.noted,
                            .end = added.end,
                            .scope = added.scope,
                            .operation = item->request.operation,
                            .ranges = item->request.ranges,
                            .held = item->work.has_value()});
    item->post = model_.posts.size() - 1;
  }
}

void Run::add(Batch& batch, Added& added, Step const& step) {
  auto const request = request_of(step, false);
  bool const is_gone = model_.ends[added.end].is_gone || model_.scopes[added.scope].has_ended;
  bool const is_broken = model_.is_broken(added.end);
  auto const polls_failed = spy_.polls_failed;
  auto const deadline = deadline_of(step.numbers[1] / 2);
  auto const add_with = [&](auto... tag) {
    return with(request, [&](auto const& work) {
      using Work = std::remove_cvref_t<decltype(work)>;
      if constexpr (std::is_same_v<Work, Send>)
        return batch.add_send(work, tag..., deadline);
      else if constexpr (std::is_same_v<Work, Receive>)
        return batch.add_receive(work, tag..., deadline);
      else if constexpr (std::is_same_v<Work, Write>)
        return batch.add_write(work, tag..., deadline);
      else if constexpr (std::is_same_v<Work, Atomic>)
        return batch.add_atomic(work, tag..., deadline);
      else
        return batch.add_read(work, tag..., deadline);
    });
  };
  std::optional<PendingWork> handle;
  Result<void> result = success();
  if (step.numbers[4] % 2 == 0)
    result = add_with(no_handle);
  else if (auto held = add_with(); held.has_value())
    handle = std::move(held).value();
  else
    result = held.error();
  note_added(added);
  tell("  add " + std::string{name_of(request.operation)} +
       (step.numbers[4] % 2 == 0 ? " without a handle: " : ": ") + words_of(result));
  if (result.has_value()) {
    if (is_gone || is_broken) complain("work was added where nothing can be posted");
    if (request.is_wrong) complain("a request that makes no sense was added");
    added.items.push_back({request, std::move(handle)});
    return;
  }
  bool const is_so = [&] {
    switch (result.error().code()) {
      case Errc::stale_handle: return is_gone;
      case Errc::channel_broken: return model_.is_broken(added.end);
      case Errc::queue_full: return model_.is_hoarded(added.end);
      case Errc::timed_out:
      case Errc::cancelled: return true;
      case Errc::system_failed: return spy_.polls_failed > polls_failed;
      case Errc::already_borrowed:
        return added.has_unposted() ||
               model_.meets_a_loan(request.ranges, writes_here(request.operation));
      case Errc::invalid_argument: return request.is_wrong;
      default: return false;
    }
  }();
  if (!is_so)
    complain("work was not added for no reason that there is: " + result.error().message());
}

/// False where the batch was left as it was.
bool Run::post_added(Batch& batch, Added& added, Step const& step) {
  auto const deadline = deadline_of(step.numbers[5] / 4);
  auto const way = step.numbers[0] / 16 % 8;
  if (way == 0) return false;
  // A receive that nobody answers would keep the destructor waiting for room.
  auto const in_progress = std::ranges::count_if(model_.posts, [&](Posted const& post) {
    return post.end == added.end && post.operation == Operation::receive &&
           model_.is_in_progress(post);
  });
  if (way == 1 && std::cmp_less_equal(in_progress + added.unposted(true), program_.receive_depth)) {
    tell("  to be posted by its end");
    return true;
  }
  auto const held = std::ranges::count_if(
      added.items, [](Added::Item const& one) { return one.work.has_value(); });
  if (way < 4 && held > 0) {
    auto& item = *std::ranges::find_if(
        added.items, [left = static_cast<std::ptrdiff_t>(step.numbers[3]) % held](
                         Added::Item const& one) mutable { return one.work && left-- == 0; });
    auto const polls_failed = spy_.polls_failed;
    auto const waited = item.work->wait(deadline);
    tell("  wait for one: " + words_of(waited));
    note_added(added);
    if (!item.post && waited.has_value()) complain("work was over before it was posted");
    if (item.post) {
      Handle handle{std::move(*item.work), *item.post};
      check_answer(handle, in_words(waited), true, polls_failed);
      item.work = std::move(handle.work);
      item.told = std::move(handle.told);
    }
  }
  auto const posted = batch.post(deadline);
  note_added(added);
  tell("  post: " + words_of(posted));
  if (posted.has_value()) {
    if (batch.size() != 0) complain("a batch was posted, and has something left");
    bool const may_miss = model_.is_broken(added.end);  // told when it was posted before
    if (added.has_unposted() && !may_miss)
      complain("a batch was posted, and the device has not all of it");
    return true;
  }
  if (may_be_tried_again(posted.error())) return false;
  if (posted.error() != Errc::stale_handle && posted.error() != Errc::channel_broken)
    complain("a batch was not posted for no reason: " + posted.error().message());
  return true;
}

void Run::batch(Step const& step) {
  auto const chosen = chosen_scope(step);
  if (!chosen) return;
  Added added;
  added.scope = *chosen;
  added.end = model_.scopes[added.scope].end;
  added.noted = spy_.works().size();
  tell("batch of scope " + std::to_string(added.scope));
  try {
    auto batch = model_.scopes[added.scope].scope->batch();
    for (std::uint32_t i = 0; i < 1 + step.numbers[1] % 8; ++i) {
      Step one = step;
      for (auto& number : one.numbers) number = (number * (2 * i + 1) + i * 7919) % (1u << 16);
      add(batch, added, one);
    }
    if (!post_added(batch, added, step)) {
      added.dropped = batch.size();
      throw Left{};
    }
  } catch (Left const&) {
    tell("  left by an exception");
  }
  note_added(added);
  auto kept = added.items.size() - added.dropped;
  for (auto& item : added.items) {
    bool const is_dropped = kept == 0;
    if (!is_dropped) --kept;
    if (!item.work) {
      if (!item.post && !is_dropped) ++model_.scopes[added.scope].failed_unposted;
      continue;
    }
    if (item.post) {
      bool const is_kept = (step.numbers[4] + *item.post) % 3 == 0;
      model_.posts[*item.post].held = is_kept;
      if (is_kept) handles_.push_back({std::move(*item.work), *item.post, std::move(item.told)});
      continue;
    }
    auto const answer = item.work->poll();
    if (answer.has_value()) complain("a handle has no failure of work that is not posted");
  }
}

}  // namespace lend::test
