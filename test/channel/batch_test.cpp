// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a batch does what its operations do alone, in their order.
// Method: two ends; what arrives is read.
#include <type_traits>
#include <vector>

#include "channel/pieces.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

static_assert(!std::is_copy_constructible_v<Batch>);
static_assert(!std::is_move_constructible_v<Batch>);
static_assert(std::is_nothrow_destructible_v<Batch>);

TEST_CASE("batches of sends and receives carry every message, in order", "[channel]") {
  Pieces it{80};  // more than are posted at once
  PollingScope sending{it.ends.a}, receiving{it.ends.b};
  std::vector<PendingWork> arrivals, departures;
  {
    auto batch = receiving.batch();
    for (std::size_t i = 0; i < it.count; ++i)
      arrivals.push_back(must(batch.add_receive(it.into(i))));
    must(batch.post());
    CHECK(batch.size() == 0);
  }
  auto batch = sending.batch();
  for (std::size_t i = 0; i < it.count; ++i) departures.push_back(must(batch.add_send(it.from(i))));
  must(batch.post());

  for (std::size_t i = 0; i < it.count; ++i) {
    CHECK(must(arrivals[i].wait(within(10s))).bytes == piece);
    CHECK(must(departures[i].wait(within(10s))).bytes == piece);
    CHECK(it.arrived(i) == word(i));
  }
  CHECK(it.here.loans() == 0);
  CHECK(it.there.loans() == 0);
  must(sending.finish());
  must(receiving.finish());
}

TEST_CASE("writes and reads of one batch happen in the order of adding", "[channel]") {
  Pieces it{20};
  auto back = must(it.ends.domain.allocate(it.count * piece));
  PollingScope scope{it.ends.a};
  std::vector<PendingWork> reads;

  auto batch = scope.batch();
  for (std::size_t i = 0; i < it.count; ++i) {
    static_cast<void>(must(batch.add_write(it.write(i))));
    reads.push_back(must(batch.add_read({back.scatter(i * piece, piece), it.slice(i)})));
  }
  must(batch.post());

  for (std::size_t i = 0; i < it.count; ++i) {
    CHECK(must(reads[i].wait(within(10s))).bytes == piece);
    CHECK(text_at(back, i * piece, piece) == word(i));
  }
  must(scope.finish());
  CHECK(it.here.loans() == 0);
}

TEST_CASE("sends and writes of a batch carry their immediates", "[channel]") {
  Pieces it{4};
  if (lacks(it.ends.context, &DeviceCapabilities::immediates)) return;
  PollingScope sending{it.ends.a}, receiving{it.ends.b};
  auto targets = must(it.ends.domain.allocate(64));
  std::vector<PendingWork> arrivals;
  auto receives = receiving.batch();
  arrivals.push_back(must(receives.add_receive(targets.scatter(0, piece))));
  arrivals.push_back(must(receives.add_receive(Receive::only_immediate())));
  arrivals.push_back(must(receives.add_receive(Receive::only_immediate())));
  must(receives.post());

  auto batch = sending.batch();
  static_cast<void>(must(batch.add_send(Send{it.from(0)}.with_immediate(10))));
  static_cast<void>(must(batch.add_write(it.write(1).with_immediate(11))));
  static_cast<void>(must(batch.add_send(Send::only_immediate(12))));
  must(batch.post());

  for (std::uint32_t i = 0; i < 3; ++i)
    CHECK(must(arrivals[i].wait(within(10s))).immediate == 10 + i);
  CHECK(text_at(targets, 0, piece) == word(0));
  must(sending.finish());
}

TEST_CASE("a batch on a channel with inline room sends what the bytes were when they were added",
          "[channel]") {
  ChannelOptions options;
  options.queue_pair.inline_bytes = 16;
  Pieces it{4, options};
  PollingScope scope{it.ends.a};

  auto batch = scope.batch();
  for (std::size_t i = 0; i < 2; ++i) static_cast<void>(must(batch.add_write(it.write(i))));
  CHECK(it.here.loans() == 0);
  put(it.here, 0, "gone....");
  // More than fits inline.
  auto last =
      must(batch.add_write({it.here.gather(piece, 3 * piece), it.remote.slice(piece, 3 * piece)}));
  CHECK(it.here.loans() == 1);
  must(batch.post());
  CHECK(must(last.wait(within(10s))).bytes == 3 * piece);
  must(scope.finish());
  it.settle();
  for (std::size_t i = 0; i < 4; ++i) CHECK(it.arrived(i) == word(i));
}

TEST_CASE("work of a batch is on loan from adding on, and posted by whoever asks for it",
          "[channel]") {
  Pieces it{3};
  PollingScope scope{it.ends.a};
  auto batch = scope.batch();
  auto first = must(batch.add_write(it.write(0)));
  auto second = must(batch.add_write(it.write(1)));
  CHECK(it.here.loans() == 2);
  CHECK(error_of(it.here.mutable_bytes(0, piece)) == Errc::already_borrowed);
  CHECK(scope.outstanding() == 0);
  CHECK(batch.size() == 2);

  SECTION("wait") {
    must(first.wait(within(10s)));
  }
  SECTION("poll") {
    while (!must(first.poll())) {
    }
  }
  SECTION("finish") {
    must(scope.finish());
    CHECK(error_of(batch.add_write(it.write(2))) == Errc::stale_handle);
    CHECK(error_of(batch.post()) == Errc::stale_handle);
    CHECK(error_of(second.poll()) == Errc::stale_handle);
    CHECK(it.here.loans() == 0);
  }
  CHECK(batch.size() == 0);
  it.settle();
  CHECK(it.arrived(0) == word(0));
  CHECK(it.arrived(1) == word(1));
}

TEST_CASE("what is refused when it is added leaves the rest of its batch as it was", "[channel]") {
  Pieces it{4};
  auto target = must(it.ends.domain.allocate(piece));
  PollingScope scope{it.ends.a};
  auto batch = scope.batch();
  auto first = must(batch.add_write(it.write(0)));
  auto read = must(batch.add_read({target.scatter(0, piece), it.slice(0)}));

  CHECK(error_of(batch.add_write({it.here.gather(4 * piece, piece), it.slice(1)})) ==
        Errc::invalid_argument);
  CHECK(error_of(batch.add_write({it.from(1), it.remote.slice(0, 2 * piece)})) ==
        Errc::invalid_argument);
  CHECK(error_of(batch.add_send(GatherList{})) == Errc::invalid_argument);
  CHECK(error_of(batch.add_send(target.gather(0, piece))) == Errc::already_borrowed);
  std::vector<GatherElement> const many(5, it.from(1));
  CHECK(error_of(batch.add_write({std::span{many}, it.remote.slice(0, 5 * piece)})) ==
        Errc::invalid_argument);

  CHECK(batch.size() == 2);
  CHECK(it.here.loans() == 1);
  auto last = must(batch.add_write(it.write(3)));
  must(batch.post());
  must(last.wait(within(10s)));
  must(first.wait(within(10s)));
  must(read.wait(within(10s)));
  it.settle();
  CHECK(it.arrived(3) == word(3));
  CHECK(it.arrived(1) != word(1));
  must(scope.finish());
}

TEST_CASE("batches on a shallow channel wait for room as they go", "[channel]") {
  Pieces it{50, options_with_depth(4)};
  PollingScope scope{it.ends.a};
  {
    auto batch = scope.batch();
    for (std::size_t i = 0; i < it.count; ++i) {
      static_cast<void>(must(batch.add_write(it.write(i), within(10s))));
      CHECK(batch.size() <= 4);
    }
    must(batch.post(within(10s)));
  }
  must(scope.finish());
  it.settle();
  for (std::size_t i = 0; i < it.count; ++i) CHECK(it.arrived(i) == word(i));
  CHECK(it.here.loans() == 0);
}

TEST_CASE("batches of one scope, and other posts between them, do not disturb each other",
          "[channel]") {
  Pieces it{12};
  PollingScope scope{it.ends.a};
  auto one = scope.batch();
  auto other = scope.batch();
  std::vector<PendingWork> works;
  for (std::size_t i = 0; i < it.count; i += 3) {
    works.push_back(must(one.add_write(it.write(i))));
    works.push_back(must(other.add_write(it.write(i + 1))));
    works.push_back(must(scope.post_write(it.write(i + 2))));
  }
  must(other.post());
  must(works[1].wait(within(10s)));
  CHECK(one.size() == 4);
  must(one.post());
  for (std::size_t i = 0; i < it.count; ++i)
    if (i != 1) must(works[i].wait(within(10s)));
  must(scope.finish());
  it.settle();
  for (std::size_t i = 0; i < it.count; ++i) CHECK(it.arrived(i) == word(i));
}
