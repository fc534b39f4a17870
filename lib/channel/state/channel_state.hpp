// SPDX-License-Identifier: MIT OR Apache-2.0
// The state of a Channel: parts with one job each, and what concerns several of them. Posting,
// batching, waiting and ending are functions on it, in files of that name. One thread at a time.
#pragma once

#include <channel/parts/channel_entry.hpp>
#include <channel/parts/connection.hpp>
#include <channel/parts/datagram_state.hpp>
#include <channel/parts/failure_log.hpp>
#include <channel/parts/in_flight.hpp>
#include <channel/parts/linked_list.hpp>
#include <channel/parts/news.hpp>
#include <channel/parts/peer_loans.hpp>
#include <channel/parts/peer_watch.hpp>
#include <channel/parts/pool_taker.hpp>
#include <channel/parts/waiter.hpp>
#include <channel/state/loss_detection.hpp>
#include <channel/state/progress.hpp>
#include <lend/base/export.hpp>
#include <lend/channel/builder.hpp>
#include <lend/channel/channel.hpp>
#include <lend/channel/pending_work.hpp>
#include <verbs/device/forking.hpp>
#include <verbs/post/plain_work.hpp>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace lend::channel {

/// This end's endpoint and the peer's of each previous connection, the oldest first.
using EarlierConnections = std::vector<std::pair<Endpoint, Endpoint>>;

class PoolState;

class ChannelState {
 public:
  /// A call of the program: see ChannelUse.
  struct Use : ChannelUse {
    explicit Use(ChannelState& channel) noexcept : ChannelUse{channel.user_} {}
    Use(ChannelState& channel, Free free) noexcept : ChannelUse{channel.user_, free} {}
    Use(Use const&) = delete;
    Use& operator=(Use const&) = delete;
    [[gnu::always_inline]] ~Use() {}  // as a default one is not
  };

  [[nodiscard]] bool is_free() const noexcept { return ChannelUse::is_free(user_); }
  /// Stops the process if `channel` was moved from.
  [[nodiscard]] static ChannelState& of(Channel const& channel) noexcept {
    if (channel.state_ == nullptr) [[unlikely]]
      stop_for_moved();
    return *channel.state_;
  }
  [[nodiscard]] static ChannelState& of(PreparedChannel const& prepared) noexcept {
    return *prepared.state_;
  }

  /// A channel of `progress`, whose queue has room for it. Not connected yet: it takes receives.
  /// Errors:  those of PreparedQueuePair::create(), and exhausted.
  [[nodiscard]] static Result<PreparedChannel> prepare(ProtectionDomain const& domain,
                                                       std::shared_ptr<Progress> progress,
                                                       ChannelOptions const& options,
                                                       verbs::ServiceChoice service,
                                                       PoolState* pool = nullptr);
  /// One for datagrams, in use.
  /// Errors:  those of PreparedDatagramQueuePair::activate().
  [[nodiscard]] static Result<Channel> activate(PreparedChannel prepared);
  /// Its connection is there from here on.
  void begin() noexcept;
  ~ChannelState();
  ChannelState(ChannelState const&) = delete;
  ChannelState& operator=(ChannelState const&) = delete;

  // ---- completions ----

  /// Processes a completion of this channel.
  [[gnu::always_inline]] void complete(verbs::CompletionEntry entry) noexcept {
    SlotId const id{entry.id()};
    if (entry.has_failed() || !in_flight.slots.has(id)) [[unlikely]]
      complete_unusual(id, entry);
    else
      succeed(id, entry);
  }
  /// Polls once, for all channels of the progress. Returns the number of completions.
  [[nodiscard]] LEND_EXPORT Result<std::uint32_t> poll() noexcept;
  /// poll() in a wait, with a pause if nothing came. False once the deadline has passed.
  [[nodiscard]] Result<bool> poll_or_pause(Waiter& waiter, Deadline deadline) noexcept;
  /// A pause between two empty polls. False once the deadline has passed.
  [[nodiscard]] bool pause(Waiter& waiter, Deadline deadline) noexcept {
    bool const goes_on = waiter.pause(deadline);
    // At its end, too: an event loop may only ever wait for zero time.
    if (watch.is_on()) [[unlikely]]
      losses.look_between(waiter);
    return goes_on;
  }
  /// After an empty poll: checks the peer every so often.
  void count_empty_poll() noexcept {
    if (watch.counts_empty_poll()) [[unlikely]]
      losses.look_at_peer();
  }
  /// Polls once, and does what is due by the clock. Whether something has happened since the last
  /// call: a completion that no wait took to its handle at once, or the channel broke.
  [[nodiscard]] Result<bool> poll_for_news() noexcept;
  /// A message of the peer ended its access by this key, which it answers.
  std::uint32_t note_returned(std::uint32_t key) noexcept;

  [[nodiscard]] bool is_broken() const noexcept { return failures.has_first_cause(); }
  [[nodiscard]] std::vector<Setting> settings() const;  // none once the queue pair is gone
  /// What it has counted; null if that was not asked for.
  [[nodiscard]] ChannelMetrics const* metrics() noexcept;

  // ---- handles, and the next connection ----

  [[nodiscard]] ProtectionDomain const& protection_domain() const noexcept { return domain_; }
  [[nodiscard]] std::uint64_t tag() const noexcept { return options_.tag; }
  [[nodiscard]] ChannelReference const& reference() const noexcept { return reference_; }
  /// The handle of the request that was just posted.
  [[nodiscard]] PendingWork handle_for(SlotId id) const noexcept { return {reference_, id.value}; }
  [[nodiscard]] Result<PreparedChannel> prepare_again();

  // The parts. Order: each is made from those above it, and destroyed before them.
 private:
  std::shared_ptr<Progress> progress_;
  ChannelUse::User& user_;
  ProtectionDomain domain_;  // for prepare_again()
  ChannelOptions options_;

 public:
  ibv_cq& raw_completions;  // read by each poll
  FailureLog failures{};
  Connection connection;
  InFlight in_flight;
  std::unique_ptr<DatagramState> datagrams;                 // of a channel for them
  std::unique_ptr<PeerLoans, PeerLoans::End> peer_loans{};  // since the first
  verbs::Forms forms{};
  PeerWatch watch;
  LossDetection losses{*this};
  Progress& progress;

  News news;
  LinkedNode<ChannelState> as_ready{this};         // in its set
  LinkedNode<ChannelState> as_looked_after{this};  // the same
  LinkedNode<ChannelState> as_user{this};          // of its pool
  PoolState* pool = nullptr;                       // until that ends
  PoolTaker* taker = nullptr;  // takes what the pool receives for it; null: the program
  ScopeRecord unscoped{};      // of unsafe posts and blocking calls; has last_failures()
  LinkedList<ScopeRecord> scopes{};
  std::uint32_t scopes_left = 0;  // without finish(); wraps
  EarlierConnections earlier{};
  std::optional<Deadline> abort_until{};  // when an aborted device must have returned all
  bool const has_pool;                    // or had one
  std::uint32_t const send_depth;
  std::uint32_t const receive_depth;
  std::uint32_t const inline_bytes;
  std::uint64_t message_bytes_max;
  verbs::Origin keep_alive_from{};
  /// The longest drain of a scope without a bound; shorter in tests that cannot wait for so long.
  std::chrono::nanoseconds drain_longest = PollingScope::drain_max;

 private:
  ChannelState(ProtectionDomain const& domain, std::shared_ptr<Progress> progress,
               PreparedQueuePair queue_pair, ChannelOptions const& options, PoolState* pool);

  /// Its open scopes find it no more.
  void end_scopes() noexcept;
  [[gnu::always_inline]] void succeed(SlotId id, verbs::CompletionEntry entry) noexcept {
    Slot& slot = in_flight.slots.tenant(id);
    bool const is_receive = slot.work.operation == Operation::receive;
    if (!InFlight::is_usual(slot) || (is_receive && entry.has_returned())) [[unlikely]]
      return succeed_unusually(id, slot, entry);
    if (!is_receive) return in_flight.succeed_usual<Operation::send>(slot);
    slot.work.bytes = entry.bytes();
    if (slot.held) slot.work.immediate = entry.immediate();
    in_flight.succeed_usual<Operation::receive>(slot);
  }
  void succeed_unusually(SlotId id, Slot& slot, verbs::CompletionEntry entry) noexcept;
  // A failure, or one without a slot.
  void complete_unusual(SlotId id, verbs::CompletionEntry entry) noexcept;
  [[noreturn]] LEND_EXPORT static void stop_for_moved() noexcept;

  ChannelReference reference_{};  // to this channel
  verbs::Inheritance origin_{};
};

}  // namespace lend::channel
