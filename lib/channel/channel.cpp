// SPDX-License-Identifier: MIT OR Apache-2.0
// Blocking calls: one post, one wait, and an abort if the wait gives up. The thread of the channel.
#include <channel/posting.hpp>
#include <channel/waiting.hpp>
#include <lend/channel/channel.hpp>

#include <utility>

namespace lend {

using channel::ChannelState;
using channel::WorkAnswer;

namespace {

// One post and one wait. False with a last_error().
template <class Work>
[[gnu::always_inline]] inline bool run(ChannelState& state, Work const& work, Deadline deadline,
                                       SourceLine const& where, WorkSuccess& success) noexcept {
  constexpr Operation operation = verbs::operation_of<Work>;
  channel::InFlight& in_flight = state.in_flight;
  bool is_noted = true;
  base::SlotId id =
      channel::try_to_post<channel::Lending::lends>(state, work, state.unscoped, where, is_noted);
  if (!id.is_valid()) [[unlikely]] {
    id = channel::post_when_room(state, work, state.unscoped, deadline, where);
    if (!id.is_valid()) {
      state.failures.set_last_error(channel::take_error_of(state, work, where));
      return false;
    }
  }
  channel::Slot& slot = in_flight.slot(id);
  verbs::PolledCompletions entries;
  int polled = 0;
  if (channel::finds_only(state, id, slot, entries, polled)) [[likely]] {
    if (is_noted) [[unlikely]]
      in_flight.note_over(operation, state.unscoped);
    if constexpr (operation == Operation::receive)
      success = channel::result_of(entries[0], operation, 0);
    in_flight.free_at_once(slot);
    return true;
  }
  if (!is_noted) in_flight.note_posted(operation, state.unscoped);
  state.progress.hand_out(entries, polled);
  if (!slot.finished && !channel::wait_longer(state, id, slot, polled, deadline)) [[unlikely]]
    return channel::abort_and_ask(state, id, deadline, success);
  auto const keep = [&success](WorkSuccess const& result) { success = result; };
  return collect(state, slot, keep) == WorkAnswer::succeeded;
}

template <class Work>
[[gnu::always_inline]] inline Result<void> run(ChannelState& state, Work const& work,
                                               Deadline deadline,
                                               SourceLine const& where) noexcept {
  ChannelState::Use const use{state};
  WorkSuccess unused;
  if (!run(state, work, deadline, where, unused)) [[unlikely]]
    return state.failures.take_last_error();
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
    return channel.failures.take_last_error();
  return success;
}
Result<void> Channel::write(Write const& work, Deadline deadline, SourceLine where) noexcept {
  return run(ChannelState::of(*this), work, deadline, where);
}
Result<void> Channel::read(Read const& work, Deadline deadline, SourceLine where) noexcept {
  return run(ChannelState::of(*this), work, deadline, where);
}
Result<void> Channel::atomic(Atomic const& work, Deadline deadline, SourceLine where) noexcept {
  return run(ChannelState::of(*this), work, deadline, where);
}

Result<PreparedChannel> Channel::prepare_again() && {
  if (state_ == nullptr)
    return Error{Errc::stale_handle, "this channel was moved from; prepare the one it moved to"};
  LEND_TRY(prepared, state_->prepare_again());
  prepared.follow(*state_);
  state_.reset();  // now its handles and scopes are stale
  return prepared;
}

std::span<Error const> Channel::last_failures() const noexcept {
  ChannelState& channel = ChannelState::of(*this);
  ChannelState::Use const use{channel};
  channel::ScopeRecord& kept = channel.unscoped;
  if (kept.has_lost_failure) {
    static Error const lost{Errc::work_failed};
    if (kept.failures.empty()) return {&lost, 1};
    // Without a sequence number, so that it stays the last. FailureLog::keep() left room.
    if (kept.failures.size() == kept.seen_as.size()) kept.failures.push_back(lost);
  }
  return kept.failures;
}
Error const* Channel::first_cause() const noexcept {
  ChannelState& channel = ChannelState::of(*this);
  ChannelState::Use const use{channel};
  return channel.failures.first_cause();
}
Endpoint const& Channel::endpoint() const noexcept {
  return ChannelState::of(*this).connection.own();
}
Endpoint const& Channel::peer() const noexcept {
  return ChannelState::of(*this).connection.peer();
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
