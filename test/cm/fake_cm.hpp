// SPDX-License-Identifier: MIT OR Apache-2.0
// In place of librdmacm: both sides of connections within this process, without a device. It counts
// what is made and ended, fails the call it is told to, and holds events back or changes them. Any
// thread.
#pragma once

#include <rdma/rdma_cma.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace lend::test {

/// What comes in place of an event.
struct OtherEvent {
  rdma_cm_event_type type{};
  int status = 0;
  std::vector<std::byte> private_data{};
};

class FakeCm {
 public:
  static FakeCm& get();

  /// Everything as at the beginning; nothing may be live. Addresses lead over `device`.
  void reset(ibv_context* device = nullptr);

  // Faults. The n-th call, counted from 1, fails with that errno; 0: none does.
  int fail_call = 0;
  int fail_errno = 0;
  std::map<rdma_cm_event_type, OtherEvent> replaced{};
  std::set<rdma_cm_event_type> lost{};  // they never come
  bool holds_events = false;            // they come by deliver() alone
  bool is_iwarp = false;
  std::uint8_t responder_resources = 4, initiator_depth = 4;  // of each event
  bool holds_destruction = false;  // of ids whose peer owes an answer; let_destroy() ends it

  void let_destroy();
  /// How many events are held.
  [[nodiscard]] std::size_t held() const;
  /// Lets one come: the first one of the id that has the n-th.
  void deliver(std::size_t n);
  /// What no call of the program causes: an event of the latest id.
  void raise(rdma_cm_event_type type, int status = 0);

  // Counted.
  int calls = 0;
  std::string failed_call{};
  int names_looked_up = 0;
  std::vector<std::uint32_t> sources{};  // the IPv4 addresses that resolving was to begin at
  // What the next ones are found to be, the first last: an empty one is not known.
  std::vector<std::string> found_names{};
  std::vector<std::string> violations{};
  [[nodiscard]] std::size_t ids() const;
  [[nodiscard]] std::size_t channels() const;
  [[nodiscard]] std::size_t unacknowledged() const;

  // For the calls.
  struct Channel;
  struct Id;
  struct Event;
  std::recursive_mutex mutable mutex{};

  [[nodiscard]] bool fails(char const* call);
  rdma_event_channel* open();
  void close(rdma_event_channel* raw);
  Id* make_id(rdma_event_channel* channel);
  void destroy(rdma_cm_id* raw);
  [[nodiscard]] Id* find(rdma_cm_id const* raw, char const* call);
  [[nodiscard]] Id* listener_at(std::uint16_t port);
  std::uint16_t next_port() { return ++last_port_; }
  /// Of a connect request, `to` is the new id.
  void send(Id& to, OtherEvent event);
  /// Null with errno.
  rdma_cm_event* take(rdma_event_channel* channel);
  void acknowledge(rdma_cm_event* raw);

  ibv_context* device = nullptr;

 private:
  void put(std::unique_ptr<Event> event);
  void forget_events_of(Id const& id);

  std::list<std::unique_ptr<Channel>> channels_;
  std::list<std::unique_ptr<Id>> ids_;
  std::deque<std::unique_ptr<Event>> held_;
  std::list<std::unique_ptr<Event>> unacknowledged_;
  std::condition_variable_any may_destroy_;
  std::uint16_t last_port_ = 4000;
};

enum class IdState : std::uint8_t {
  idle,
  listening,
  address_asked,
  route_asked,
  asked,      // the listener
  requested,  // by a connector
  answered,
  established,
  over,
};

struct FakeCm::Channel {
  rdma_event_channel raw{};
  std::deque<std::unique_ptr<Event>> ready{};
};

struct FakeCm::Id {
  rdma_cm_id raw{};
  IdState state = IdState::idle;
  std::uint16_t port = 0;
  Id* peer = nullptr;
  Id* listener = nullptr;  // of a request that no program has yet
  std::uint32_t queue_pair = 0;
  std::uint8_t type_of_service = 0;
};

struct FakeCm::Event {
  rdma_cm_event raw{};
  std::vector<std::byte> bytes{};
  Id* of = nullptr;  // who must outlive it
};

}  // namespace lend::test
