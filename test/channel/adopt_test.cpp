// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a channel over a queue pair that somebody else connected, and over no other.
// Method: the queue pairs are connected beside their channels.
#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

struct TwoPrepared {
  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  PreparedChannel one = must(prepare_channel(domain, {}));
  PreparedChannel other = must(prepare_channel(domain, {}));

  /// Connects the queue pairs that it takes from both.
  std::pair<QueuePair, QueuePair> connect() {
    if (!context.capabilities().endpoints)
      return connect_by_cm(one.take_queue_pair(), other.take_queue_pair());
    auto const first = one.endpoint(), second = other.endpoint();
    auto connected = must(one.take_queue_pair().connect(second));
    return {std::move(connected), must(other.take_queue_pair().connect(first))};
  }
};

}  // namespace

TEST_CASE("a channel adopts the queue pair that was taken from it and connected", "[channel]") {
  TwoPrepared ends;
  Endpoint const endpoint = ends.one.endpoint();
  auto [one, other] = ends.connect();
  CHECK(ends.one.endpoint() == endpoint);

  Channel a = must(std::move(ends.one).adopt(std::move(one)));
  Channel b = must(std::move(ends.other).adopt(std::move(other)));
  auto memory = must(ends.domain.allocate(64));
  PollingScope scope{b};
  auto arrival = must(scope.post_receive(memory.scatter(32, 8)));
  must(a.send(memory.gather(0, 8)));
  CHECK(must(arrival.wait(within(5s))).bytes == 8);
  must(scope.finish());
}

TEST_CASE("a channel adopts no queue pair but its own", "[channel]") {
  TwoPrepared ends;
  auto [one, other] = ends.connect();

  CHECK(error_of(std::move(ends.other).adopt(std::move(one))) == Errc::invalid_argument);
  CHECK(error_of(std::move(ends.other).adopt(std::move(other))) == Errc::stale_handle);
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  auto const gone = error_of(std::move(ends.one).adopt(std::move(other)));
  CHECK(gone == Errc::invalid_argument);
  CHECK_THAT(gone.message(), Catch::Contains("moved from"));
}

TEST_CASE("a queue pair taken from a channel leaves nothing to connect there", "[channel]") {
  TwoPrepared ends;
  auto const taken = ends.one.take_queue_pair();
  auto const endpoint = ends.other.endpoint();

  CHECK(ends.one.take_queue_pair().native() == nullptr);
  CHECK(error_of(std::move(ends.one).handshake(endpoint)) == Errc::invalid_argument);
}
