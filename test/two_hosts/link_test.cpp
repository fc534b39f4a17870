// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: when the link is pulled in the middle of a transfer, both hosts end in bounded time with an
// error that says why, every byte comes back, and a new connection works once the link is there.
// The host whose link it is also hears of its port, by a reader of events and by a set.
// Method: one host writes without end, the other waits for a message; one of them takes its netdev
// down. Each prints how it ended.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "two_hosts.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

/// What this program gives one operation. With the fabric gone it ends the waits that nothing else
/// does: a receive's, and on iWARP any, since TCP goes on trying for a quarter of an hour.
constexpr auto patience = 3s;

void set_link(char const* state) {
  char const* const link = std::getenv("LEND_TEST_LINK");
  REQUIRE(link != nullptr);
  REQUIRE(std::system(("ip link set " + std::string{link} + " " + state).c_str()) == 0);
}

/// What became of the last of many writes.
Error write_until_it_fails(HostEnd& end, MemoryRegion& memory, RemoteRegion const& there,
                           bool pulls) {
  constexpr std::size_t chunk = 4096, chunks = 8;
  PollingScope scope{end.channel};
  scope.drain_within(1s);
  for (std::size_t i = 0;; ++i) {
    auto const at = i % chunks * chunk;
    std::chrono::seconds const limit = i < 20 ? bound : patience;
    auto work = scope.post_write({memory.gather(at, chunk), there.slice(at, chunk)}, within(limit));
    if (!work.has_value()) return work.error();
    if (i == 20) {
      REQUIRE(wire().say());
      if (pulls) set_link("down");
    }
    if (auto const done = work.value().wait(within(limit)); !done.has_value()) return done.error();
  }
}

Error receive_until_it_fails(HostEnd& end, MemoryRegion& memory, bool pulls) {
  PollingScope scope{end.channel};
  scope.drain_within(1s);
  auto work = must(scope.post_receive(memory.scatter(0, 64)));
  REQUIRE(wire().hear());  // the writes are on their way
  if (pulls) set_link("down");
  return error_of(work.wait(within(patience)));
}

/// Until the device says that its port is active again.
void await_port() {
  for (auto const deadline = within(bound);;) {
    auto const opened = open_device(DeviceChoice::named(std::getenv("LEND_TEST_DEVICE")));
    if (opened.has_value()) return;
    if (deadline.has_passed()) FAIL(opened.error().message());
  }
}

/// Whether the device tells `kind` of its port, among other events.
bool tells(DeviceEvents& events, DeviceEvent::Kind kind) {
  for (auto const deadline = within(bound);;) {
    auto const event = events.wait(deadline);
    if (!event.has_value()) return false;
    if (event.value().kind == kind) return event.value().port == 1;
  }
}

/// The same of a set.
bool tells(WaitSet& set, DeviceEvent::Kind kind) {
  std::array<Ready, 4> room{};
  for (auto const deadline = within(bound);;) {
    auto const ready = set.wait(room, deadline);
    if (!ready.has_value()) return false;
    for (Ready const& one : ready.value())
      if (one.what == Ready::What::device && one.event.kind == kind) return one.event.port == 1;
  }
}

std::size_t open_files() {
  auto const files = std::filesystem::directory_iterator{"/proc/self/fd"};
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

}  // namespace

TEST_CASE("a link pulled in the middle ends both sides, and a new connection works afterwards",
          "[two_hosts]") {
  auto const way = GENERATE(Way::endpoints, Way::rdma_cm);
  bool const writer_pulls = GENERATE(true, false);
  if (!is_possible(way)) return;
  bool const writes = !wire().is_peers();
  bool const pulls = writes == writer_pulls;
  // librdmacm keeps the devices that it has seen; lib/cm/README.md.
  static_cast<void>(meet(way));
  auto const files = open_files();
  {
    auto end = meet(way);
    auto memory = must(end.domain.allocate(1 << 16));
    auto exposed = must(end.domain.unsafe_allocate_exposed(1 << 16, RemoteAccess::read_write));
    auto const there = swap_regions(exposed);
    auto events = must(DeviceEvents::of(end.domain.context()));
    auto set = must(WaitSet::create(end.domain.context(), Wait::event));

    auto const error = writes ? write_until_it_fails(end, memory, there, pulls)
                              : receive_until_it_fails(end, memory, pulls);
    std::printf("ended: %s, %s, %s: %s\n", way == Way::rdma_cm ? "rdma_cm" : "endpoints",
                writes ? "writer" : "receiver", pulls ? "its own link" : "the peer's link",
                error.message().c_str());
    CHECK(memory.loans() == 0);
    CHECK(end.channel.first_cause() != nullptr);
    // Whose link it is decides what is known: of its own a side says so, whatever failed first.
    CAPTURE(error.message());
    bool const names_its_link = error.message().find("port is down") != std::string::npos;
    CHECK((error == Errc::timed_out || is_loss_of_peer(error) || names_its_link));
    if (pulls) CHECK((names_its_link || error == Errc::peer_lost));

    REQUIRE(wire().say());
    REQUIRE(wire().hear());  // the peer's work has ended too
    // Before the channel ends: SoftRoCE's connection manager hears nothing any more once it has
    // sent a message, as that of the end, over a link that is down. Seen on 6.1.
    if (pulls) {
      CHECK(tells(events, DeviceEvent::Kind::port_down));
      CHECK(tells(set, DeviceEvent::Kind::port_down));
      set_link("up");
      await_port();
      CHECK(tells(events, DeviceEvent::Kind::port_active));
      CHECK(tells(set, DeviceEvent::Kind::port_active));
    }
  }
  CHECK(open_files() == files);

  auto end = meet(way);
  auto memory = must(end.domain.allocate(64));
  auto exposed = must(end.domain.unsafe_allocate_exposed(64, RemoteAccess::read));
  fill(exposed, 0, 64, 7);
  auto const there = swap_regions(exposed);
  must(end.channel.read({memory.scatter(), there}, within(bound)));
  CHECK(checksum(memory, 0, 64) == checksum(exposed, 0, 64));
  REQUIRE(wire().say());
  REQUIRE(wire().hear());  // the peer has read too
}
