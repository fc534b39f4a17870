// SPDX-License-Identifier: MIT OR Apache-2.0
// Creates a channel's parts, and hands them completions. One thread at a time.
#include <channel/state/breaking.hpp>
#include <channel/state/channel_state.hpp>
#include <channel/state/ending.hpp>
#include <channel/state/pool_state.hpp>
#include <channel/state/preparing.hpp>
#include <channel/state/set_state.hpp>

#include <algorithm>
#include <new>
#include <utility>

namespace lend::channel {

// ---- construction and destruction ----

namespace {

void begin_to_count(Observation& observed, ObserveOptions const& wish, Progress& progress) {
  auto const directory = observe::directory_for(wish.record_in);
  if (wish.metrics || !directory || !directory.value().empty()) {
    std::shared_ptr<observe::Observer> own{new observe::Observer{wish.name}};
    own->record_in(directory);
    observed.begin(std::move(own), true);
  } else if (observe::all_count()) {
    observed.begin(progress.shared_observer(wish.name), false);
  }
}

}  // namespace

ChannelState::ChannelState(ProtectionDomain const& domain, std::shared_ptr<Progress> shared,
                           PreparedQueuePair queue_pair, ChannelOptions const& options,
                           PoolState* of_pool)
    : progress_{std::move(shared)},
      user_{progress_->user()},
      domain_{domain},
      options_{options},
      raw_completions{progress_->raw()},
      connection{std::move(queue_pair), options_.peer_name},
      // The granted number of elements: more may be posted than was requested.
      in_flight{options.queue_pair.send_depth, options.queue_pair.receive_depth,
                std::max(connection.raw().elements, connection.raw().receive_elements), failures},
      datagrams{connection.is_for_datagrams()
                    ? std::make_unique<DatagramState>(in_flight.slots.capacity())
                    : nullptr},
      watch{connection, in_flight.room, failures,
            // On iWARP a write completes once it is sent, which says nothing about the peer.
            connection.raw().domain->context->is_iwarp()
                ? std::chrono::nanoseconds{0}
                : options.keep_alive.value_or(std::chrono::nanoseconds{0}),
            of_pool != nullptr},
      progress{*progress_},
      pool{of_pool},
      has_pool{of_pool != nullptr},
      send_depth{options.queue_pair.send_depth},
      receive_depth{options.queue_pair.receive_depth},
      inline_bytes{connection.raw().inline_bytes},
      message_bytes_max{connection.raw().message_bytes_max} {
  in_flight.observed.set_queue_pair(connection.number());
  if (observe::is_built) begin_to_count(in_flight.observed, options_.observe, progress);
  if (pool != nullptr) pool->users.append(as_user);
}

Result<PreparedChannel> ChannelState::prepare(ProtectionDomain const& domain,
                                              std::shared_ptr<Progress> progress,
                                              ChannelOptions const& options,
                                              verbs::ServiceChoice service, PoolState* pool) try {
  LEND_TRY(queue_pair,
           verbs::QueuePairAccess::prepare(domain, progress->queue(), options.queue_pair, service,
                                           pool != nullptr ? &pool->queue() : nullptr));
  std::unique_ptr<ChannelState> state{
      new ChannelState{domain, std::move(progress), std::move(queue_pair), options, pool}};
  bool const is_attached = [&state = *state] {
    Use const use{state};
    return state.progress.attach(state, state.connection.number());
  }();
  if (!is_attached) return Errc::exhausted;
  state->reference_ = acquire_anchor(state.get());
  if (state->reference_.anchor == nullptr) return Errc::exhausted;
  return PreparedChannel{std::move(state)};
} catch (std::bad_alloc const&) {
  return Errc::exhausted;
}

namespace {

observe::EndName end_name_of(Endpoint const& end) noexcept {
  return {end.gid, end.queue_pair_number.value(), end.lid};
}

}  // namespace

Result<Channel> ChannelState::activate(PreparedChannel prepared) {
  LEND_TRYV(prepared.state_->connection.activate());
  prepared.state_->begin();
  return Channel{std::move(prepared.state_)};
}

void ChannelState::begin() noexcept {
  // Of datagrams the MTU: the limit of a post holds for their rooms, too, which are longer.
  message_bytes_max = connection.is_for_datagrams() ? connection.own().mtu_bytes
                                                    : connection.raw().message_bytes_max;
  in_flight.observed.name_ends(
      end_name_of(connection.own()),
      connection.is_for_datagrams() ? observe::EndName{} : end_name_of(connection.peer()),
      connection.service().service == Service::reliable_connection);
  verbs::ConnectionKeeper const* const keeper = connection.raw().keeper.get();
  SetState* const set = progress.set();
  watch.begin(keeper != nullptr,
              keeper != nullptr && set != nullptr && set->hear(*this, keeper->descriptor()));
  if (watch.is_timed()) progress.look_after(*this);
}

ChannelState::~ChannelState() {
  // In a forked child the work is the parent's, and a thread that the child does not have may be in
  // the middle of a call: nothing is ended, and no lock is taken.
  if (origin_.is_inherited()) {
    if (reference_.anchor != nullptr) leave_anchor(reference_.anchor);
    end_scopes();
    in_flight.rows.leak();
    return;
  }
  Use const use{*this};
  Ending{*this}.end_channel();
  as_ready.leave();
  as_looked_after.leave();
  as_user.leave();
  end_scopes();
  if (reference_.anchor != nullptr) release_anchor(reference_.anchor);
}

ChannelMetrics const* ChannelState::metrics() noexcept {
  if (!in_flight.observed.is_alone()) return nullptr;
  observe::Observer* const observer = in_flight.observed.observer();
  WaitCounts const& waits = progress.wait_counts();
  observer->metrics.yields = waits.yields;
  observer->metrics.naps = waits.naps;
  observer->metrics.sleeps = waits.sleeps;
  return &observer->metrics;
}

void ChannelState::end_scopes() noexcept {
  while (ScopeRecord* const scope = scopes.take_first()) scope->channel = nullptr;
}

void ChannelState::stop_for_moved() noexcept {
  stop("a Channel was used after it had been moved from");
}

namespace {

// Without memory the error has no text; the channel is broken nevertheless.
Error prepared_again() noexcept try {
  return {Errc::channel_broken, "the channel was prepared again"};
} catch (std::bad_alloc const&) {
  return Errc::channel_broken;
}

}  // namespace

Result<PreparedChannel> ChannelState::prepare_again() {
  {
    Use const use{*this};
    // Before the next queue pair is made, because there may be room for only one.
    Ending{*this}.end_connection(prepared_again());
  }
  SetState* const set = progress.set();
  if (has_pool && pool == nullptr)
    return Error{Errc::invalid_argument,
                 "the channel's ReceivePool has ended: build another channel, with another pool"};
  auto const service = connection.service();
  if (set != nullptr) return prepare_in(*set, domain_, options_, pool, service);
  return Preparing::prepare(domain_, options_, service);
}

// ---- completions ----

Result<std::uint32_t> ChannelState::poll() noexcept {
  int const count = progress.poll();
  if (count < 0) [[unlikely]]
    return poll_failure(*this, count);
  if (count == 0) count_empty_poll();
  return static_cast<std::uint32_t>(count);
}

Result<bool> ChannelState::poll_or_pause(Waiter& waiter, Deadline deadline) noexcept {
  LEND_TRY(count, poll());
  if (count == 0) return pause(waiter, deadline);
  waiter.reset();
  // Completions for other channels do not prolong this wait.
  return !progress.is_shared() || !deadline.has_passed();
}

Result<bool> ChannelState::poll_for_news() noexcept {
  LEND_TRY(count, poll());
  if (count == 0) losses.look_now();
  return news.take();
}

[[gnu::cold]] std::uint32_t ChannelState::note_returned(std::uint32_t key) noexcept {
  if (peer_loans != nullptr) peer_loans->end_returned(key);
  return key;
}

[[gnu::noinline]] void ChannelState::succeed_unusually(SlotId id, Slot& slot,
                                                       verbs::CompletionEntry entry) noexcept {
  if (slot.is_datagram) datagrams->note(id, entry);
  if (slot.work.operation == Operation::receive) {
    if (entry.has_returned()) note_returned(entry.returned());
    slot.work.note(entry);
  }
  in_flight.succeed(slot);
}

[[gnu::cold]] void ChannelState::complete_unusual(SlotId id,
                                                  verbs::CompletionEntry entry) noexcept {
  if (Slot* const slot = in_flight.slots.find(id)) {
    if (slot->is_datagram && datagrams->takes_back(entry)) return;
    return fail(*this, id, *slot, entry.failure());
  }
  LEND_ASSERT(id.value == PeerWatch::probe_id);
  std::optional<FailedWork> failed;
  if (entry.has_failed()) failed = entry.failure();
  // One that was only flushed says no more than what flushed it.
  if (failed && failed->status != WorkStatus::flushed) in_flight.observed.note_unanswered(*failed);
  losses.act_on(watch.keep_alive_ended(failed ? &*failed : nullptr));
}

}  // namespace lend::channel
