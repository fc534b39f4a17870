// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a handle can be dropped, moved, kept, leaked or outlive everything, and harms nothing.
#include <optional>
#include <vector>

#include <lend/channel/unsafe.hpp>

#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

static_assert(!std::is_copy_constructible_v<PendingWork>);
static_assert(std::is_nothrow_move_constructible_v<PendingWork>);

TEST_CASE("a handle has no result before the work is over and keeps it afterwards", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  PollingScope scope{ends.b};
  auto work = must(scope.post_receive(memory.scatter(0, 8)));

  CHECK_FALSE(must(work.poll()).has_value());
  CHECK(error_of(work.wait(within(1ms))) == Errc::timed_out);
  must(ends.a.send(memory.gather(32, 8)));
  CHECK(must(work.wait(within(5s))).bytes == 8);
  CHECK(must(work.poll())->bytes == 8);
  must(scope.finish());
  CHECK(must(work.poll())->bytes == 8);
}

TEST_CASE("a message that comes with the end of a send has a result of its own, as the send has",
          "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  PollingScope at_a{ends.a};
  PollingScope at_b{ends.b};
  static_cast<void>(must(at_a.post_receive(memory.scatter(0, 16))));
  auto received = must(at_b.post_receive(memory.scatter(16, 16)));
  auto sent = must(at_b.post_send(memory.gather(32, 4)));
  must(ends.a.send(memory.gather(40, 8)));

  CHECK(must(received.wait(within(5s))).bytes == 8);
  CHECK(must(sent.wait(within(5s))).bytes == 4);
  must(at_a.finish());
  must(at_b.finish());
  CHECK(memory.loans() == 0);
}

TEST_CASE("a failed handle keeps its failure", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  PollingScope scope{ends.a};
  auto work = post_failing(ends, scope, memory);

  CHECK(error_of(work.wait(within(5s))) == Errc::work_failed);
  CHECK(error_of(work.poll()) == Errc::work_failed);
  CHECK(error_of(work.wait()) == Errc::work_failed);
  must(scope.finish());
}

TEST_CASE("a moved handle answers and the one moved from is stale", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  PollingScope scope{ends.b};
  auto first = must(scope.post_receive(memory.scatter(0, 8)));
  auto second = must(scope.post_receive(memory.scatter(8, 8)));
  must(ends.a.send(memory.gather(32, 8)));

  PendingWork moved{std::move(first)};
  CHECK(must(moved.wait(within(5s))).bytes == 8);
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  CHECK(error_of(first.poll()) == Errc::stale_handle);
  PendingWork again{std::move(moved)};  // with its result
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  CHECK(error_of(moved.poll()) == Errc::stale_handle);
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  CHECK(error_of(moved.wait()).message() ==
        "this handle was moved from: use the one it was moved to");
  moved = std::move(again);

  second = std::move(moved);  // drops the second: its work goes on without a handle
  CHECK(must(second.poll())->bytes == 8);
  must(ends.a.send(memory.gather(32, 8)));
  must(scope.finish());
  CHECK(memory.loans() == 0);
}

TEST_CASE("a handle that outlives its scope is stale", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  std::optional<PendingWork> kept;
  {
    PollingScope scope{ends.b};
    kept = must(scope.post_receive(memory.scatter(0, 8)));
    must(ends.a.send(memory.gather(32, 8)));
    must(scope.finish());
  }

  CHECK(error_of(kept->poll()) == Errc::stale_handle);
  CHECK(error_of(kept->wait()) == Errc::stale_handle);

  // Its slot has another tenant now, which it must not touch.
  PollingScope scope{ends.b};
  auto other = must(scope.post_receive(memory.scatter(0, 8)));
  kept.reset();
  must(ends.a.send(memory.gather(32, 8)));
  CHECK(must(other.wait(within(5s))).bytes == 8);
  must(scope.finish());
}

TEST_CASE("a handle that outlives its channel is stale, also when a new channel lives there",
          "[channel]") {
  std::optional<PendingWork> kept;
  {
    auto ends = two_ends();
    auto memory = must(ends.domain.allocate(64));
    PollingScope scope{ends.b};
    scope.drain_within(0ms);
    kept = must(scope.post_receive(memory.scatter(0, 8)));
  }
  auto ends = two_ends();

  CHECK(error_of(kept->poll()) == Errc::stale_handle);
  CHECK(error_of(kept->wait()) == Errc::stale_handle);
}

TEST_CASE("a leaked handle costs its slot until the scope ends and nothing after", "[channel]") {
  auto ends = two_ends(options_with_depth(1));
  auto memory = must(ends.domain.allocate(64));

  for (int round = 0; round < 20; ++round) {
    PollingScope scope{ends.b};
    alignas(PendingWork) std::byte storage[sizeof(PendingWork)];
    new (storage) PendingWork{must(scope.post_receive(memory.scatter(0, 8)))};
    must(ends.a.send(memory.gather(32, 8)));
    must(scope.finish());
  }
  CHECK(memory.loans() == 0);
}

TEST_CASE("a post waits for room when the depth is used up, and try_post does not", "[channel]") {
  auto ends = two_ends(options_with_depth(2));
  auto memory = must(ends.domain.allocate(64));
  PollingScope receiving{ends.b};
  PollingScope sending{ends.a};
  for (std::size_t i = 0; i < 2; ++i)
    static_cast<void>(must(receiving.post_receive(memory.scatter(8 * i, 8))));

  CHECK(error_of(receiving.try_post_receive(memory.scatter(16, 8))) == Errc::queue_full);
  CHECK(error_of(receiving.post_receive(memory.scatter(16, 8), within(5ms))) == Errc::timed_out);
  CHECK(memory.loans() == 2);

  static_cast<void>(must(sending.post_send(memory.gather(32, 8))));
  static_cast<void>(must(receiving.post_receive(memory.scatter(16, 8), within(5s))));
  for (int i = 0; i < 2; ++i) static_cast<void>(must(sending.post_send(memory.gather(32, 8))));
  must(sending.finish());
  must(receiving.finish());
  CHECK(memory.loans() == 0);
}

TEST_CASE("a post that does not wait finds room once work is over, though nobody asks for it",
          "[channel]") {
  auto ends = two_ends(options_with_depth(2));
  auto memory = must(ends.domain.allocate(64));
  // SAFETY: nobody writes there.
  auto const there = must(ends.domain.unsafe_allocate_exposed(64, RemoteAccess::read));
  auto const remote = must(there.remote());
  PollingScope scope{ends.a};
  bool const is_unsafe = GENERATE(false, true);
  for (std::size_t at = 0; at < 64; at += 8) {
    Read const read{memory.scatter(at, 8), remote.slice(at, 8)};
    for (auto const limit = within(5s);;) {
      // SAFETY: the memory outlives the channel and nobody looks at it.
      auto const posted = is_unsafe ? unsafe_post_read(ends.a, read) : scope.try_post_read(read);
      if (posted.has_value()) break;
      REQUIRE(posted.error() == Errc::queue_full);
      REQUIRE_FALSE(limit.has_passed());
    }
  }
  must(ends.a.read({memory.scatter(0, 8), remote.slice(0, 8)}));  // behind all of them
  must(scope.finish());
}

TEST_CASE("finished handles that hold every slot are an error, not a wait without end",
          "[channel]") {
  auto ends = two_ends(options_with_depth(1));
  auto memory = must(ends.domain.allocate(64));
  PollingScope scope{ends.b};
  std::vector<PendingWork> kept;

  for (;;) {
    auto work = scope.post_receive(memory.scatter(0, 8), within(5s));
    if (!work.has_value()) {
      CHECK(error_of(work) == Errc::queue_full);
      break;
    }
    kept.push_back(std::move(work).value());
    REQUIRE(kept.size() < 100);
    must(ends.a.send(memory.gather(32, 8)));
  }
  CHECK(kept.size() == 4);  // depth 1 + 1 outstanding, and as many finished
  for (auto const& error :
       {error_of(scope.try_post_receive(memory.scatter(0, 8))),
        error_of(unsafe_post_receive(ends.b, memory.scatter(0, 8)))}) {  // posts nothing
    CHECK(error == Errc::queue_full);
    CHECK_THAT(error.message(), Catch::Contains("held by handles"));
  }
  kept.pop_back();
  static_cast<void>(must(scope.post_receive(memory.scatter(0, 8), within(5s))));
  must(ends.a.send(memory.gather(32, 8)));
  must(scope.finish());
}

TEST_CASE("a post does not wait for room where every slot has a handle, some of them waiting",
          "[channel]") {
  auto ends = two_ends(options_with_depth(1));
  auto memory = must(ends.domain.allocate(64));
  PollingScope scope{ends.b};
  scope.drain_within(0ms);
  std::vector<PendingWork> kept;
  while (kept.size() < 3) {
    kept.push_back(must(scope.post_receive(memory.scatter(0, 8), within(5s))));
    must(ends.a.send(memory.gather(32, 8)));
  }
  kept.push_back(must(scope.post_receive(memory.scatter(0, 8), within(5s))));  // nobody answers

  // That receive would keep its slot even if it were answered.
  CHECK(error_of(scope.post_send(memory.gather(40, 8), within(60s))) == Errc::queue_full);
  kept.erase(kept.begin());
  PollingScope receiving{ends.a};
  static_cast<void>(must(receiving.post_receive(memory.scatter(48, 8))));
  static_cast<void>(must(scope.post_send(memory.gather(40, 8), within(60s))));
  must(receiving.finish());
}

TEST_CASE("unsafe posting lends nothing and reports through its handle", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  put(memory, 0, "raw bits");

  // SAFETY: memory outlives both channels; the ranges do not overlap and are not touched meanwhile.
  auto arrival = must(unsafe_post_receive(ends.b, memory.scatter(32, 8)));
  auto sent = must(unsafe_post_send(ends.a, memory.gather(0, 8)));

  CHECK(memory.loans() == 0);
  CHECK(must(sent.wait(within(5s))).operation == Operation::send);
  CHECK(must(arrival.wait(within(5s))).bytes == 8);
  CHECK(text_at(memory, 32, 8) == "raw bits");
}

TEST_CASE("an unsafe post whose handle is dropped leaves its failure with the channel",
          "[channel]") {
  auto ends = two_ends();
  if (lacks(ends.context, &DeviceCapabilities::acknowledges)) return;
  auto memory = must(ends.domain.allocate(64));
  {
    // SAFETY: memory outlives both channels and nobody else uses it.
    auto dropped = must(unsafe_post_write(ends.a, {memory.gather(0, 8), nobody(8)}));
  }
  PollingScope scope{ends.a};
  while (ends.a.first_cause() == nullptr) {
    auto const polled = scope.post_send(memory.gather(0, 1), within(1ms));
    if (!polled.has_value() && polled.error() == Errc::channel_broken) break;
  }
  static_cast<void>(scope.finish());
  REQUIRE(ends.a.last_failures().size() == 1);
  CHECK(ends.a.last_failures()[0] == Errc::work_failed);
}
