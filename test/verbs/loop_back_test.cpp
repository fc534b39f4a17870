// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: raw posting moves the bytes it names, and flushing gets every request back.
// Method: a queue pair of the test device connected to itself.
#include "support/two_ends.hpp"

#include <lend/verbs/completion_queue.hpp>
#include <lend/verbs/queue_pair.hpp>

#include <map>

using namespace lend;
using namespace lend::test;

namespace {

struct LoopBack {
  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  CompletionQueue queue = must(CompletionQueue::create(context, 256));
  MemoryRegion memory = must(domain.unsafe_allocate_exposed(4096, RemoteAccess::read_write));
  QueuePair queue_pair = [this] {
    auto prepared = must(PreparedQueuePair::create(domain, queue, {.send_depth = 8}));
    auto const self = prepared.endpoint();
    return must(std::move(prepared).connect(self));
  }();

  /// Polls until `count` completions are there, by id.
  std::map<std::uint64_t, Completion> take(std::size_t count) {
    std::map<std::uint64_t, Completion> taken;
    std::array<Completion, 16> room;
    while (taken.size() < count)
      for (auto const& completion : must(queue.poll(room))) taken[completion.id] = completion;
    return taken;
  }
};

}  // namespace

TEST_CASE("a send arrives in the receive with its immediate and byte count", "[verbs]") {
  LoopBack loop;
  put(loop.memory, 0, "hello");

  must(loop.queue_pair.unsafe_post_receive(1, loop.memory.scatter(100, 50)));
  must(loop.queue_pair.unsafe_post_send(
      2, Send{loop.memory.gather(0, 2), loop.memory.gather(2, 3)}.with_immediate(0xfeed'0001)));
  auto const done = loop.take(2);

  REQUIRE(done.at(1).success() != nullptr);
  REQUIRE(done.at(2).success() != nullptr);
  CHECK(done.at(1).success()->bytes == 5);
  CHECK(done.at(1).success()->immediate == 0xfeed'0001u);
  CHECK(text_at(loop.memory, 100, 5) == "hello");
}

TEST_CASE("a write and a read move an exposed region's bytes", "[verbs]") {
  LoopBack loop;
  auto const remote = must(loop.memory.remote());
  put(loop.memory, 0, "there and back");

  must(loop.queue_pair.unsafe_post_write(1,
                                         Write(loop.memory.gather(0, 14), remote.slice(1000, 14))));
  REQUIRE(loop.take(1).at(1).success() != nullptr);
  CHECK(text_at(loop.memory, 1000, 14) == "there and back");
  must(loop.queue_pair.unsafe_post_read(
      2, Read(loop.memory.scatter(2000, 14), remote.slice(1000, 14))));
  auto const done = loop.take(1);
  REQUIRE(done.at(2).success() != nullptr);
  CHECK(done.at(2).success()->bytes == 14);
  CHECK(text_at(loop.memory, 2000, 14) == "there and back");
}

TEST_CASE("messages of no bytes arrive, with and without an immediate", "[verbs]") {
  LoopBack loop;

  must(loop.queue_pair.unsafe_post_receive(1, Receive::only_immediate()));
  must(loop.queue_pair.unsafe_post_receive(2, Receive::only_immediate()));
  must(loop.queue_pair.unsafe_post_send(3, Send::only_immediate(9)));
  must(loop.queue_pair.unsafe_post_send(4, loop.memory.gather(10, 0)));
  auto const done = loop.take(4);

  for (auto const& [id, completion] : done) CHECK(completion.success() != nullptr);
  CHECK(done.at(1).success()->immediate == 9u);
  CHECK_FALSE(done.at(2).success()->immediate.has_value());
}

TEST_CASE("a full queue refuses and takes work again after a poll", "[verbs]") {
  LoopBack loop;
  auto const remote = must(loop.memory.remote());
  Write const write(loop.memory.gather(0, 8), remote.slice(64, 8));
  std::uint64_t posted = 0;
  Result<void> last = success();
  while (posted < 4096 && (last = loop.queue_pair.unsafe_post_write(posted, write)).has_value())
    ++posted;

  REQUIRE(last.has_error());
  CHECK(last.error() == Errc::queue_full);
  CHECK(posted >= 8);
  loop.take(posted);
  CHECK(loop.queue_pair.unsafe_post_write(5000, write).has_value());
}

TEST_CASE("flushing completes every outstanding request as flushed", "[verbs]") {
  LoopBack loop;
  for (std::uint64_t id = 0; id < 5; ++id)
    must(loop.queue_pair.unsafe_post_receive(id, loop.memory.scatter(id * 8, 8)));
  CHECK(loop.queue_pair.state() == QueuePairState::ready_to_send);

  must(loop.queue_pair.abort_all());

  for (auto const& [id, completion] : loop.take(5)) {
    REQUIRE(completion.failure() != nullptr);
    CHECK(completion.failure()->status == WorkStatus::flushed);
  }
  CHECK(loop.queue_pair.state() == QueuePairState::error);
}

TEST_CASE("memory of another domain is refused before it is posted", "[verbs]") {
  LoopBack loop;
  auto other = must(must(loop.context.allocate_protection_domain()).allocate(64));

  CHECK(error_of(loop.queue_pair.unsafe_post_send(1, other.gather())) == Errc::invalid_argument);
  CHECK(error_of(loop.queue_pair.unsafe_post_receive(1, other.scatter())) ==
        Errc::invalid_argument);
}
