// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: whatever a forked child does with its parent's channels, the parent's go on. Method: two
// channels of one process, a message under way; the child's exit status is the number of the first
// check that failed.
#include <optional>
#include <vector>

#include "support/peer_process.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

bool tells_of_fork(Error const& error) {
  return error.message().find("before fork()") != std::string::npos;
}

/// A message of eight bytes from [0, 8) to [8, 16).
bool carries_messages(TwoEnds& ends, MemoryRegion& memory) {
  PollingScope scope{ends.b};
  auto receiving = must(scope.post_receive(memory.scatter(8, 8)));
  must(ends.a.send(memory.gather(0, 8), within(20s)));
  return must(receiving.wait(within(20s))).bytes == 8;
}

}  // namespace

TEST_CASE("a forked child that destroys its copies of channels leaves the parent's at work",
          "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  std::vector<std::byte> bytes(64);
  auto view = must(ends.domain.register_memory(bytes));
  std::optional<PollingScope> scope{std::in_place, ends.b};
  auto first = must(scope->post_receive(view.scatter(0, 8)));
  auto second = must(scope->post_receive(view.scatter(8, 8)));

  PeerProcess child{[&](Wire const&) {
    { MemoryRegion const gone{std::move(view)}; }  // on loan
    scope.reset();
    { MemoryRegion const gone{std::move(memory)}; }
    { TwoEnds const gone{std::move(ends)}; }
    return 0;
  }};
  CHECK(child.exit_status() == 0);

  must(ends.a.send(memory.gather(0, 8), within(20s)));
  CHECK(must(first.wait(within(20s))).bytes == 8);
  must(ends.a.send(memory.gather(0, 4), within(20s)));
  CHECK(must(second.wait(within(20s))).bytes == 4);
  must(scope->finish());
}

TEST_CASE("a forked child that leaves a scope ends no loan, for the bytes are its parent's",
          "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  std::optional<PollingScope> scope{std::in_place, ends.b};
  auto receiving = must(scope->post_receive(memory.scatter(8, 8)));

  PeerProcess child{[&](Wire const&) {
    scope.reset();
    return memory.loans() == 1 ? 0 : 1;
  }};
  CHECK(child.exit_status() == 0);

  must(ends.a.send(memory.gather(0, 8), within(20s)));
  CHECK(must(receiving.wait(within(20s))).bytes == 8);
  must(scope->finish());
}

TEST_CASE("a forked child's calls on a channel of its parent are refused, and take nothing from it",
          "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  PollingScope scope{ends.b};
  auto receiving = must(scope.post_receive(memory.scatter(8, 8)));
  must(ends.a.send(memory.gather(0, 8), within(20s)));  // its completion at b is not polled yet

  PeerProcess child{[&](Wire const&) {
    if (!tells_of_fork(error_of(receiving.poll()))) return 1;
    if (!tells_of_fork(error_of(receiving.wait(within(10s))))) return 2;
    if (!tells_of_fork(error_of(ends.a.send(memory.gather(0, 8), within(10s))))) return 3;
    if (!tells_of_fork(error_of(ends.a.receive(memory.scatter(16, 8), within(10s))))) return 4;
    if (!tells_of_fork(error_of(ends.domain.allocate(64)))) return 5;
    if (!tells_of_fork(error_of(prepare_channel(ends.domain, {})))) return 6;
    if (!tells_of_fork(error_of(std::move(ends.a).prepare_again()))) return 7;
    return 0;
  }};
  CHECK(child.exit_status() == 0);

  CHECK(must(receiving.wait(within(20s))).bytes == 8);
  CHECK(carries_messages(ends, memory));
}

TEST_CASE("a forked child opens the device for itself, and its channels and the parent's both work",
          "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));

  PeerProcess child{[](Wire const&) {
    auto own = two_ends();
    auto bytes = must(own.domain.allocate(64));
    return carries_messages(own, bytes) ? 0 : 1;
  }};
  CHECK(child.exit_status() == 0);

  CHECK(carries_messages(ends, memory));
}
