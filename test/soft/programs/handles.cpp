// SPDX-License-Identifier: MIT OR Apache-2.0
// What happens to handles, and to channels and regions while there are some.
#include <algorithm>
#include <new>
#include <utility>

#include "soft/programs/run.hpp"

namespace lend::test {

namespace {

std::string answer_words(Answer const& answer) {
  if (!answer.has_value()) return std::string{name_of(answer.error().code())};
  return answer.value().value_or("not yet");
}

}  // namespace

void Run::ask(Step const& step, bool waits) {
  if (handles_.empty()) return;
  auto const at = chosen_of(handles_, step.numbers[0]);
  auto const polls_failed = spy_.polls_failed;
  auto const answer =
      waits ? in_words(at->work.wait(deadline_of(step.numbers[1]))) : in_words(at->work.poll());
  tell(std::string{waits ? "wait for" : "poll"} + " work " + std::to_string(at->post) + ": " +
       answer_words(answer));
  check_answer(*at, answer, waits, polls_failed);
}

void Run::check_answer(Handle& handle, Answer const& answer, bool waits, unsigned polls_failed) {
  Posted& post = model_.posts[handle.post];
  Accepted const& work = model_.device_side(post);
  bool const is_stale = model_.ends[post.end].is_gone || post.retired;
  if (!is_result(answer, work, handle.told, is_stale, waits, polls_failed)) return;
  post.told = true;
  if (!answer.has_value()) {
    auto const* const failure = answer.error().work();
    if (failure == nullptr || failure->slot != work.slot() ||
        failure->status != static_cast<WorkStatus>(work.status))
      complain("a handle has the failure of other work");
    return;
  }
  auto const bytes = work.is_receive ? work.bytes_received : bytes_of(post.ranges);
  if (*answer.value() != told(WorkSuccess{post.operation, bytes, work.immediate, {}}))
    complain("a handle has the success of other work");
}

void Run::drop(Step const& step) {
  if (handles_.empty()) return;
  auto const at = chosen_of(handles_, step.numbers[0]);
  tell("drop work " + std::to_string(at->post));
  model_.posts[at->post].held = false;
  handles_.erase(at);
}

void Run::leak(Step const& step) {
  if (handles_.empty()) return;
  auto const at = chosen_of(handles_, step.numbers[0]);
  tell("leak work " + std::to_string(at->post));
  if (at->told) return;  // what it was told would leak for good
  alignas(PendingWork) std::byte nowhere[sizeof(PendingWork)];
  new (nowhere) PendingWork{std::move(at->work)};
  handles_.erase(at);
}

void Run::move(Step const& step) {
  if (handles_.empty()) return;
  auto const from = chosen_of(handles_, step.numbers[0]);
  auto const onto = chosen_of(handles_, step.numbers[1]);
  if (from == onto) {
    PendingWork moved{std::move(from->work)};
    // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
    auto const left = from->work.poll();
    if (left.has_value() || left.error() != Errc::stale_handle)
      complain("a handle that was moved from is not stale");
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
      complain("a channel is gone and its work in progress");
}

void Run::destroy_region(Step const& step) {
  auto const region = step.numbers[0] % model_.regions.size();
  if (!model_.regions[region]) return;
  model_.regions[region].reset();
  tell("destroy region " + std::to_string(region));
}

}  // namespace lend::test
