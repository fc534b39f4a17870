// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: each asynchronous event is read once, acknowledged, and told to every reader with what it
// is about; a channel breaks by those that mean its end, though no completion comes. Method: the
// fake provider, which has the events that a test raises.
#include <lend/lend.hpp>

#include <poll.h>

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "support/few_descriptors.hpp"
#include "support/peer_process.hpp"
#include "verbs/fake_provider.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

using Kind = DeviceEvent::Kind;

Context fresh() {
  Fake::get().reset({.has_channels = true, .queue_pair_step = 1});
  return must(open_fake());
}

ibv_async_event of_port(ibv_event_type type, int port) {
  ibv_async_event event{};
  event.event_type = type;
  event.element.port_num = port;
  return event;
}
ibv_async_event of_queue_pair(ibv_event_type type, ibv_qp* queue_pair) {
  ibv_async_event event{};
  event.event_type = type;
  event.element.qp = queue_pair;
  return event;
}

bool is_readable(int descriptor) {
  pollfd wait{descriptor, POLLIN, 0};
  return ::poll(&wait, 1, 0) == 1;
}

std::optional<DeviceEvent> next(DeviceEvents& events) {
  return must(events.poll());
}

/// A channel connected to itself, whose device flushes nothing, and its objects.
struct Lone {
  Context context = fresh();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  MemoryRegion memory = must(domain.allocate(64));
  PreparedChannel prepared;
  ibv_qp* raw;
  Channel channel;

  explicit Lone(Wait wait = Wait::event)
      : prepared{must(prepare_channel(domain, with(wait)))}, raw{at_last()}, channel{[this] {
          auto const itself = prepared.endpoint();
          return must(std::move(prepared).handshake(itself));
        }()} {}
  static ChannelOptions with(Wait wait) {
    ChannelOptions options;
    options.wait = wait;
    return options;
  }
  /// The queue pair that was made last.
  static ibv_qp* at_last() { return Fake::get().last_queue_pair; }
};

}  // namespace

TEST_CASE("an event tells what it is about", "[verbs]") {
  auto const context = fresh();
  auto events = must(DeviceEvents::of(context));
  ibv_qp pair{};
  pair.qp_num = 0x77;
  ibv_cq completions{};
  ibv_srq receives{};
  ibv_async_event of_queue{}, of_pool{};
  of_queue.event_type = IBV_EVENT_CQ_ERR;
  of_queue.element.cq = &completions;
  of_pool.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
  of_pool.element.srq = &receives;
  struct Case {
    ibv_async_event raised;
    Kind kind;
    void const* object = nullptr;
    std::uint32_t queue_pair = 0;
    std::uint8_t port = 0;
  };
  for (Case const& one :
       {Case{of_queue_pair(IBV_EVENT_QP_FATAL, &pair), Kind::queue_pair_failed, &pair, 0x77},
        Case{of_queue_pair(IBV_EVENT_QP_REQ_ERR, &pair), Kind::request_refused, &pair, 0x77},
        Case{of_queue_pair(IBV_EVENT_QP_ACCESS_ERR, &pair), Kind::access_refused, &pair, 0x77},
        Case{of_queue_pair(IBV_EVENT_QP_LAST_WQE_REACHED, &pair), Kind::last_receive, &pair, 0x77},
        Case{of_queue_pair(IBV_EVENT_COMM_EST, &pair), Kind::established, &pair, 0x77},
        Case{of_queue_pair(IBV_EVENT_SQ_DRAINED, &pair), Kind::sends_drained, &pair, 0x77},
        Case{of_queue_pair(IBV_EVENT_PATH_MIG, &pair), Kind::other, &pair, 0x77},
        Case{of_queue, Kind::completion_queue_failed, &completions},
        Case{of_pool, Kind::receives_low, &receives},
        Case{of_port(IBV_EVENT_PORT_ACTIVE, 2), Kind::port_active, nullptr, 0, 2},
        Case{of_port(IBV_EVENT_PORT_ERR, 1), Kind::port_down, nullptr, 0, 1},
        Case{of_port(IBV_EVENT_GID_CHANGE, 1), Kind::addresses_changed, nullptr, 0, 1},
        Case{of_port(IBV_EVENT_DEVICE_FATAL, 0), Kind::device_failed}}) {
    auto const type = static_cast<std::uint32_t>(one.raised.event_type);
    CAPTURE(type);
    int const before = Fake::get().acknowledged;
    Fake::get().raise(one.raised);
    CHECK(next(events) == DeviceEvent{one.kind, one.port, type, one.queue_pair, one.object});
    CHECK(Fake::get().acknowledged == before + 1);
    CHECK(name_of(one.kind) != "unknown");
  }
  CHECK_FALSE(next(events));
}

TEST_CASE("every reader of a device is told every event, whoever read it", "[verbs]") {
  auto const context = fresh();
  auto one = must(DeviceEvents::of(context)), other = must(DeviceEvents::of(context));
  for (DeviceEvents const* const reader : {&one, &other})
    CHECK_FALSE(is_readable(reader->descriptor()));
  Fake::get().raise(of_port(IBV_EVENT_PORT_ERR, 1));
  for (DeviceEvents const* const reader : {&one, &other}) CHECK(is_readable(reader->descriptor()));
  CHECK(next(one)->kind == Kind::port_down);
  CHECK_FALSE(next(one));
  CHECK_FALSE(is_readable(one.descriptor()));
  CHECK(is_readable(other.descriptor()));
  // Of equal ones the later: the last says how it is now.
  for (auto const type : {IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR})
    Fake::get().raise(of_port(type, 1));
  CHECK(next(one)->kind == Kind::port_active);
  CHECK(next(other)->kind == Kind::port_active);
  CHECK(next(other)->kind == Kind::port_down);
  CHECK_FALSE(next(other));
  CHECK_FALSE(is_readable(other.descriptor()));
  CHECK(next(one)->kind == Kind::port_down);
  // One that comes later hears of nothing before it.
  auto late = must(DeviceEvents::of(context));
  CHECK_FALSE(next(late));
}

TEST_CASE("a reader that never reads keeps a bounded number, and is told that some are missing",
          "[verbs]") {
  auto const context = fresh();
  auto events = must(DeviceEvents::of(context)), other = must(DeviceEvents::of(context));
  std::vector<ibv_qp> pairs(1030);
  for (auto& pair : pairs) Fake::get().raise(of_queue_pair(IBV_EVENT_COMM_EST, &pair));
  CHECK(next(other));
  std::size_t told = 0;
  std::optional<DeviceEvent> event;
  while ((event = next(events)) && event->kind == Kind::established) ++told;
  CHECK(told == 1024);
  REQUIRE(event);
  CHECK(event->kind == Kind::missed);
  CHECK_FALSE(next(events));
}

TEST_CASE("a wait for an event gives up in time, and can be cancelled", "[verbs]") {
  auto const context = fresh();
  auto events = must(DeviceEvents::of(context));
  CHECK(error_of(events.wait(within(5ms))) == Errc::timed_out);
  Cancellation stopping;
  stopping.cancel();
  CHECK(error_of(events.wait(Deadline::never().unless(stopping))) == Errc::cancelled);
  Fake::get().raise(of_port(IBV_EVENT_PORT_ERR, 1));
  CHECK(must(events.wait()).kind == Kind::port_down);
}

TEST_CASE("events without descriptors are refused, and those of a fork's parent", "[verbs]") {
  auto const context = fresh();
  for (unsigned more : {0u, 1u}) {
    FewDescriptors const few{more};
    auto const error = error_of(DeviceEvents::of(context));
    CHECK(error == Errc::exhausted);
    CHECK(error.message().find("two descriptors") != std::string::npos);
  }
  std::optional<DeviceEvents> events{must(DeviceEvents::of(context))};
  Fake::get().raise(of_port(IBV_EVENT_PORT_ERR, 1));
  PeerProcess child{[&](Wire const&) {
    auto const refused = events->poll();
    events.reset();
    return !refused.has_value() && refused.error() == Errc::system_failed &&
                   Fake::get().acknowledged == 0
               ? 0
               : 1;
  }};
  CHECK(child.exit_status() == 0);
  CHECK(next(*events)->kind == Kind::port_down);
}

TEST_CASE("a wait ends though nothing completes when the device, queue or queue pair failed",
          "[verbs]") {
  Lone lone{GENERATE(Wait::event, Wait::spin)};
  ibv_async_event event{};
  char const* word = nullptr;
  SECTION("device") {
    event = of_port(IBV_EVENT_DEVICE_FATAL, 0);
    word = "open it again";
  }
  SECTION("completion queue") {
    event.event_type = IBV_EVENT_CQ_ERR;
    event.element.cq = lone.raw->send_cq;
    word = "IBV_EVENT_CQ_ERR";
  }
  SECTION("queue pair") {
    event = of_queue_pair(IBV_EVENT_QP_FATAL, lone.raw);
    word = "IBV_EVENT_QP_FATAL";
  }
  PollingScope scope{lone.channel};
  auto receiving = must(scope.post_receive(lone.memory.scatter(0, 8)));
  Fake::get().raise(event);
  auto const error = error_of(receiving.wait(within(20s)));
  CHECK(error.is_flush());
  REQUIRE(lone.channel.first_cause() != nullptr);
  CHECK(*lone.channel.first_cause() == Errc::device_event);
  CHECK(lone.channel.first_cause()->message().find(word) != std::string::npos);
  static_cast<void>(scope.finish());
  CHECK(lone.memory.loans() == 0);
}

TEST_CASE("an event of one queue pair breaks no other channel", "[verbs]") {
  Lone lone;
  auto other = must(prepare_channel(lone.domain, Lone::with(Wait::event)));
  auto const itself = other.endpoint();
  ibv_qp* const others = Lone::at_last();
  auto going_on = must(std::move(other).handshake(itself));
  REQUIRE(others != lone.raw);
  Fake::get().raise(of_queue_pair(IBV_EVENT_QP_FATAL, others));
  Fake::get().raise(of_queue_pair(IBV_EVENT_COMM_EST, lone.raw));
  Fake::get().raise(of_queue_pair(IBV_EVENT_QP_LAST_WQE_REACHED, lone.raw));
  CHECK(must(lone.channel.arm()));
  CHECK(lone.channel.first_cause() == nullptr);
  CHECK_FALSE(must(going_on.arm()));
  CHECK(going_on.first_cause() != nullptr);
}

namespace {

/// A set with a pool of four pieces.
struct PoolOfFour {
  Context context = fresh();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  MemoryRegion memory = must(domain.allocate(256));
  WaitSet set = must(WaitSet::create(context));
  ReceivePool pool = must(ReceivePool::create(set, memory.chunks(64)));

  Channel add(std::uint64_t tag, ReceivePool* receives) {
    ChannelOptions options;
    options.wait_set = &set;
    options.receive_pool = receives;
    options.tag = tag;
    auto prepared = must(prepare_channel(domain, options));
    auto const itself = prepared.endpoint();
    return must(std::move(prepared).handshake(itself));
  }
};

}  // namespace

TEST_CASE("a channel of a pool ends once the device has given back what it took", "[verbs]") {
  PoolOfFour pooled;
  Fake& fake = Fake::get();
  std::optional<Channel> channel{pooled.add(1, &pooled.pool)};
  ibv_qp* const raw = Lone::at_last();
  REQUIRE(fake.posted.size() == 4);
  ibv_wc const flushed = completion_of(fake.posted.front(), IBV_WC_WR_FLUSH_ERR);
  fake.posted.pop_front();  // the device's, for a message that is under way
  int questions = 0;
  fake.at_no_event = [&] {
    if (++questions != 1) return;
    fake.completions.push_back(flushed);
    fake.raise(of_queue_pair(IBV_EVENT_QP_LAST_WQE_REACHED, raw));
  };
  channel.reset();
  fake.at_no_event = {};
  CHECK(fake.posted.size() == 4);
  CHECK(pooled.pool.posted() == 4);
}

TEST_CASE("a device that does not report the last receive is waited for once in a set", "[verbs]") {
  PoolOfFour pooled;
  int questions = 0;
  Fake::get().at_no_event = [&] { ++questions; };
  std::optional<Channel> channel{pooled.add(1, &pooled.pool)};
  channel.reset();
  CHECK(questions > 1);
  questions = 0;
  for (int i = 0; i < 10; ++i) channel.emplace(pooled.add(2, &pooled.pool));
  channel.reset();
  CHECK(questions == 0);
  Fake::get().at_no_event = {};
  CHECK(pooled.pool.posted() == 4);
}

TEST_CASE("a shared receive queue that failed breaks the channels of its pool, and no others",
          "[verbs]") {
  PoolOfFour pooled;
  auto one = pooled.add(1, &pooled.pool);
  ibv_async_event event{};
  event.event_type = IBV_EVENT_SRQ_ERR;
  event.element.srq = Lone::at_last()->srq;
  auto other = pooled.add(2, nullptr);
  Fake::get().raise(event);
  std::array<Ready, 4> room{};
  auto const ready = must(pooled.set.wait(room, within(20s)));
  REQUIRE(ready.size() == 1);
  CHECK(ready[0].tag == 1);
  CHECK(ready[0].what == Ready::What::broken);
  CHECK(one.first_cause()->message().find("another ReceivePool") != std::string::npos);
  CHECK(other.first_cause() == nullptr);
}
