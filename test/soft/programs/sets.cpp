// SPDX-License-Identifier: MIT OR Apache-2.0
// Scopes of the set: which channels they name, and how they end.
#include <algorithm>
#include <utility>

#include "soft/programs/run.hpp"

namespace lend::test {

using namespace std::chrono_literals;

std::vector<std::size_t> Run::open_members(SetFrame const& frame) {
  std::vector<std::size_t> members;
  for (auto const scope : frame.members)
    if (!model_.scopes[scope].has_ended && !model_.ends[model_.scopes[scope].end].is_gone)
      members.push_back(scope);
  return members;
}

std::optional<std::size_t> Run::on(SetFrame& frame, std::size_t end) {
  if (model_.ends[end].is_gone) return {};
  auto const named = frame.scope->on(*model_.ends[end].channel);
  if (!named.has_value()) {
    if (!frame.has_ended || named.error() != Errc::stale_handle)
      complain("a scope of the set refuses a channel: " + named.error().message());
    return {};
  }
  if (frame.has_ended) complain("a scope of the set names a channel after its end");
  auto const same = std::ranges::find(
      frame.members, end, [this](std::size_t scope) { return model_.scopes[scope].end; });
  if (same != frame.members.end() && !model_.scopes[*same].has_ended) {
    if (model_.scopes[*same].scope != named.value())
      complain("a scope of the set has two scopes of one channel");
    return *same;
  }
  auto const scope = enter(end, false);
  model_.scopes[scope].scope = named.value();
  tell("on end " + std::to_string(end) + ": scope " + std::to_string(scope));
  if (same != frame.members.end())
    *same = scope;
  else
    frame.members.push_back(scope);
  return scope;
}

std::optional<std::size_t> Run::chosen_scope(Step const& step) {
  auto const number = step.numbers[0];
  if (!frames_.empty() && (open_.empty() || number / 1024 % 2 == 0))
    return on(*frames_.back(), number / 2048 % model_.ends.size());
  if (open_.empty()) return {};
  return number % 16 == 0 ? open_.front() : open_.back();
}

void Run::open_set(Step const& step) {
  if (!set_ || depth() >= depth_max) return;
  if (step.numbers[1] % 8 != 0) return run_set(step);
  run_while_unwinding([&] { run_set(step); });
}

void Run::run_set(Step const& step) {
  std::optional<std::uint32_t> levels;
  bool finished = false;
  SetFrame frame;
  try {
    SetScope scope{*set_};
    frame.scope = &scope;
    auto const way = inhabit_set(frame, step);
    if (way == Way::exception) throw Leave{levels_};
    if (way == Way::value && !frame.has_ended) {
      finish_set(frame);
      finished = true;
    }
  } catch (Leave const& leave) {
    levels = leave.scopes;
  }
  if (!finished) leave_set(frame, levels.has_value());
  leave_more(levels);
}

Run::Way Run::inhabit_set(SetFrame& frame, Step const& step) {
  auto const bound = step.numbers[2] % 8;
  if (bound < 3) {
    frame.scope->drain_within(bound * short_bound);
    frame.is_bounded = true;
  }
  if (bound == 3 || bound == 4) {
    frame.scope->drain_until(within(10s).unless(bound == 3 ? cancelled_ : never_cancelled_));
    frame.may_be_cancelled = bound == 3;
  }
  tell("open a scope of the set" +
       (frame.is_bounded ? ", drains within " + std::to_string(bound * 100) + " us" : "") +
       (frame.may_be_cancelled ? ", drain cancelled {" : " {"));
  frames_.push_back(&frame);
  Way way = run_until_left();
  frames_.pop_back();
  if (frame.has_ended) return way;
  prepare_end(frame);
  // What the first one waits for, others may be waiting for, too.
  bool is_first = true;
  for (auto const scope : open_members(frame)) {
    OpenScope& member = model_.scopes[scope];
    member.was_broken = model_.is_broken(member.end);
    member.had_work = model_.has_work_in_progress(scope);
    member.had_receives = std::exchange(is_first, false) && model_.has_receives_in_progress(scope);
  }
  return way;
}

/// Its bound is that of all its scopes. Nobody will answer what is not answered by now.
void Run::prepare_end(SetFrame& frame) {
  auto const members = open_members(frame);
  auto const receives = [this](std::size_t scope) {
    return model_.has_receives_in_progress(scope) && !model_.scopes[scope].is_bounded;
  };
  if (!frame.is_bounded && std::ranges::any_of(members, receives)) {
    frame.scope->drain_within(short_bound);
    frame.is_bounded = true;
  }
  for (auto const scope : members) {
    model_.scopes[scope].is_bounded |= frame.is_bounded;
    model_.scopes[scope].may_be_cancelled |= frame.may_be_cancelled;
  }
}

void Run::finish_set(SetFrame& frame) {
  std::vector<SetMember> members;
  if (!frame.has_ended) {
    prepare_end(frame);
    for (auto const scope : open_members(frame))
      members.push_back({scope, model_.before_end_of(scope, std::nullopt)});
  }
  auto const result = frame.scope->finish();
  tell("} the scope of the set finished: " + words_of(result));
  if (std::exchange(frame.has_ended, true)) {
    if (result.has_value() || result.error() != Errc::stale_handle)
      complain("a scope of the set was finished twice");
    return;
  }
  model_.after_end_of_set(members,
                          result.has_value() ? std::nullopt : std::optional{result.error()});
  leave_gone(frame);
}

void Run::leave_set(SetFrame& frame, bool by_exception) {
  tell(by_exception ? "} the scope of the set left by an exception"
                    : "} the scope of the set left");
  if (std::exchange(frame.has_ended, true)) return;
  auto const members = open_members(frame);
  if (members.size() > 1)
    for (auto const scope : members) model_.allow_replaced_failures(model_.scopes[scope].end);
  for (auto const scope : members) model_.after_destruction_of(scope, by_exception);
  leave_gone(frame);
}

/// A channel that is gone has taken its failures along.
void Run::leave_gone(SetFrame& frame) {
  for (auto const scope : frame.members)
    if (!model_.scopes[scope].has_ended) model_.after_destruction_of(scope, false);
}

}  // namespace lend::test
