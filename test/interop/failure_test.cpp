// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what goes wrong between lend and a verbs program has the status that the verbs name, on
// both sides, and an end. Method: verbs_peer.c does wrong, or is killed; then lend.
#include "peer_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

WorkStatus status_of(Error const& error) {
  CAPTURE(error.message());
  REQUIRE(error.work() != nullptr);
  return error.work()->status;
}

// How the peer names a failed request. Source: ibv_poll_cq(3), enum ibv_wc_status.
std::string failed(int id, WorkStatus status) {
  return std::to_string(id) + ' ' + std::to_string(int(status)) + " - - -";
}

}  // namespace

TEST_CASE("a verbs program that uses a wrong key is refused, and lend learns that it was",
          "[interop]") {
  Interop both;
  auto const operation = GENERATE(std::string{"write"}, std::string{"read"});
  PollingScope scope{*both.channel};
  auto waiting = must(scope.post_receive(both.memory.scatter(0, 64)));

  REQUIRE(both.peer.ask(operation + " 9 0:64" + both.exposed_at(0, 1)) == "ok");

  CHECK(both.peer.ask("wait") == failed(9, WorkStatus::remote_access));
  CHECK(status_of(error_of(waiting.wait(within(bound)))) == WorkStatus::flushed);
  static_cast<void>(scope.finish());
  CHECK(both.memory.loans() == 0);
}

TEST_CASE("a verbs program that writes beyond lend's region changes nothing", "[interop]") {
  Interop both;
  auto const last = Interop::memory_bytes - 32;
  REQUIRE(both.peer.ask("fill 0 64 1 0") == "ok");

  REQUIRE(both.peer.ask("write 9 0:64" + both.exposed_at(last)) == "ok");

  CHECK(both.peer.ask("wait") == failed(9, WorkStatus::remote_access));
  for (auto const byte : must(both.exposed.bytes(last, 32))) CHECK(byte == std::byte{0});
}

TEST_CASE("lend that uses a wrong key is refused by a verbs program, which learns of it",
          "[interop]") {
  Interop both;
  bool const writes = GENERATE(true, false);
  RemoteRegion const wrong{both.remote.address(), both.remote.size(), both.remote.key() ^ 1};
  REQUIRE(both.peer.ask("receive 8 0:64") == "ok");

  auto const error = error_of(
      writes ? both.channel->write({both.memory.gather(0, 64), wrong.slice(0, 64)}, within(bound))
             : both.channel->read({both.memory.scatter(0, 64), wrong.slice(0, 64)}, within(bound)));

  CHECK(status_of(error) == WorkStatus::remote_access);
  CHECK(both.peer.ask("wait") == failed(8, WorkStatus::flushed));
  CHECK(both.memory.loans() == 0);
}

TEST_CASE("a message longer than the receive fails on both sides, either way", "[interop]") {
  // The first of each pair is the specification's; the second is SoftRoCE's, which takes the
  // receive for a malformed one. Source: Linux drivers/infiniband/sw/rxe/rxe_mr.c, copy_data.
  Interop both;
  std::string said;
  WorkStatus learnt{};

  SECTION("lend's") {
    REQUIRE(both.peer.ask("receive 8 0:63") == "ok");
    auto const error = error_of(both.channel->send(both.memory.gather(0, 64), within(bound)));
    learnt = status_of(error);
    said = both.peer.ask("wait");
    CHECK((learnt == WorkStatus::remote_invalid_request || learnt == WorkStatus::remote_operation));
    CHECK((said == failed(8, WorkStatus::local_length) ||
           said == failed(8, WorkStatus::local_queue_pair_operation)));
  }
  SECTION("the verbs program's") {
    PollingScope scope{*both.channel};
    auto arrival = must(scope.post_receive(both.memory.scatter(0, 63)));
    REQUIRE(both.peer.ask("send 9 0:64") == "ok");
    said = both.peer.ask("wait");
    learnt = status_of(error_of(arrival.wait(within(bound))));
    static_cast<void>(scope.finish());
    CHECK((said == failed(9, WorkStatus::remote_invalid_request) ||
           said == failed(9, WorkStatus::remote_operation)));
    CHECK((learnt == WorkStatus::local_length || learnt == WorkStatus::local_queue_pair_operation));
  }
  CHECK(both.memory.loans() == 0);
}

TEST_CASE("a verbs program waits for lend's receive", "[interop]") {
  Interop both;
  REQUIRE(both.peer.ask("send 9 0:64") == "ok");

  auto const done = must(both.channel->receive(both.memory.scatter(0, 64), within(bound)));

  CHECK(done.bytes == 64);
  CHECK(both.peer.ask("wait") == "9 0 0 0 -");
}

TEST_CASE("sends to a verbs program that was killed end, and no byte stays on loan", "[interop]") {
  Interop both;
  both.peer.kill();
  CHECK(both.peer.end() == 128 + SIGKILL);

  auto const error = error_of(both.channel->send(both.memory.gather(0, 64), within(bound)));

  CHECK(status_of(error) == WorkStatus::retry_exceeded);
  CHECK(both.memory.loans() == 0);
}

TEST_CASE("a verbs program whose lend peer is gone gets its requests back", "[interop]") {
  Interop both;
  REQUIRE(both.peer.ask("receive 8 0:64") == "ok");
  both.channel.reset();

  REQUIRE(both.peer.ask("send 9 0:64") == "ok");

  CHECK(both.peer.ask("wait") == failed(9, WorkStatus::retry_exceeded));
  CHECK(both.peer.ask("wait") == failed(8, WorkStatus::flushed));
  CHECK(both.peer.end() == 0);
}
