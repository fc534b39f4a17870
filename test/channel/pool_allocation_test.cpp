// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: once warm, neither pools, nor scopes of sets, nor atomic operations take anything from the
// heap; a pool that finds no memory leaves none. Method: as allocation_test.cpp.
#include <cstdint>
#include <optional>
#include <vector>

#include "channel/allocated_by.hpp"
#include "channel/pooled.hpp"
#include "support/each_failure.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

TEST_CASE("a message of a pool allocates nothing, nor does its echo by a scope of the set",
          "[channel]") {
  Pooled pooled{2};
  SetScope scope{pooled.set};
  std::size_t turn = 0;
  auto const echo = [&]() -> Result<void> {
    auto const i = ++turn % 2;
    Channel& client = *pooled.clients[i];
    PollingScope of_client{client};
    LEND_TRY(answer, of_client.post_receive(pooled.far.scatter(64, 8)));
    LEND_TRYV(client.send(pooled.far.gather(0, 8), within(10s)));
    std::optional<Message> message = pooled.pool->next();
    while (!message) {
      LEND_TRYV(lend::without_value(pooled.set.wait(pooled.room, within(10s))));
      message = pooled.pool->next();
    }
    LEND_TRY(posting, scope.on(*pooled.servers[i]));
    LEND_TRYV(posting->post_send(message->gather()));
    LEND_TRYV(answer.wait(within(10s)));
    return of_client.finish();
  };
  CHECK(allocated_by(echo) == 0);
  must(scope.finish());
}

TEST_CASE("an atomic operation allocates nothing, blocking or in a scope", "[channel]") {
  auto ends = two_ends();
  if (lacks(ends.context, &DeviceCapabilities::atomics)) return;
  auto memory = must(ends.domain.allocate(64));
  // SAFETY: the atomic operations of this thread alone change it.
  auto words = must(ends.domain.unsafe_allocate_exposed(64, RemoteAccess::all));
  auto const remote = must(words.remote());
  auto const operate = [&]() -> Result<void> {
    LEND_TRYV(ends.a.atomic(Atomic::fetch_add(memory.scatter(0, 8), remote.word(0), 1)));
    LEND_TRYV(ends.a.atomic(Atomic::compare_swap(memory.scatter(8, 8), remote.word(8), 0, 1)));
    PollingScope scope{ends.a};
    LEND_TRY(added, scope.post_atomic(Atomic::fetch_add(memory.scatter(16, 8), remote.word(0), 1)));
    LEND_TRY(swapped,
             scope.post_atomic(Atomic::compare_swap(memory.scatter(24, 8), remote.word(8), 1, 0)));
    LEND_TRYV(added.wait(within(10s)));
    LEND_TRYV(swapped.wait(within(10s)));
    return scope.finish();
  };
  CHECK(allocated_by(operate) == 0);
}

TEST_CASE("a pool that finds no memory is refused, and leaves none behind", "[channel]") {
  Pooled pooled{0};
  bool const is_beyond = GENERATE(false, true);  // what the set has room for: refused in any case
  auto memory = must(pooled.domain.allocate(2 * Pooled::piece));
  std::vector<MemoryRegion> elsewhere;
  std::vector<ReceivePool> others;
  while (is_beyond && others.size() < 127) {  // pooled.pool is one
    elsewhere.push_back(must(pooled.domain.allocate(Pooled::piece)));
    others.push_back(must(ReceivePool::create(pooled.set, elsewhere.back().chunks(Pooled::piece))));
  }
  auto const create = [&] { return ReceivePool::create(pooled.set, memory.chunks(Pooled::piece)); };
  static_cast<void>(create());  // what set and device keep for the next one

  CAPTURE(is_beyond);
  for_each_failure(5, [&](std::uint64_t allowed) {
    auto const before = blocks_held();
    bool is_refused = false, is_full = false;
    bool const needed_more = starved(allowed, [&] {
      auto const made = create();
      is_refused = made.has_error();
      is_full = is_refused && made.error() == Errc::invalid_argument;
    });
    CHECK(blocks_held() == before);
    CHECK(memory.loans() == 0);
    CHECK(is_refused == (needed_more || is_beyond));
    if (is_refused && !needed_more) CHECK(is_full);
    return needed_more;
  });
}
