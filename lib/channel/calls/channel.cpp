// SPDX-License-Identifier: MIT OR Apache-2.0
// Blocking calls: one post, one wait, and an abort if the wait gives up. The thread of the channel.
#include <channel/work/posting_again.hpp>
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
[[nodiscard, gnu::cold, gnu::noinline]] WorkAnswer wait_or_abort(
    ChannelState& channel, SlotId id, verbs::PolledCompletions const& entries, int polled,
    Deadline deadline) noexcept {
  auto const answer = wait_longer(channel, id, entries, polled, deadline);
  return answer.state() == WorkAnswer::State::unknown ? abort_and_ask(channel, id, deadline)
                                                      : answer;
}

/// The same of work that was not posted at once, or not the plain way.
template <class Work>
[[nodiscard, gnu::cold, gnu::noinline]] WorkAnswer run_after(SlotId tried, ChannelState& channel,
                                                             Work const& work, Deadline deadline,
                                                             char const* file,
                                                             unsigned line) noexcept {
  SlotId const id = post_after<Lending::lends, Room::may_be_waited_for>(
      tried, channel, work, channel.unscoped, deadline, file, line);
  if (!id.is_valid()) return WorkAnswer{WorkAnswer::State::failed};
  verbs::PolledCompletions entries;
  int const polled = entries.poll(channel.raw_completions, verbs::poll_batch);
  return wait_or_abort(channel, id, entries, polled, deadline);
}

/// One post of prepared work, and one wait.
template <class Work>
[[nodiscard, gnu::always_inline]] inline WorkAnswer run_prepared(verbs::Form<Work>& form,
                                                                 ChannelState& channel,
                                                                 verbs::PeerPart<Work> const* peer,
                                                                 Prepared prepared,
                                                                 Deadline deadline) noexcept {
  ScopeRecord& scope = channel.unscoped;
  return post_prepared<Lending::lends>(
      form, channel, scope, peer, prepared,
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
        int polled = 0;
        if (!finds_only(channel, id, entries, polled)) [[unlikely]] {
          open<true>(form, channel, scope, slot, id, peer);
          return wait_or_abort(channel, id, entries, polled, deadline);
        }
        in_flight.observed.probe_success(slot, operation);
        if (in_flight.observed.is_on()) [[unlikely]]
          in_flight.observed.succeed(slot, entries[0]);
        in_flight.skip(slot);
        return answer_of(channel, entries[0], operation, form.entry.length);
      },
      [&](Work const& work, SourceLine where)
          LEND_INLINED { return run_after({}, channel, work, deadline, where.file, where.line); });
}

/// ChannelCalls::run() of what is not so simple; see post_otherwise() of a scope.
template <class Work, class... Peer>
[[gnu::noinline]] WorkAnswer run_otherwise(Channel& channel, verbs::RegionState* region,
                                           std::size_t offset, std::size_t length, char const* file,
                                           unsigned line, Peer const&... peer) noexcept {
  verbs::Plain<Work> const plain{{region, {offset, length}}, &peer...};
  return ChannelCalls<Work, Peer...>::run_any(channel, plain.work(), Deadline::never(),
                                              {file, line});
}

}  // namespace

template <class Work, class... Peer>
WorkAnswer ChannelCalls<Work, Peer...>::run(Channel& channel, verbs::RegionState* region,
                                            std::size_t offset, std::size_t length,
                                            char const* file, unsigned line,
                                            Peer const&... peer) noexcept {
  ChannelState& state = ChannelState::of(channel);
  if (state.is_free()) [[likely]] {
    ChannelState::Use const use{state, ChannelState::Use::Free{}};
    auto& form = form_of<Work>(state);
    verbs::Plain<Work> const plain{{region, {offset, length}}, &peer...};
    Prepared prepared;
    if (prepare<Lending::lends>(prepared, form, state, plain, file, line)) [[likely]]
      return run_prepared(form, state, plain.peer, prepared, Deadline::never());
  }
  return run_otherwise<Work>(channel, region, offset, length, file, line, peer...);
}

template <class Work, class... Peer>
WorkAnswer ChannelCalls<Work, Peer...>::run_any(Channel& channel, Work const& work,
                                                Deadline deadline, SourceLine where) noexcept {
  ChannelState& state = ChannelState::of(channel);
  ChannelState::Use const use{state};
  auto const [file, line] = where;
  if (verbs::may_be_plain(work)) {
    auto& form = form_of<Work>(state);
    auto const plain = verbs::plain_of(work);
    Prepared prepared;
    if (prepare<Lending::lends>(prepared, form, state, plain, file, line)) [[likely]]
      return run_prepared(form, state, plain.peer, prepared, deadline);
  }
  SlotId const tried = post_general<Lending::lends>(state, work, state.unscoped, file, line);
  return run_after(tried, state, work, deadline, file, line);
}

template struct ChannelCalls<Send>;
template struct ChannelCalls<Receive>;
template struct ChannelCalls<Write, RemoteSlice>;
template struct ChannelCalls<Read, RemoteSlice>;
template struct ChannelCalls<Atomic, AtomicChange>;
template struct ChannelCalls<AddressedSend, Destination>;

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
