// SPDX-License-Identifier: MIT OR Apache-2.0
// Blocking calls: one post, one wait, and a flush where the wait is given up. The thread of the
// channel.
#include <base/giving_up.hpp>
#include <channel/completing.hpp>
#include <channel/posting.hpp>
#include <lend/channel/channel.hpp>

#include <utility>

namespace lend {

namespace {

// Flushed, since the caller has its bytes back when its call returns. Whether it succeeded after
// all, else the reason() is why not.
[[gnu::cold]] bool flush_and_ask(ChannelState& state, SlotId id, Deadline deadline,
                                 WorkSuccess& success) noexcept {
  Error const why =
      is_given_up(state.reason()) ? state.flushed_at_deadline(id, deadline) : state.reason();
  state.flush(why);
  auto const answer = state.ask(id, success);
  // Unless it was over before the flush reached it, the reason for the flush is the story.
  if (answer != ChannelState::Answer::failed || state.reason().is_flush()) state.give_reason(why);
  return answer == ChannelState::Answer::succeeded;
}

// One post and one wait. False with a reason().
template <class Work>
[[gnu::always_inline]] inline bool run(ChannelState& state, Work const& work, Deadline deadline,
                                       SourceLine const& where, WorkSuccess& success) noexcept {
  SlotId id;
  if (!state.post<ChannelState::Lending::lends>(work, state.unscoped, where, id)) [[unlikely]] {
    id = state.post_when_room(work, state.unscoped, deadline, where);
    if (!id.is_valid()) {
      state.give_reason(state.take_reason_of_unposted(work, where));
      return false;
    }
  }
  auto const answer = state.wait_for_own(id, deadline, success);
  if (answer == ChannelState::Answer::unknown) [[unlikely]]
    return flush_and_ask(state, id, deadline, success);
  return answer == ChannelState::Answer::succeeded;
}

template <class Work>
[[gnu::always_inline]] inline Result<void> run(ChannelState& state, Work const& work,
                                               Deadline deadline, SourceLine where) noexcept {
  ChannelState::Use const use{state};
  WorkSuccess unused;
  if (!run(state, work, deadline, where, unused)) [[unlikely]]
    return state.take_reason();
  return success();
}

}  // namespace

Channel::Channel(std::unique_ptr<ChannelState> state) noexcept : state_{std::move(state)} {}
Channel::Channel(Channel&&) noexcept = default;
Channel& Channel::operator=(Channel&&) noexcept = default;
Channel::~Channel() = default;

Result<void> Channel::send(Send const& work, Deadline deadline, SourceLine where) noexcept {
  return run(ChannelState::of(*this), work, deadline, where);
}
Result<WorkSuccess> Channel::receive(Receive const& work, Deadline deadline,
                                     SourceLine where) noexcept {
  ChannelState& channel = ChannelState::of(*this);
  ChannelState::Use const use{channel};
  WorkSuccess success;
  if (!run(channel, work, deadline, where, success)) [[unlikely]]
    return channel.take_reason();
  return success;
}
Result<void> Channel::write(Write const& work, Deadline deadline, SourceLine where) noexcept {
  return run(ChannelState::of(*this), work, deadline, where);
}
Result<void> Channel::read(Read const& work, Deadline deadline, SourceLine where) noexcept {
  return run(ChannelState::of(*this), work, deadline, where);
}

std::span<Error const> Channel::last_failures() const noexcept {
  ChannelState& channel = ChannelState::of(*this);
  ChannelState::Use const use{channel};
  ScopeRecord& kept = channel.unscoped;
  if (kept.has_lost_failure) {
    static Error const lost{Errc::work_failed};
    if (kept.failures.empty()) return {&lost, 1};
    // Without a number, so that it stays the last. keep_as_seen() left room.
    if (kept.failures.size() == kept.seen_as.size()) kept.failures.push_back(lost);
  }
  return kept.failures;
}
Error const* Channel::first_cause() const noexcept {
  ChannelState& channel = ChannelState::of(*this);
  ChannelState::Use const use{channel};
  return channel.first_cause();
}
Endpoint const& Channel::endpoint() const noexcept {
  return ChannelState::of(*this).endpoint;
}
Endpoint const& Channel::peer() const noexcept {
  return ChannelState::of(*this).peer;
}
std::uint32_t Channel::send_depth() const noexcept {
  return ChannelState::of(*this).send_depth;
}
std::uint32_t Channel::receive_depth() const noexcept {
  return ChannelState::of(*this).receive_depth;
}
std::uint32_t Channel::inline_bytes() const noexcept {
  return ChannelState::of(*this).inline_bytes;
}
std::uint64_t Channel::message_bytes_max() const noexcept {
  return ChannelState::of(*this).message_bytes_max;
}

}  // namespace lend
