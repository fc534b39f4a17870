// SPDX-License-Identifier: MIT OR Apache-2.0
// What passes between lend and the soft device, written down: a witness in which no line of lend's
// bookkeeping had a hand. One at a time, one thread.
#pragma once

#include <infiniband/verbs.h>
#include <lend/verbs/context.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace lend::test {

/// A piece of memory that the device was given.
struct Piece {
  std::uint64_t address = 0;
  std::uint32_t length = 0;
  std::uint32_t key = 0;

  [[nodiscard]] bool overlaps(Piece const& other) const noexcept {
    return length != 0 && other.length != 0 && address < other.address + other.length &&
           other.address < address + length;
  }
};

/// One work request that the device has accepted.
struct Accepted {
  enum class State : std::uint8_t {
    in_progress,  ///< the device may touch its bytes
    completed,    ///< lend has taken its completion
    destroyed,    ///< its queue pair was destroyed before that
  };
  std::uint64_t id = 0;
  std::uint32_t queue_pair = 0;
  bool is_receive = false;
  bool device_writes = false;  // into its pieces
  bool is_copied = false;      // it has the bytes of its pieces, and touches them no more
  bool is_silent = false;      // without a completion of its own if it succeeds
  std::vector<Piece> pieces{};

  State state = State::in_progress;
  ibv_wc_status status = IBV_WC_SUCCESS;
  std::uint32_t bytes_received = 0;
  std::optional<std::uint32_t> immediate{};
  std::uint64_t seen_at = 0;  ///< counts completions taken; those destroyed together share one

  [[nodiscard]] bool is_in_progress() const noexcept { return state == State::in_progress; }
  [[nodiscard]] bool has_failed() const noexcept {
    return state == State::destroyed || (state == State::completed && status != IBV_WC_SUCCESS);
  }
  [[nodiscard]] std::uint32_t slot() const noexcept { return static_cast<std::uint32_t>(id); }
};

/// A receive of a shared queue was posted, or lend has taken its completion.
struct PoolEvent {
  std::size_t work = 0;  ///< in Spy::pooled()
  bool is_posting = false;
};

/// An asynchronous event that lend has read.
struct SeenEvent {
  ibv_event_type type{};
  std::uint32_t queue_pair = 0;  ///< its number, if the event is of one
  std::uint32_t port = 0;        ///< likewise
  void const* object = nullptr;  ///< of verbs, if it is of one

  [[nodiscard]] bool is_of_port() const noexcept {
    return type == IBV_EVENT_PORT_ACTIVE || type == IBV_EVENT_PORT_ERR;
  }
  friend bool operator==(SeenEvent const&, SeenEvent const&) = default;
};

/// Opens the soft device so that everything passes by.
class Spy {
 public:
  Spy();
  Spy(Spy const&) = delete;
  Spy& operator=(Spy const&) = delete;
  ~Spy();

  /// A context whose calls are watched.
  [[nodiscard]] Context open();

  /// Forgets what is over. All queue pairs must be gone.
  void begin();

  /// Whether the device reported that this queue pair failed, by an event that lend has read.
  [[nodiscard]] bool has_reported(std::uint32_t queue_pair) const noexcept {
    return reported_.contains(queue_pair);
  }
  /// In the order in which lend read them.
  [[nodiscard]] std::vector<SeenEvent> const& events() const noexcept { return events_; }
  [[nodiscard]] std::vector<Accepted>& works() noexcept { return works_; }
  /// The receives of a shared queue, of no queue pair until they complete.
  [[nodiscard]] std::vector<Accepted>& pooled() noexcept { return pooled_; }
  /// What happened to them, in that order.
  [[nodiscard]] std::vector<PoolEvent> const& pool_events() const noexcept { return pool_events_; }
  /// What lend or the device has done that it must not, if anything; the first of it.
  [[nodiscard]] std::string const& violation() const noexcept { return violation_; }

  // Faults that a plan of the device does not know.
  int polls_to_fail = 0;      ///< the next ones, of any queue
  bool flushes_fail = false;  ///< moving to the error state is refused

  // Counted since begin().
  unsigned polls_failed = 0;
  unsigned flushes_refused = 0;
  int queue_pairs = 0;
  int regions = 0;

 private:
  friend struct SpyCalls;
  void complain(std::string text);
  Accepted* find(std::uint32_t queue_pair, std::uint64_t id) noexcept;
  Accepted* find_pooled(std::uint32_t queue_pair, std::uint64_t id) noexcept;

  std::vector<Accepted> works_{};
  std::vector<Accepted> pooled_{};
  std::vector<PoolEvent> pool_events_{};
  std::map<std::uint32_t, ibv_cq*> queues_{};  // by queue pair
  std::map<ibv_cq*, bool> failed_{};           // queues of which a poll has failed
  std::set<std::uint32_t> reported_{};         // queue pairs
  std::vector<SeenEvent> events_{};
  std::string violation_{};
  std::uint64_t seen_ = 0;
};

}  // namespace lend::test
