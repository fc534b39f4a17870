// SPDX-License-Identifier: MIT OR Apache-2.0
// Scopes of datagrams, in and out; the program's beginning and its end. One thread.
#include "soft/programs/datagram_run.hpp"

#include <algorithm>
#include <array>
#include <random>
#include <utility>

#include "support/two_ends.hpp"

namespace lend::test {

using namespace std::chrono_literals;

void DatagramRun::begin() {
  std::mt19937 draw{program_.send_depth};
  for (int i = 0; i < 2; ++i) {
    auto& region = *regions_.emplace_back(must(domain_->allocate(bytes_of_region)));
    for (auto& byte : must(region.mutable_bytes(0, bytes_of_region)))
      byte = static_cast<std::byte>(draw());
  }
  DatagramChannelOptions options;
  options.wait = program_.wait;
  options.queue_pair.send_depth = program_.send_depth;
  options.queue_pair.receive_depth = program_.receive_depth;
  options.queue_pair.inline_bytes = program_.inline_bytes;
  if (set_) options.wait_set = &*set_;
  for (std::size_t i = 0; i < ends_of_program; ++i) {
    options.tag = i;
    auto channel = std::make_unique<DatagramChannel>(must(open_channel(*domain_, options)));
    auto const number = channel->address().queue_pair_number.value();
    ends_.push_back({std::move(channel), number, false, {}});
  }
  for (auto const& from : ends_)
    for (auto const& to : ends_)
      ways_.push_back({static_cast<std::size_t>(&from - ends_.data()),
                       must(from.channel->destination(to.channel->address()))});
}

void DatagramRun::take(Step const& step) {
  switch (step.what) {
    case Do::open: return open(step);
    case Do::open_set: return open_set();
    case Do::finish: return finish(step);
    case Do::post: return post(step);
    case Do::batch: return batch(step);
    case Do::block: return block(step);
    case Do::poll: return ask(step, false);
    case Do::wait: return ask(step, true);
    case Do::ask_set: return ask_set(step);
    case Do::drop: return drop(step);
    case Do::recall: return recall(step);
    case Do::renew_destination: return renew_destination(step);
    case Do::destroy_channel: return destroy_end(step.numbers[0] % ends_.size());
    case Do::destroy_region: regions_[step.numbers[0] % 2].reset(); return tell("destroy region");
    case Do::fail_polls: spy_.polls_to_fail = 1; return tell("the next poll fails");
    case Do::refuse_flushes: spy_.flushes_fail = true; return tell("flushes are refused");
    default: return;  // of no program of datagrams
  }
}

void DatagramRun::open(Step const& step) {
  auto const end = step.numbers[0] % ends_.size();
  if (ends_[end].is_gone || depth() >= depth_max) return;
  Frame frame;
  auto const scope = scopes_.size();
  std::vector<std::size_t> others;
  try {
    DatagramScope datagrams{*ends_[end].channel};
    scopes_.push_back({end, &datagrams});
    frame.scopes.push_back(scope);
    tell("open scope " + std::to_string(scope) + " of end " + std::to_string(end) + " {");
    frames_.push_back(&frame);
    bool const is_left = leaves_by_exception(run_block());
    frames_.pop_back();
    auto const state = before(end, true);
    others = rooms_of_others(scope);
    if (is_left) throw Left{};
    if (step.numbers[1] % 3 != 0 && !scopes_[scope].has_ended) {
      auto const result = datagrams.finish();
      tell("} finished: " + words_of(result));
      note_finish(scope, others, result, state);
    }
  } catch (Left const&) {
    tell("} left by an exception");
  }
  if (scopes_[scope].has_ended) return;
  tell("} left");
  note_end(scope, others);
}

void DatagramRun::open_set() {
  if (!set_ || depth() >= depth_max) return;
  Frame frame;
  std::vector<std::size_t> members;
  bool has_failed = false;
  try {
    SetScope scope{*set_};
    frame.of_set = &scope;
    tell("open a scope of the set {");
    frames_.push_back(&frame);
    bool const is_left = leaves_by_exception(run_block());
    frames_.pop_back();
    for (auto const member : frame.scopes)
      if (!scopes_[member].has_ended) members.push_back(member);
    if (is_left) throw Left{};
    auto const result = scope.finish();
    tell("} finished: " + words_of(result));
    bool const may_fail = !program_.faults.empty() || spy_.polls_failed + spy_.flushes_refused > 0;
    if (!result.has_value() && !may_fail)
      complain("a scope of the set failed for no reason: " + result.error().message());
    // What failed on a channel that is gone has gone with it.
    for (auto const member : members)
      has_failed |= note_end(member, {}) && !ends_[scopes_[member].end].is_gone;
    if (result.has_value() && has_failed)
      complain("a scope of the set whose work failed ended well");
  } catch (Left const&) {
    tell("} left by an exception");
    for (auto const member : members) note_end(member, {});
  }
}

std::optional<std::size_t> DatagramRun::chosen_scope(Step const& step) {
  if (frames_.empty()) return {};
  Frame& frame = *frames_[step.numbers[0] % 8 == 0 ? 0 : frames_.size() - 1];
  if (frame.of_set == nullptr) return frame.scopes.front();
  auto const end = step.numbers[0] / 8 % ends_.size();
  if (ends_[end].is_gone) return {};
  auto const named = must(frame.of_set->on(*ends_[end].channel));
  for (auto const scope : frame.scopes)
    if (scopes_[scope].end == end && !scopes_[scope].has_ended) {
      if (scopes_[scope].scope != named) complain("a scope of the set has two scopes of a channel");
      return scope;
    }
  scopes_.push_back({end, named});
  frame.scopes.push_back(scopes_.size() - 1);
  return frame.scopes.back();
}

void DatagramRun::finish(Step const& step) {
  auto const scope = chosen_scope(step);
  if (!scope) return;
  auto const end = scopes_[*scope].end;
  auto const state = before(end, true);
  auto const others = rooms_of_others(*scope);
  if (scopes_[*scope].has_ended) return;
  auto const result = scopes_[*scope].scope->finish();
  tell("finish scope " + std::to_string(*scope) + ": " + words_of(result));
  note_finish(*scope, others, result, state);
}

void DatagramRun::recall(Step const& step) {
  auto const scope = chosen_scope(step);
  if (!scope || scopes_[*scope].has_ended) return;
  auto const end = scopes_[*scope].end;
  auto const state = before(end, true);
  auto const others = rooms_of_others(*scope);
  auto const result = scopes_[*scope].scope->recall(within(10s));
  tell("recall of scope " + std::to_string(*scope) + ": " + words_of(result));
  if (result.has_value()) return note_recall(*scope, others);
  auto const& error = result.error();
  bool const by_end = error == Errc::stale_handle && ends_[end].is_gone;
  bool const is_broken_first = error == Errc::channel_broken && is_broken(end);
  bool const by_queue =
      error == Errc::system_failed &&
      (spy_.polls_failed > state.polls_failed || spy_.flushes_refused > state.flushes_refused);
  if (!by_end && !is_broken_first && !by_queue)
    complain("a recall fails for no reason that there is: " + error.message());
}

void DatagramRun::destroy_end(std::size_t end) {
  if (ends_[end].is_gone) return;
  ends_[end].is_gone = true;
  ends_[end].channel.reset();
  tell("destroy channel " + std::to_string(end));
  for (auto& post : posts_)
    if (post.end == end && is_in_progress(post))
      complain("a channel is gone and its work in progress");
}

void DatagramRun::ask_set(Step const& step) {
  if (!set_) return;
  auto const in_progress = [this] {
    std::array<std::ptrdiff_t, ends_of_program> counts{};
    for (std::size_t end = 0; end < counts.size(); ++end)
      counts[end] = std::ranges::count_if(
          posts_, [&](Post& post) { return post.end == end && is_in_progress(post); });
    return counts;
  };
  auto const before = in_progress();
  auto const polls_failed = spy_.polls_failed;
  std::array<Ready, 6> room;
  auto const ready = step.numbers[0] % 2 == 0 ? set_->poll(room) : set_->wait(room, within(50us));
  auto const after = in_progress();
  if (!ready.has_value()) {
    tell("ask the set: " + std::string{name_of(ready.error().code())});
    if (spy_.polls_failed == polls_failed && (ready.error() != Errc::timed_out || before != after))
      complain("a set fails for no reason");
    return;
  }
  tell("ask the set: " + std::to_string(ready.value().size()) + " have news");
  for (std::size_t end = 0; end < ends_of_program; ++end) {
    auto const times = std::ranges::count(ready.value(), end, &Ready::tag);
    if (times > 1 || (times > 0 && ends_[end].is_gone)) complain("a set names a channel wrongly");
    if (times == 0 && after[end] < before[end])
      complain("a set does not name a channel whose work it has seen end");
  }
}

void DatagramRun::end() {
  for (auto const& handle : handles_) posts_[handle.post].held = false;
  handles_.clear();
  check();
  check_slots();
  auto const first = program_.steps.size() % ends_.size();
  for (std::size_t i = 0; i < ends_.size(); ++i) destroy_end((first + i) % ends_.size());
  check();
  ways_.clear();
  regions_.clear();
}

/// Of each channel that is whole.
void DatagramRun::check_slots() {
  bool const is_calm = calm_down();
  spy_.flushes_fail = false;
  for (std::size_t end = 0; end < ends_.size(); ++end) {
    if (!is_calm || ends_[end].is_gone || is_broken(end) || !regions_[0] || !violation().empty())
      continue;
    DatagramChannel& channel = *ends_[end].channel;
    Destination const to_itself = must(channel.destination(channel.address()));
    DatagramScope scope{channel};
    fill_slots(program_.slots(), [&](std::uint32_t i) {
      return scope.post_send(regions_[0]->gather(i, 1), to_itself, within(10s));
    });
    if (!scope.finish().has_value()) complain("a channel that was whole is not");
  }
}

}  // namespace lend::test
