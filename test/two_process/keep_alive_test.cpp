// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a receive whose peer is gone ends as lost where the channel keeps alive, and only then.
// Method: a peer that is killed, ends its channel, or is stopped and goes on.
#include "support/peer_process.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

ChannelOptions keeping_alive(Wait how) {
  ChannelOptions options;
  options.keep_alive = 20ms;
  options.wait = how;
  return options;
}

/// What ChannelBuilder::keep_alive() promises, with the factor that it allows a card; and a minute
/// for a machine that has other things to do.
std::chrono::nanoseconds bound_of(ChannelOptions const& options) {
  return options.keep_alive.value() + 4 * (ack_retries_unasked + 1) * ack_timeout_unasked + 60s;
}

/// The receive ends in time, and says that the peer is gone.
void check_lost(OneEnd& end, PendingWork& receive) {
  auto const error = error_of(receive.wait(within(bound_of(keeping_alive(Wait::adaptive)))));
  CAPTURE(error.describe());
  CHECK(error == Errc::peer_lost);
  REQUIRE(end.channel.first_cause() != nullptr);
  CHECK(*end.channel.first_cause() == Errc::peer_lost);
  // Where rdma_cm watches too, it may tell first, and gives no failed work as the cause.
  if (error.cause() != nullptr) {
    CHECK(error.cause()->work()->status == WorkStatus::retry_exceeded);
    CHECK(error.cause()->work()->bytes == 0);
  }
}

}  // namespace

TEST_CASE("a receive whose peer was killed ends as lost where the channel keeps alive",
          "[two_process]") {
  auto const how = GENERATE(Wait::spin, Wait::adaptive, Wait::event);
  PeerProcess peer{[](Wire const& wire) {
    auto end = one_end(wire);
    return wire.hear() ? 0 : 1;
  }};
  auto end = one_end(peer.wire(), keeping_alive(how));
  auto memory = must(end.domain.allocate(64));
  PollingScope scope{end.channel};
  auto receive = must(scope.post_receive(memory.scatter()));
  CHECK(error_of(receive.wait(within(60ms))) == Errc::timed_out);

  peer.kill();

  check_lost(end, receive);
  CHECK(memory.loans() == 0);
  must(scope.finish());
}

TEST_CASE("a scope that waits for a peer without its channel ends, where the channel keeps alive",
          "[two_process]") {
  PeerProcess peer{[](Wire const& wire) {
    {
      auto end = one_end(wire);
      if (!wire.hear()) return 1;
    }
    return wire.say() && wire.hear() ? 0 : 2;
  }};
  auto end = one_end(peer.wire(), keeping_alive(Wait::adaptive));
  auto memory = must(end.domain.allocate(64));
  PollingScope scope{end.channel};
  auto receive = must(scope.post_receive(memory.scatter(0, 8)));
  static_cast<void>(must(scope.post_receive(memory.scatter(8, 8))));
  REQUIRE(peer.wire().say());
  REQUIRE(peer.wire().hear());

  check_lost(end, receive);
  CHECK(error_of(scope.finish()) == Errc::peer_lost);
  CHECK(memory.loans() == 0);
  REQUIRE(peer.wire().say());
  CHECK(peer.exit_status() == 0);
}

TEST_CASE("a peer that is only stopped is not lost: its device answers", "[two_process]") {
  PeerProcess peer{[](Wire const& wire) {
    auto end = one_end(wire);
    auto memory = must(end.domain.allocate(8));
    if (!wire.hear()) return 1;
    must(end.channel.send(memory.gather(), within(20s)));
    return wire.hear() ? 0 : 2;
  }};
  auto end = one_end(peer.wire(), keeping_alive(Wait::adaptive));
  auto memory = must(end.domain.allocate(64));
  PollingScope scope{end.channel};
  auto receive = must(scope.post_receive(memory.scatter()));

  REQUIRE(::kill(peer.pid(), SIGSTOP) == 0);
  CHECK(error_of(receive.wait(within(300ms))) == Errc::timed_out);
  REQUIRE(::kill(peer.pid(), SIGCONT) == 0);

  REQUIRE(peer.wire().say());
  CHECK(must(receive.wait(within(20s))).bytes == 8);
  must(scope.finish());
  REQUIRE(peer.wire().say());
  CHECK(peer.exit_status() == 0);
}
