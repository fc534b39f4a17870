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

#include "soft/programs/accepted.hpp"
#include "soft/programs/wire.hpp"

namespace lend::test {

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

  /// Forgets what is over. All queue pairs must be gone. `is_exact` as for Wire::begin().
  void begin(bool is_exact);
  [[nodiscard]] Wire& wire() noexcept { return wire_; }

  /// Whether the device reported that this queue pair failed, by an event that lend has read.
  [[nodiscard]] bool has_reported(std::uint32_t queue_pair) const noexcept {
    return reported_.contains(queue_pair);
  }
  [[nodiscard]] bool has_destroyed(std::uint32_t queue_pair) const noexcept {
    return destroyed_.contains(queue_pair);
  }
  /// Whether lend has had the device invalidate this key.
  [[nodiscard]] bool has_invalidated(std::uint32_t key) const noexcept {
    return invalidated_.contains(key);
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
  void complain_if(std::string text);
  /// The device writes no bytes of `work` that other work has, nor the reverse.
  void check_apart(Accepted const& work);
  [[nodiscard]] std::size_t index_of(Accepted const& work) const noexcept {
    return static_cast<std::size_t>(&work - works_.data());
  }
  Accepted* find(std::uint32_t queue_pair, std::uint64_t id) noexcept;
  Accepted* find_pooled(std::uint32_t queue_pair, std::uint64_t id) noexcept;

  std::vector<Accepted> works_{};
  Wire wire_{works_};
  std::vector<Accepted> pooled_{};
  std::vector<PoolEvent> pool_events_{};
  std::map<std::uint32_t, ibv_cq*> queues_{};  // by queue pair
  std::map<ibv_cq*, bool> failed_{};           // queues of which a poll has failed
  std::set<std::uint32_t> reported_{};         // queue pairs
  std::set<std::uint32_t> destroyed_{};        // likewise
  std::set<std::uint32_t> invalidated_{};      // keys
  std::vector<SeenEvent> events_{};
  std::string violation_{};
  std::uint64_t seen_ = 0;
};

}  // namespace lend::test
