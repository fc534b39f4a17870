// SPDX-License-Identifier: MIT OR Apache-2.0
// Blocking calls: one post, one wait, and an abort if the wait gives up. The thread of the channel.
#include <channel/work/post.hpp>
#include <channel/work/waiting.hpp>
#include <lend/channel/channel.hpp>

#include <utility>

namespace lend {

using channel::ChannelState;

// ---- blocking calls ----

namespace channel {

namespace {

/// Waits for posted blocking work, which is aborted where the wait gives up. The poll after its
/// post brought `entries`.
[[nodiscard, gnu::cold, gnu::noinline]] WorkAnswer wait_or_abort(ChannelState& channel, SlotId id,
                                                                 verbs::PolledCompletions& entries,
                                                                 int polled,
                                                                 Deadline deadline) noexcept {
  auto const answer = wait_longer(channel, id, entries, polled, deadline);
  return answer.state() == WorkAnswer::State::unknown ? abort_and_ask(channel, id, deadline)
                                                      : answer;
}

/// The same of work that was posted the general way, if it was.
[[nodiscard, gnu::cold, gnu::noinline]] WorkAnswer wait_after_post(ChannelState& channel, SlotId id,
                                                                   Deadline deadline) noexcept {
  if (!id.is_valid()) return WorkAnswer{WorkAnswer::State::failed};
  verbs::PolledCompletions entries;
  int const polled = entries.poll(channel.raw_completions, verbs::poll_batch);
  return wait_or_abort(channel, id, entries, polled, deadline);
}

/// One post of plain work, and one wait.
template <class Work>
[[nodiscard, gnu::always_inline]] inline WorkAnswer run_plain(ChannelState& channel,
                                                              verbs::Plain<Work> plain,
                                                              Deadline deadline, char const* file,
                                                              unsigned line) noexcept {
  auto& form = form_of<Work>(channel);
  return channel::post<Lending::lends, Room::is_waited_for>(
      form, channel, plain, channel.unscoped, deadline, file, line,
      [&](Slot& slot, SlotId id) LEND_INLINED {
        InFlight& in_flight = channel.in_flight;
        constexpr Operation operation = verbs::operation_of<Work>;
        in_flight.observed.probe_post(slot, operation, form.entry.length);
        if (in_flight.observed.is_on()) [[unlikely]] {
          slot.work.operation = operation;
          slot.work.bytes = form.entry.length;
          in_flight.observed.post<operation>(slot);
        }
        verbs::PolledCompletions entries;
        int const polled = entries.poll(channel.raw_completions, verbs::poll_batch);
        if (polled != 1 || !is_success_of(channel, id, entries[0])) [[unlikely]] {
          open<true>(form, channel, channel.unscoped, slot, id, plain.peer);
          return wait_or_abort(channel, id, entries, polled, deadline);
        }
        in_flight.observed.probe_success(slot, operation);
        if (in_flight.observed.is_on()) [[unlikely]]
          in_flight.observed.succeed(slot, entries[0]);
        in_flight.skip(slot);
        return answer_of(channel, entries[0], operation, form.entry.length);
      },
      [&](SlotId id) LEND_INLINED { return wait_after_post(channel, id, deadline); });
}

}  // namespace

template <class Work>
WorkAnswer ChannelCalls<Work>::run(Channel& channel, verbs::RegionState* region, std::size_t offset,
                                   std::size_t length, char const* file, unsigned line,
                                   verbs::PeerPart<Work> peer) noexcept {
  ChannelState& state = ChannelState::of(channel);
  ChannelState::Use const use{state};
  verbs::Plain<Work> const plain{{region, {offset, length}}, peer};
  return run_plain(state, plain, Deadline::never(), file, line);
}

template <class Work>
WorkAnswer ChannelCalls<Work>::run_any(Channel& channel, Work const& work, Deadline deadline,
                                       SourceLine where) noexcept {
  ChannelState& state = ChannelState::of(channel);
  ChannelState::Use const use{state};
  auto const [file, line] = where;
  if (verbs::may_be_plain(work))
    return run_plain(state, verbs::plain_of(work), deadline, file, line);
  SlotId const id = channel::post<Lending::lends, Room::is_waited_for>(state, work, state.unscoped,
                                                                       deadline, where);
  return wait_after_post(state, id, deadline);
}

template struct ChannelCalls<Send>;
template struct ChannelCalls<Receive>;
template struct ChannelCalls<Write>;
template struct ChannelCalls<Read>;
template struct ChannelCalls<Atomic>;
template struct ChannelCalls<AddressedSend>;

}  // namespace channel

Error Channel::error_of_call() const noexcept {
  ChannelState& channel = ChannelState::of(*this);
  ChannelState::Use const use{channel};
  return channel.failures.take_last_error();
}

// ---- Channel ----

Channel::Channel(std::unique_ptr<ChannelState> state) noexcept : state_{std::move(state)} {}
Channel::Channel(Channel&&) noexcept = default;
Channel& Channel::operator=(Channel&&) noexcept = default;
Channel::~Channel() = default;

Result<PreparedChannel> Channel::prepare_again() && {
  if (state_ == nullptr)
    return Error{Errc::stale_handle, "this channel was moved from; prepare the one it moved to"};
  LEND_TRY(prepared, state_->prepare_again());
  prepared.follow(*state_);
  state_.reset();  // now its handles and scopes are stale
  return prepared;
}

ChannelMetrics const* Channel::metrics() const noexcept {
  ChannelState& channel = ChannelState::of(*this);
  ChannelState::Use const use{channel};
  return channel.metrics();
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
