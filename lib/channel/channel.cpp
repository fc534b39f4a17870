// SPDX-License-Identifier: MIT OR Apache-2.0
#include <base/giving_up.hpp>
#include <channel/completing.hpp>
#include <channel/posting.hpp>
#include <lend/channel/channel.hpp>

#include <utility>

namespace lend {

namespace {

template <class Work>
[[gnu::cold, gnu::noinline]] SlotId wait_and_post(ChannelState& state, Work const& work,
                                                  ScopeRecord& record, Deadline deadline,
                                                  SourceLine where, Error& why) noexcept {
  RoomWait wait = state.make_waiter();
  for (;;) {
    if (auto room = state.wait_for_room(operation_of<Work>, deadline, wait); !room.has_value()) {
      why = std::move(room).assume_error();
      return {};
    }
    SlotId const id = state.post<ChannelState::Lending::lends>(work, &record, where, why);
    if (id.is_valid() || why != Errc::queue_full) return id;
  }
}

// Flushed, since the caller has its bytes back when its call returns.
[[gnu::cold]] ChannelState::Answer flush_and_ask(ChannelState& state, SlotId id, Deadline deadline,
                                                 WorkSuccess& success, Error& why) noexcept {
  if (is_given_up(why)) why = state.flushed_at_deadline(id, deadline);
  state.flush(why);
  Error late;
  auto const answer = state.ask(id, success, late);
  // Unless it was over before the flush reached it, the reason for the flush is the story.
  if (answer == ChannelState::Answer::failed && !late.is_flush()) why = late;
  return answer;
}

// One post and one wait.
template <class Work>
[[gnu::always_inline]] inline Result<WorkSuccess> run(ChannelState& state, Work const& work,
                                                      Deadline deadline,
                                                      SourceLine where) noexcept {
  ChannelState::Use const use{state};
  ScopeRecord record;
  Error why;
  SlotId id = state.post<ChannelState::Lending::lends>(work, &record, where, why);
  if (!id.is_valid()) [[unlikely]] {
    if (why == Errc::queue_full) id = wait_and_post(state, work, record, deadline, where, why);
    if (!id.is_valid()) return why;
  }
  WorkSuccess success;
  auto answer = state.wait(id, deadline, success, why);
  if (answer == ChannelState::Answer::unknown) [[unlikely]]
    answer = flush_and_ask(state, id, deadline, success, why);
  if (answer == ChannelState::Answer::succeeded) [[likely]]
    return success;
  return why;
}

Result<void> without_value(Result<WorkSuccess> result) noexcept {
  if (!result.has_value()) return std::move(result).assume_error();
  return success();
}

}  // namespace

Channel::Channel(std::unique_ptr<ChannelState> state) noexcept : state_{std::move(state)} {}
Channel::Channel(Channel&&) noexcept = default;
Channel& Channel::operator=(Channel&&) noexcept = default;
Channel::~Channel() = default;

ChannelState& Channel::state() const noexcept {
  if (state_ == nullptr) [[unlikely]]
    stop("a Channel was used after it had been moved from");
  return *state_;
}

ChannelState& unsafe_state(Channel& channel) noexcept {
  return channel.state();
}

Result<void> Channel::send(Send const& work, Deadline deadline, SourceLine where) noexcept {
  return without_value(run(state(), work, deadline, where));
}
Result<WorkSuccess> Channel::receive(Receive const& work, Deadline deadline,
                                     SourceLine where) noexcept {
  return run(state(), work, deadline, where);
}
Result<void> Channel::write(Write const& work, Deadline deadline, SourceLine where) noexcept {
  return without_value(run(state(), work, deadline, where));
}
Result<void> Channel::read(Read const& work, Deadline deadline, SourceLine where) noexcept {
  return without_value(run(state(), work, deadline, where));
}

std::span<Error const> Channel::last_failures() const noexcept {
  ChannelState::Use const use{state()};
  return state().last_failures;
}
Error const* Channel::first_cause() const noexcept {
  ChannelState::Use const use{state()};
  return state().first_cause();
}
Endpoint const& Channel::endpoint() const noexcept {
  return state().endpoint;
}
Endpoint const& Channel::peer() const noexcept {
  return state().peer;
}
std::uint32_t Channel::send_depth() const noexcept {
  return state().send_depth;
}
std::uint32_t Channel::receive_depth() const noexcept {
  return state().receive_depth;
}
std::uint32_t Channel::inline_bytes() const noexcept {
  return state().inline_bytes;
}
std::uint64_t Channel::message_bytes_max() const noexcept {
  return state().message_bytes_max;
}

}  // namespace lend
