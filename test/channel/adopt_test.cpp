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

  /// Connects `stranger` to the queue pair that it takes from `other`.
  QueuePair connect(PreparedQueuePair stranger) {
    if (!context.capabilities().endpoints)
      return connect_by_cm(std::move(stranger), other.take_queue_pair()).first;
    return must(std::move(stranger).connect(other.endpoint()));
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

TEST_CASE("a channel adopts no queue pair that was made where its own had been", "[channel]") {
  // Where the address comes back is the allocator's choice; without a sanitizer it does at once.
  for (int tries = 0; tries < 8; ++tries) {
    TwoPrepared ends;
    ibv_qp const* const own = ends.one.take_queue_pair().native();
    auto const completions = must(CompletionQueue::create(ends.context, 64, Wakeable::no));
    QueuePairOptions small;
    small.send_depth = small.receive_depth = 4;
    PreparedQueuePair stranger = must(PreparedQueuePair::create(ends.domain, completions, small));
    CAPTURE(tries, stranger.native() == own);
    auto const error = error_of(std::move(ends.one).adopt(ends.connect(std::move(stranger))));
    CHECK(error == Errc::invalid_argument);
  }
}

TEST_CASE("a queue pair taken from a channel leaves nothing to connect there", "[channel]") {
  TwoPrepared ends;
  auto const taken = ends.one.take_queue_pair();
  auto const endpoint = ends.other.endpoint();

  CHECK(ends.one.take_queue_pair().native() == nullptr);
  CHECK(error_of(std::move(ends.one).handshake(endpoint)) == Errc::invalid_argument);
}
