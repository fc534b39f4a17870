// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what no completion tells reaches the channels that it concerns, as their first cause, and
// no others; news of a port reach every set and reader. Method: peers that use wrong keys, memory
// that vanishes, and planned faults of the port, on the soft device.
#include "support/two_ends.hpp"

#include <lend/soft/faults.hpp>

#include <poll.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "channel/pooled.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

using Kind = DeviceEvent::Kind;

/// Whether this device raises the events that these tests provoke.
bool is_soft(Context const& context) {
  if (context.kind() == DeviceKind::soft) return true;
  skip(context, "events are provoked");
  return false;
}

/// The client of `ends`, b, asks a for bytes that a never exposed.
void ask_for_nobody(TwoEnds& ends, MemoryRegion& memory) {
  auto const error = error_of(ends.b.write({memory.gather(32, 8), nobody(8)}, within(10s)));
  REQUIRE(error == Errc::work_failed);
}

bool names(Error const& error, char const* event) {
  return error == Errc::device_event && error.message().find(event) != std::string::npos;
}

/// Two ends, and operations at which planned faults take effect.
struct Striking : TwoEnds {
  explicit Striking(Wait wait = Wait::adaptive) : TwoEnds{two_ends(with(wait))} {}
  static ChannelOptions with(Wait wait) {
    ChannelOptions options = options_with_depth(8);
    options.wait = wait;
    return options;
  }
  MemoryRegion memory = must(domain.allocate(64));
  Exposure exposed = must(memory.unsafe_expose(48, 8, RemoteAccess::write));

  void operate() { must(a.write({memory.gather(0, 8), exposed.remote()}, within(10s))); }
  void strike(FaultPlan const& plan) {
    must(inject_faults(context, plan));
    operate();
  }
};

/// Those of the device in `ready`.
std::vector<Kind> kinds(std::span<Ready const> ready) {
  std::vector<Kind> found;
  for (Ready const& one : ready)
    if (one.what == Ready::What::device) found.push_back(one.event.kind);
  return found;
}

}  // namespace

TEST_CASE("the target of a wrong key learns why its channel broke", "[channel]") {
  auto ends = two_ends(options_with_depth(8));
  if (!is_soft(ends.context)) return;
  auto memory = must(ends.domain.allocate(64));
  SECTION("from the receive that it waits for") {
    PollingScope scope{ends.a};
    auto receiving = must(scope.post_receive(memory.scatter(0, 8)));
    ask_for_nobody(ends, memory);
    auto const error = error_of(receiving.wait(within(10s)));
    CHECK(error.is_flush());
    REQUIRE(error.cause() != nullptr);
    CHECK(names(*error.cause(), "IBV_EVENT_QP_ACCESS_ERR"));
    CHECK(error.describe().find("that it may not reach") != std::string::npos);
    static_cast<void>(scope.finish());
  }
  SECTION("from the send that it tries next") {
    ask_for_nobody(ends, memory);
    auto const error = error_of(ends.a.send(memory.gather(0, 8), within(10s)));
    REQUIRE(error.cause() != nullptr);
    CHECK(names(*error.cause(), "IBV_EVENT_QP_ACCESS_ERR"));
  }
  REQUIRE(ends.a.first_cause() != nullptr);
  CHECK(names(*ends.a.first_cause(), "IBV_EVENT_QP_ACCESS_ERR"));
  // The one that asked was told by its completion.
  REQUIRE(ends.b.first_cause() != nullptr);
  CHECK(*ends.b.first_cause() == Errc::work_failed);
}

TEST_CASE("the target of a refused write learns why its channel broke where the writer does not",
          "[channel]") {
  auto ends = two_ends(options_with_depth(8));
  if (ends.context.capabilities().acknowledges)
    return skip(ends.context, "tells the writer what the peer refuses");
  auto memory = must(ends.domain.allocate(64));
  // SAFETY: nobody looks at these bytes.
  auto const exposed = must(ends.domain.unsafe_allocate_exposed(64, RemoteAccess::read));
  auto const readable = must(exposed.remote());
  RemoteRegion const forged{readable.address(), readable.size(), readable.key()};
  PollingScope scope{ends.a};
  auto receiving = must(scope.post_receive(memory.scatter(0, 8)));
  static_cast<void>(ends.b.write({memory.gather(32, 8), forged.slice(0, 8)}, within(10s)));
  static_cast<void>(error_of(receiving.wait(within(10s))));
  REQUIRE(ends.a.first_cause() != nullptr);
  CAPTURE(ends.a.first_cause()->message());
  CHECK(names(*ends.a.first_cause(), "IBV_EVENT_QP_ACCESS_ERR"));
  static_cast<void>(scope.finish());
  CHECK(memory.loans() == 0);
}

TEST_CASE("a channel alone in an event loop learns of an event as it goes to sleep", "[channel]") {
  Striking ends{Wait::event};
  if (!is_soft(ends.context)) return;
  CHECK(must(ends.a.arm()));
  ask_for_nobody(ends, ends.memory);
  CHECK_FALSE(must(ends.a.arm()));
  CHECK(must(ends.a.poll()));
  REQUIRE(ends.a.first_cause() != nullptr);
  CHECK(names(*ends.a.first_cause(), "IBV_EVENT_QP_ACCESS_ERR"));
}

TEST_CASE("memory that vanished under a peer's write is a fatal event of the target", "[channel]") {
  // Two contexts, which meet as two processes do: within one the copy would be the program's.
  Context const here = open_test_device(), there = open_test_device();
  if (!is_soft(here)) return;
  auto const domain = must(here.allocate_protection_domain());
  auto const peers_domain = must(there.allocate_protection_domain());
  auto prepared = must(prepare_channel(domain, options_with_depth(8)));
  auto peers = must(prepare_channel(peers_domain, options_with_depth(8)));
  auto const endpoint = prepared.endpoint();
  auto target = must(std::move(prepared).handshake(peers.endpoint()));
  auto peer = must(std::move(peers).handshake(endpoint));
  auto memory = must(domain.allocate(64)), peers_memory = must(peers_domain.allocate(64));
  void* const page =
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  auto region = must(domain.register_memory(std::span{static_cast<std::byte*>(page), 4096}));
  auto const exposed = must(region.unsafe_expose(RemoteAccess::write));
  PollingScope scope{target};
  auto receiving = must(scope.post_receive(memory.scatter(0, 8)));
  // Nothing is reached there from here on, and no other thread's memory takes the place.
  int const reserved = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  REQUIRE(::mmap(page, 4096, PROT_NONE, reserved, -1, 0) == page);
  auto const refused =
      peer.write({peers_memory.gather(0, 8), exposed.remote().slice(0, 8)}, within(10s));
  CHECK(error_of(refused) == Errc::work_failed);
  CHECK(error_of(receiving.wait(within(10s))).is_flush());
  REQUIRE(target.first_cause() != nullptr);
  CHECK(names(*target.first_cause(), "IBV_EVENT_QP_FATAL"));
  static_cast<void>(scope.finish());
  CHECK(::munmap(page, 4096) == 0);
}

TEST_CASE("a set that sleeps wakes for a broken queue pair that no completion tells of",
          "[channel]") {
  Pooled pooled{2};
  if (!is_soft(pooled.context)) return;
  bool const by_descriptor = GENERATE(false, true);
  // The set sleeps first: nothing completes here, as the pool's receives go on.
  if (by_descriptor) CHECK(must(pooled.set.arm()));
  auto asking = std::async(std::launch::async, [&] {
    return pooled.clients[0]->write({pooled.far.gather(0, 8), nobody(8)}, within(10s)).has_value();
  });
  std::span<Ready> ready;
  if (by_descriptor) {
    Deadline const deadline = within(10s);
    while (ready.empty() && !deadline.has_passed()) {
      pollfd wait{pooled.set.descriptor(), POLLIN, 0};
      REQUIRE(::poll(&wait, 1, 10'000) == 1);
      ready = must(pooled.set.poll(pooled.room));
      if (ready.empty()) static_cast<void>(must(pooled.set.arm()));
    }
  } else {
    ready = must(pooled.set.wait(pooled.room, within(10s)));
  }
  CHECK_FALSE(asking.get());
  REQUIRE(ready.size() == 1);
  CHECK(ready[0].tag == 100);
  CHECK(ready[0].what == Ready::What::broken);
  REQUIRE(pooled.servers[0]->first_cause() != nullptr);
  CHECK(names(*pooled.servers[0]->first_cause(), "IBV_EVENT_QP_ACCESS_ERR"));
  CHECK(must(pooled.set.arm()));  // no event is left that would wake it again
  pollfd silent{pooled.set.descriptor(), POLLIN, 0};
  CHECK(::poll(&silent, 1, 0) == 0);

  // It cost the pool and the others nothing.
  CHECK(pooled.pool->posted() == Pooled::pieces);
  CHECK(pooled.servers[1]->first_cause() == nullptr);
  pooled.say(1, "hello");
  CHECK(text_of(pooled.heard()) == "hello");
}

TEST_CASE("a set names the port that went down and came up again", "[channel]") {
  Striking ends;
  if (!is_soft(ends.context)) return;
  auto set = must(WaitSet::create(ends.context)), other = must(WaitSet::create(ends.context));
  std::array<Ready, 1> one{};
  std::array<Ready, 8> room{};
  CHECK(must(set.arm()));
  ends.strike(FaultPlan{}.port_goes_down(1));
  pollfd wait{set.descriptor(), POLLIN, 0};
  CHECK(::poll(&wait, 1, 10'000) == 1);
  auto const down = must(set.poll(room));
  REQUIRE(down.size() == 1);
  CHECK(down[0].what == Ready::What::device);
  CHECK(down[0].event.kind == Kind::port_down);
  CHECK(down[0].event.port == ends.context.port().number);

  ends.strike(FaultPlan{}.port_comes_up(1));
  CHECK(kinds(must(set.wait(room, within(10s)))) == std::vector{Kind::port_active});
  CHECK(must(set.arm()));
  // The other was told although the first one read it, and in the order in which it came.
  CHECK_FALSE(must(other.arm()));
  std::vector<Kind> told;
  for (int i = 0; i < 2; ++i) told.push_back(kinds(must(other.poll(one))).at(0));
  CHECK(told == std::vector{Kind::port_down, Kind::port_active});
  CHECK(must(other.arm()));
  CHECK(ends.a.first_cause() == nullptr);  // a port is news, and breaks nothing
}

TEST_CASE("an event that a channel's own wait read reaches the sets and readers of its device",
          "[channel]") {
  Striking ends{Wait::event};
  if (!is_soft(ends.context)) return;
  auto set = must(WaitSet::create(ends.context));
  auto events = must(DeviceEvents::of(ends.context));
  std::array<Ready, 8> room{};
  CHECK(must(set.arm()));
  ends.strike(FaultPlan{}.port_goes_down(1));
  CHECK(must(ends.a.arm()));  // reads it
  for (int const descriptor : {set.descriptor(), events.descriptor()}) {
    pollfd wait{descriptor, POLLIN, 0};
    CHECK(::poll(&wait, 1, 0) == 1);
  }
  CHECK(kinds(must(set.poll(room))) == std::vector{Kind::port_down});
  CHECK(must(events.wait(within(0s))).kind == Kind::port_down);
}

TEST_CASE("readers, sets and channels of one device are told on any threads", "[channel]") {
  Striking ends;
  if (!is_soft(ends.context)) return;
  constexpr std::uint64_t moves = 200;
  FaultPlan plan;
  for (std::uint64_t i = 1; i <= moves; ++i)
    i % 2 == 1 ? plan.port_goes_down(i) : plan.port_comes_up(i);
  plan.port_goes_down(moves + 1);
  must(inject_faults(ends.context, plan));
  std::vector<std::future<bool>> readers;
  for (int i = 0; i < 2; ++i)
    readers.push_back(std::async(
        std::launch::async,
        [&, events = std::make_shared<DeviceEvents>(must(DeviceEvents::of(ends.context)))] {
          bool was_up = false;
          for (;;) {
            auto const event = events->wait(within(20s));
            if (!event.has_value()) return false;
            was_up = was_up || event.value().kind == Kind::port_active;
            if (event.value().kind == Kind::access_refused) return was_up;
          }
        }));
  for (int i = 0; i < 2; ++i)
    readers.push_back(std::async(std::launch::async, [&, set = std::make_shared<WaitSet>(
                                                             must(WaitSet::create(ends.context)))] {
      std::array<Ready, 8> room{};
      bool was_up = false, was_down = false;
      while (!was_up || !was_down) {
        auto const ready = set->wait(room, within(20s));
        if (!ready.has_value()) return false;
        for (Kind const kind : kinds(ready.value()))
          (kind == Kind::port_active ? was_up : was_down) = true;
      }
      return true;
    }));
  for (std::uint64_t i = 0; i <= moves; ++i) ends.operate();
  ask_for_nobody(ends, ends.memory);
  for (auto& reader : readers) CHECK(reader.get());
}
