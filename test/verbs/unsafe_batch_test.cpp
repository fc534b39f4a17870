// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a batch of a queue pair posts its requests in order, with the completions that it was asked
// for, and loses none that the device refuses. Method: queue pairs of the test's device.
#include "verbs/verbs_ends.hpp"

#include <type_traits>

using namespace lend;
using namespace lend::test;

namespace {

static_assert(!std::is_copy_constructible_v<UnsafeBatchOf<Rc>>);
static_assert(!std::is_move_constructible_v<UnsafeBatchOf<Rc>>);

}  // namespace

TEST_CASE("a batch posts sends and receives, and silent ones complete with the next", "[verbs]") {
  if (cannot_connect()) return;
  VerbsEnds<> ends;
  put(ends.memory, 0, "abcd");
  auto receives = ends.b.unsafe_batch();
  for (std::uint64_t id = 1; id <= 4; ++id)
    must(receives.add_receive(id, ends.memory.scatter(1000 + id, 1)));
  CHECK(receives.size() == 4);
  must(receives.post());
  CHECK(receives.size() == 0);

  auto batch = ends.a.unsafe_batch();
  for (std::uint64_t id = 1; id <= 4; ++id)
    must(batch.add_send(10 + id, ends.memory.gather(id - 1, 1),
                        id == 4 ? Completes::aloud : Completes::silently));
  must(batch.post());
  auto const done = take(ends.queue, 5);

  CHECK(done.count(14) == 1);
  CHECK(is_quiet(ends.queue));
  CHECK(text_at(ends.memory, 1001, 4) == "abcd");
}

TEST_CASE("a batch mixes writes, reads and atomic operations in the order of adding", "[verbs]") {
  if (cannot_connect()) return;
  VerbsEnds<> ends;
  put(ends.memory, 0, "in order");
  auto batch = ends.a.unsafe_batch();

  must(batch.add_write(1, Write{ends.memory.gather(0, 8), ends.remote(1000, 8)},
                       Completes::silently));
  must(batch.add_read(2, Read{ends.memory.scatter(2000, 8), ends.remote(1000, 8)},
                      Completes::silently));
  must(batch.add_write(3, Write{ends.memory.gather(0, 2), ends.remote(3000, 2)}));
  must(batch.post());
  CHECK(take(ends.queue, 1).count(3) == 1);

  CHECK(text_at(ends.memory, 2000, 8) == "in order");
  CHECK(text_at(ends.memory, 3000, 2) == "in");
}

TEST_CASE("what a batch refuses is not added, and the rest is posted", "[verbs]") {
  if (cannot_connect()) return;
  VerbsEnds<> ends;
  auto batch = ends.a.unsafe_batch();
  must(batch.add_write(1, Write{ends.memory.gather(0, 8), ends.remote(1000, 8)}));

  auto const beyond =
      error_of(batch.add_write(2, Write{ends.memory.gather(65530, 8), ends.remote(1000, 8)}));
  CHECK(beyond == Errc::invalid_argument);
  CHECK(batch.size() == 1);
  for (std::uint32_t id = 2; id <= AnyUnsafeBatch::requests_max; ++id)
    must(batch.add_write(id, Write{ends.memory.gather(0, 8), ends.remote(1000, 8)}));
  CHECK(error_of(batch.add_write(99, Write{ends.memory.gather(0, 8), ends.remote(1000, 8)})) ==
        Errc::queue_full);
  must(batch.post());

  CHECK(take(ends.queue, AnyUnsafeBatch::requests_max).count(99) == 0);
}

TEST_CASE("what a full queue refuses stays in the batch, and is posted later", "[verbs]") {
  if (cannot_connect()) return;
  VerbsPlace ends;
  CompletionQueue received = must(CompletionQueue::create(ends.context, 256));
  auto pair = VerbsPair<Rc>::of(ends.domain, ends.queue, received, {.send_depth = 8});
  // They wait for receives, so that the queue fills on devices that are as fast as the program.
  Send const send{ends.memory.gather(0, 8)};
  auto const allow = [&](std::size_t sends) {
    for (std::size_t i = 0; i < sends; ++i)
      must(pair.b.unsafe_post_receive(i, ends.memory.scatter(1000, 8)));
  };
  std::uint64_t alone = 0;
  while (alone < 100 && pair.a.unsafe_post_send(1000 + alone, send).has_value()) ++alone;
  REQUIRE(alone < 100);
  std::size_t const room = 3;
  allow(room);
  take(ends.queue, room);
  auto batch = pair.a.unsafe_batch();
  for (std::uint64_t id = 0; id < AnyUnsafeBatch::requests_max; ++id)
    must(batch.add_send(id, send));

  std::size_t posts = 0;
  std::size_t ended = room;
  for (Result<void> posted = batch.post(); !posted.has_value(); posted = batch.post()) {
    REQUIRE(posted.assume_error() == Errc::queue_full);
    CHECK(error_of(batch.add_send(99, send)) == Errc::queue_full);
    allow(1);
    ended += take(ends.queue, 1).size();
    ++posts;
  }
  CHECK(posts > 0);
  CHECK(batch.size() == 0);
  auto const left = alone + AnyUnsafeBatch::requests_max - ended;
  allow(left);
  CHECK(take(ends.queue, left).size() == left);

  must(batch.add_send(99, send));
  must(batch.post());
  allow(1);
  CHECK(take(ends.queue, 1).count(99) == 1);
}

TEST_CASE("what a batch drops is never posted", "[verbs]") {
  if (cannot_connect()) return;
  VerbsEnds<> ends;
  auto batch = ends.a.unsafe_batch();
  must(batch.add_write(1, Write{ends.memory.gather(0, 8), ends.remote(1000, 8)}));

  batch.drop();
  must(batch.post());
  CHECK(is_quiet(ends.queue));
}

TEST_CASE("a batch of datagrams says of each where it goes", "[verbs]") {
  if (lacks(open_test_device(), &DeviceCapabilities::datagrams)) return;
  VerbsPlace place;
  auto const made = [&] {
    auto prepared = must(PreparedDatagramQueuePair::create(place.domain, place.queue, {}));
    return must(std::move(prepared).activate());
  };
  auto one = made();
  auto other = made();
  auto const there = must(one.destination(other.endpoint()));
  put(place.memory, 0, "letter");
  auto receives = other.unsafe_batch();
  must(receives.add_receive(1, must(DatagramRoom::in(place.memory.scatter(8192, 100)))));
  must(receives.post());

  auto batch = one.unsafe_batch();
  must(batch.add_send(2, place.memory.gather(0, 6), there));
  must(batch.post());

  CHECK(take(place.queue, 2).at(1).success()->bytes == 46);
  CHECK(text_at(place.memory, 8192 + 40, 6) == "letter");
}
