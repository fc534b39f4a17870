// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a broken channel can be prepared again and connected anew, nothing of its last life is
// taken for the present one, and nothing is left over. Method: two ends, broken by a fault each
// time; connected by endpoints where the device can, else by rdma_cm.
#include <filesystem>
#include <fstream>
#include <string>

#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

/// Both ends, prepared again, connected to each other.
void connect_again(TwoEnds& ends) {
  auto one = must(std::move(ends.a).prepare_again());
  auto other = must(std::move(ends.b).prepare_again());
  if (!ends.context.capabilities().endpoints) {
    auto [first, second] = connect_by_cm(one.take_queue_pair(), other.take_queue_pair());
    ends.a = must(std::move(one).adopt(std::move(first)));
    ends.b = must(std::move(other).adopt(std::move(second)));
    return;
  }
  Endpoint const endpoint = one.endpoint();
  ends.a = must(std::move(one).handshake(other.endpoint()));
  ends.b = must(std::move(other).handshake(endpoint));
}

void pass_message(TwoEnds& ends, MemoryRegion& memory, std::string const& text) {
  put(memory, 0, text);
  PollingScope scope{ends.b};
  auto arrival = must(scope.post_receive(memory.scatter(32, 32)));
  must(ends.a.send(memory.gather(0, text.size()), within(20s)));
  CHECK(must(arrival.wait(within(20s))).bytes == text.size());
  must(scope.finish());
  CHECK(text_at(memory, 32, text.size()) == text);
}

void break_it(TwoEnds& ends, MemoryRegion& memory) {
  PollingScope scope{ends.a};
  auto work = post_failing(ends, scope, memory);
  CHECK(error_of(work.wait(within(20s))) == Errc::work_failed);
  must(scope.finish());
  REQUIRE(ends.a.first_cause() != nullptr);
}

/// Descriptors of this process, and mappings of its device.
std::pair<std::size_t, std::size_t> holdings() {
  std::filesystem::directory_iterator const descriptors{"/proc/self/fd"};
  std::ifstream maps{"/proc/self/maps"};
  std::pair<std::size_t, std::size_t> held{std::distance(begin(descriptors), end(descriptors)), 0};
  for (std::string line; std::getline(maps, line);)
    if (line.find("memfd:lend.") != std::string::npos ||
        line.find("infiniband") != std::string::npos)
      ++held.second;  // of the device
  return held;
}

}  // namespace

TEST_CASE("a channel broken and prepared again a hundred times carries messages and leaves nothing",
          "[channel]") {
  auto ends = two_ends(options_with_depth(8));
  auto memory = must(ends.domain.allocate(64));
  bool const by_endpoints = ends.context.capabilities().endpoints;
  int const lives = by_endpoints ? 100 : 10;  // rdma_cm takes its time
  std::pair<std::size_t, std::size_t> held{};
  for (int life = 0; life < lives; ++life) {
    CAPTURE(life);
    pass_message(ends, memory, "life " + std::to_string(life));
    break_it(ends, memory);
    connect_again(ends);
    REQUIRE(ends.a.first_cause() == nullptr);
    if (by_endpoints) CHECK(ends.a.peer() == ends.b.endpoint());
    REQUIRE(memory.loans() == 0);
    if (life == lives / 2) held = holdings();
  }
  pass_message(ends, memory, "the last");
  CHECK(holdings() == held);
}

TEST_CASE("handles and scopes of a channel's last life are stale, their bytes back", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  PollingScope scope{ends.a};
  auto held = must(scope.post_receive(memory.scatter(0, 8)));
  static_cast<void>(must(scope.post_receive(memory.scatter(8, 8))));

  connect_again(ends);

  CHECK(memory.loans() == 0);
  CHECK(error_of(held.wait()) == Errc::stale_handle);
  CHECK(error_of(held.poll()) == Errc::stale_handle);
  CHECK(error_of(scope.try_post_send(memory.gather(0, 8))) == Errc::stale_handle);
  auto const error = error_of(scope.finish());
  CHECK(error == Errc::stale_handle);
  REQUIRE(error.drained().size() == 2);
  CHECK(error.drained()[0].is_flush());
  REQUIRE(error.drained()[0].cause() != nullptr);
  CHECK_THAT(error.drained()[0].cause()->message(), Catch::Contains("was prepared again"));
  pass_message(ends, memory, "new life");
}

TEST_CASE("endpoints of the lives before are refused, and the right one is still taken",
          "[channel]") {
  auto ends = two_ends();
  if (lacks(ends.context, &DeviceCapabilities::endpoints)) return;
  auto memory = must(ends.domain.allocate(64));
  Endpoint const old_a = ends.a.endpoint();
  Endpoint const old_b = ends.b.endpoint();
  auto one = must(std::move(ends.a).prepare_again());
  auto other = must(std::move(ends.b).prepare_again());
  Endpoint const new_a = one.endpoint();
  CHECK_FALSE(new_a == old_a);

  // NOLINTBEGIN(bugprone-use-after-move): a stale endpoint leaves it as it was.
  auto const of_peer = error_of(std::move(one).handshake(old_b));
  CHECK(of_peer == Errc::incompatible_peer);
  CHECK_THAT(of_peer.message(), Catch::Contains("stale: it is the peer's of a connection before"));
  auto const own = error_of(std::move(one).handshake(old_a));
  CHECK(own == Errc::incompatible_peer);
  CHECK_THAT(own.message(), Catch::Contains("stale: it is this side's own of a connection before"));
  CHECK(error_of(std::move(other).handshake(old_a)) == Errc::incompatible_peer);

  Endpoint const new_b = other.endpoint();
  ends.a = must(std::move(one).handshake(new_b));
  ends.b = must(std::move(other).handshake(new_a));
  // NOLINTEND(bugprone-use-after-move)
  pass_message(ends, memory, "right");

  // Two lives old by now.
  one = must(std::move(ends.a).prepare_again());
  other = must(std::move(ends.b).prepare_again());
  Endpoint const newest_a = one.endpoint();
  // NOLINTBEGIN(bugprone-use-after-move)
  for (Endpoint const& stale : {old_a, old_b, new_a, new_b})
    CHECK_THAT(error_of(std::move(one).handshake(stale)).message(), Catch::Contains("stale"));
  ends.a = must(std::move(one).handshake(other.endpoint()));
  ends.b = must(std::move(other).handshake(newest_a));
  // NOLINTEND(bugprone-use-after-move)
  pass_message(ends, memory, "newest");
}

TEST_CASE("a remote region of before works while it is registered, and is refused once it is not",
          "[channel]") {
  auto ends = two_ends();
  if (lacks(ends.context, &DeviceCapabilities::acknowledges)) return;
  auto memory = must(ends.domain.allocate(64));
  auto exposed =
      std::make_optional(must(ends.domain.unsafe_allocate_exposed(64, RemoteAccess::read_write)));
  auto const remote = must(exposed->remote());
  break_it(ends, memory);
  connect_again(ends);

  must(ends.a.write({memory.gather(), remote}, within(20s)));
  break_it(ends, memory);
  connect_again(ends);
  exposed.reset();
  exposed = must(ends.domain.unsafe_allocate_exposed(64, RemoteAccess::read_write));

  auto const error = error_of(ends.a.write({memory.gather(), remote}, within(20s)));
  REQUIRE(error.work() != nullptr);
  CAPTURE(error.message());
  CHECK(class_of(error.work()->status) == FailureClass::remote);
  if (error.work()->status == WorkStatus::remote_access)
    CHECK_THAT(error.message(), Catch::Contains("registered again"));
  connect_again(ends);
  must(ends.a.write({memory.gather(), must(exposed->remote())}, within(20s)));
}

TEST_CASE("a side that prepares again alone leaves the other with an end in sight", "[channel]") {
  auto ends = two_ends();
  if (lacks(ends.context, &DeviceCapabilities::endpoints)) return;
  auto memory = must(ends.domain.allocate(64));
  auto prepared = must(std::move(ends.a).prepare_again());

  CHECK(is_loss_of_peer(error_of(ends.b.send(memory.gather(0, 8), within(60s)))));
  CHECK(memory.loans() == 0);
  // NOLINTNEXTLINE(bugprone-use-after-move): a stale endpoint leaves it as it was.
  CHECK(error_of(std::move(prepared).handshake(ends.b.endpoint())) == Errc::incompatible_peer);
}

TEST_CASE("a channel that was moved from cannot be prepared again, one that works can",
          "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  Channel moved{std::move(ends.a)};
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  CHECK(error_of(std::move(ends.a).prepare_again()) == Errc::stale_handle);
  ends.a = std::move(moved);
  connect_again(ends);
  pass_message(ends, memory, "again");
}
