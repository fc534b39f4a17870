// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: queue pairs that share receives take them in turn, each completes once and where it was
// taken, and what cannot work is refused with a reason.
// Method: the test device; two queue pairs that share receives, each connected to a sender.
#include "support/two_ends.hpp"

#include <lend/verbs/receive_queue.hpp>

#include <map>
#include <optional>
#include <vector>

using namespace lend;
using namespace lend::test;

namespace {

struct Pair {
  QueuePair receiver;
  QueuePair sender;
};

Pair connect_both(PreparedQueuePair one, PreparedQueuePair other, Context const& context) {
  if (!context.capabilities().endpoints) {
    auto both = try_connect_by_cm(std::move(one), std::move(other));
    REQUIRE(both.has_value());
    return {std::move(both->first), std::move(both->second)};
  }
  auto const own = one.endpoint();
  auto receiver = must(std::move(one).connect(other.endpoint()));
  return {std::move(receiver), must(std::move(other).connect(own))};
}

struct Shared {
  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  CompletionQueue queue = must(CompletionQueue::create(context, 256));
  CompletionQueue sends = must(CompletionQueue::create(context, 256));
  ReceiveQueue receives = must(ReceiveQueue::create(domain, 16, 2));
  MemoryRegion memory = must(domain.allocate(4096));
  std::vector<Pair> pairs{};

  Shared() {
    for (int i = 0; i < 2; ++i)
      pairs.push_back(connect_both(
          must(PreparedQueuePair::create(domain, queue, {.send_depth = 8}, receives)),
          must(PreparedQueuePair::create(domain, sends, {.send_depth = 8, .receive_depth = 1})),
          context));
  }
  std::map<std::uint64_t, Completion> take(CompletionQueue& from, std::size_t count) {
    std::map<std::uint64_t, Completion> taken;
    std::array<Completion, 16> room;
    while (taken.size() < count)
      for (auto const& completion : must(from.poll(room))) taken[completion.id] = completion;
    return taken;
  }
};

}  // namespace

TEST_CASE("messages of several queue pairs take the receives that these share", "[verbs]") {
  Shared shared;
  put(shared.memory, 0, "first other");
  must(shared.receives.unsafe_post_receive(
      10, Receive{shared.memory.scatter(100, 3), shared.memory.scatter(200, 50)}));
  must(shared.receives.unsafe_post_receive(11, shared.memory.scatter(300, 50)));

  must(shared.pairs[0].sender.unsafe_post_send(1, shared.memory.gather(0, 5)));
  CHECK(shared.take(shared.queue, 1).at(10).success()->bytes == 5);
  must(shared.pairs[1].sender.unsafe_post_send(2, shared.memory.gather(6, 5)));
  CHECK(shared.take(shared.queue, 1).at(11).success()->bytes == 5);

  CHECK(text_at(shared.memory, 100, 3) + text_at(shared.memory, 200, 2) == "first");
  CHECK(text_at(shared.memory, 300, 5) == "other");
  CHECK(shared.take(shared.sends, 2).size() == 2);
}

TEST_CASE("shared receives outlive a queue pair that is aborted and destroyed", "[verbs]") {
  Shared shared;
  for (std::uint64_t id = 0; id < 4; ++id)
    must(shared.receives.unsafe_post_receive(id, shared.memory.scatter(8 * id, 8)));

  must(shared.pairs[0].receiver.abort_all());
  must(std::move(shared.pairs[0].receiver).destroy());
  for (std::uint64_t id = 0; id < 4; ++id)
    must(shared.pairs[1].sender.unsafe_post_send(id, shared.memory.gather(2048, 8)));

  for (auto const& [id, completion] : shared.take(shared.queue, 4))
    CHECK(completion.success() != nullptr);
}

TEST_CASE("a shared receive queue takes its depth, and again what has completed", "[verbs]") {
  Shared shared;
  std::uint64_t posted = 0;
  Result<void> last = success();
  while (
      posted < 4096 &&
      (last = shared.receives.unsafe_post_receive(posted, shared.memory.scatter(0, 8))).has_value())
    ++posted;
  CHECK(error_of(last) == Errc::queue_full);
  CHECK(posted >= 16);

  must(shared.pairs[0].sender.unsafe_post_send(1, shared.memory.gather(8, 8)));
  CHECK(shared.take(shared.queue, 1).at(0).success() != nullptr);
  CHECK(shared.receives.unsafe_post_receive(posted, shared.memory.scatter(0, 8)).has_value());
}

TEST_CASE("what a shared receive queue cannot do is refused, and nothing is posted", "[verbs]") {
  Shared shared;
  auto& receives = shared.receives;
  auto const other_domain = must(shared.context.allocate_protection_domain());
  auto elsewhere = must(other_domain.allocate(64));
  auto const refused = [](Result<void> const& result, std::string_view words) {
    CHECK(error_of(result) == Errc::invalid_argument);
    CHECK(error_of(result).message().find(words) != std::string::npos);
  };
  refused(receives.unsafe_post_receive(1, elsewhere.scatter(0, 8)), "another protection domain");
  refused(receives.unsafe_post_receive(1, shared.memory.scatter(4096, 1)), "bounds");
  refused(receives.unsafe_post_receive(1, Receive{ScatterList{}}), "only_immediate()");
  refused(receives.request_limit_event(receives.depth() + 1), "above the queue's depth");
  CHECK(receives.request_limit_event(1).has_value());

  auto const limit = static_cast<std::uint32_t>(shared.context.limits().shared_receives_max);
  for (std::uint32_t const depth : {0u, limit + 1})
    CHECK(error_of(ReceiveQueue::create(shared.domain, depth)) == Errc::invalid_argument);
  CHECK(error_of(ReceiveQueue::create(shared.domain, 1, elements_max + 1)) ==
        Errc::invalid_argument);
}

TEST_CASE("a queue pair with shared receives takes none of its own, and needs room for them",
          "[verbs]") {
  Shared shared;
  CHECK(shared.receives.room_wanted_in(shared.queue) == 0);
  CHECK(shared.receives.room_wanted_in(shared.sends) == shared.receives.depth());
  auto const small = must(CompletionQueue::create(shared.context, 1));
  if (small.depth() < 8 + shared.receives.depth())
    CHECK(error_of(PreparedQueuePair::create(shared.domain, small, {.send_depth = 8},
                                             shared.receives)) == Errc::invalid_argument);
  CHECK(shared.pairs[0].receiver.unsafe_post_receive(1, shared.memory.scatter(0, 8)).has_error());
  auto gone = must(ReceiveQueue::create(shared.domain, 1));
  auto const taken = std::move(gone);
  CHECK(error_of(PreparedQueuePair::create(shared.domain, shared.queue, {}, gone)) ==  // NOLINT
        Errc::invalid_argument);
}

TEST_CASE("a shared receive queue ends with the last queue pair that uses it", "[verbs]") {
  Shared shared;
  auto unused = must(ReceiveQueue::create(shared.domain, 4));
  must(unused.unsafe_post_receive(1, shared.memory.scatter(0, 8)));
  CHECK(std::move(unused).destroy().has_value());
  CHECK(error_of(std::move(shared.receives).destroy()) == Errc::system_failed);
  shared.pairs.clear();
}
