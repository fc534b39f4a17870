// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: raw verbs between processes move the right bytes whatever memory they lie in, over several
// queue pairs and peers; a forked child cannot touch its parent's device; what a peer may scribble
// over shared memory breaks data and nothing else. Method: forked peers; random bytes, whose seed
// is printed and taken back from LEND_TEST_SEED.
#include <soft/objects/context.hpp>
#include <soft/objects/queue_pair.hpp>
#include <soft/objects/receive_pool.hpp>
#include <soft/peers/host.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "raw_ends.hpp"
#include "rendezvous.hpp"
#include "support/peer_process.hpp"

using namespace lend;
using namespace lend::test;

namespace {

struct FarEnd {
  std::uint32_t number = 0;
  Remote memory;
};

void fill(std::byte* at, std::size_t length, unsigned number) {
  for (std::size_t i = 0; i < length; ++i)
    at[i] = static_cast<std::byte>((number * 2654435761u + i * 31) >> 5);
}
bool holds(std::byte const* at, std::size_t length, unsigned number) {
  for (std::size_t i = 0; i < length; ++i)
    if (at[i] != static_cast<std::byte>((number * 2654435761u + i * 31) >> 5)) return false;
  return true;
}

constexpr std::size_t largest = std::size_t{5} << 20;

}  // namespace

TEST_CASE("sends, writes and reads carry their bytes between all kinds of memory",
          "[two_process]") {
  auto const ours = GENERATE(Where::allocated, Where::private_memory);
  auto const theirs = GENERATE(Where::allocated, Where::private_memory);
  if (theirs == Where::private_memory && !soft::cross_memory().possible()) {
    WARN("skipped: " << soft::cross_memory().obstacle);
    return;
  }
  Rendezvous const rendezvous;
  constexpr std::array<std::size_t, 8> sizes{1, 32, 33, 4095, 4096, 65'537, 1u << 20, largest};
  PeerProcess peer{[&](Wire const& wire) {
    RawDevice const device;
    RawMemory const memory{device, largest, theirs};
    RawQueue const queue{device};
    RawPair const link{device, queue};
    FarEnd other;
    if (!tell(wire, FarEnd{link.number(), memory.remote()}) || !hear(wire, other)) return 1;
    if (link.connect(other.number) != 0) return 2;
    unsigned number = 0;
    for (auto const size : sizes) {
      if (link.receive(1, memory.piece(0, largest)) != 0 || !wire.say()) return 3;
      if (auto const got = next_of(queue); got.status != IBV_WC_SUCCESS || got.byte_len != size)
        return 4;
      if (!holds(memory.at(), size, number++)) return 5;
      if (!wire.say() || !wire.hear()) return 6;  // the write is done
      if (!holds(memory.at(), size, number++)) return 7;
      fill(memory.at(), size, number++);
      if (!wire.say() || !wire.hear()) return 8;  // the read is done
    }
    return 0;
  }};
  RawDevice const device;
  RawMemory const memory{device, largest, ours};
  RawQueue const queue{device};
  RawPair const link{device, queue};
  FarEnd other;
  REQUIRE(hear(peer.wire(), other));
  REQUIRE(tell(peer.wire(), FarEnd{link.number(), memory.remote()}));
  REQUIRE(link.connect(other.number) == 0);
  unsigned number = 0;
  for (auto const size : sizes) {
    CAPTURE(size);
    REQUIRE(peer.wire().hear());
    fill(memory.at(), size, number++);
    REQUIRE(link.send(1, memory.piece(0, size)) == 0);
    REQUIRE(next_of(queue).status == IBV_WC_SUCCESS);
    REQUIRE(peer.wire().hear());
    fill(memory.at(), size, number++);
    REQUIRE(link.write(2, memory.piece(0, size), other.memory) == 0);
    REQUIRE(next_of(queue).status == IBV_WC_SUCCESS);
    REQUIRE(peer.wire().say());
    REQUIRE(peer.wire().hear());
    REQUIRE(link.read(3, memory.piece(0, size), other.memory) == 0);
    REQUIRE(next_of(queue).status == IBV_WC_SUCCESS);
    REQUIRE(holds(memory.at(), size, number++));
    REQUIRE(peer.wire().say());
  }
  CHECK(peer.exit_status() == 0);
}

TEST_CASE("one completion queue serves several queue pairs of several peers, each in order",
          "[two_process]") {
  Rendezvous const rendezvous;
  constexpr std::size_t peers = 3;
  constexpr std::size_t links = 2;  // to each
  constexpr std::uint64_t messages = 300;
  std::vector<std::unique_ptr<PeerProcess>> processes;
  for (std::size_t i = 0; i < peers; ++i)
    processes.push_back(std::make_unique<PeerProcess>([](Wire const& wire) {
      RawDevice const device;
      RawMemory const memory{device, 64};
      RawQueue const queue{device};
      RawPair const pairs[links]{{device, queue}, {device, queue}};
      for (auto const& pair : pairs) {
        std::uint32_t theirs = 0;
        if (!tell(wire, pair.number()) || !hear(wire, theirs)) return 1;
        if (pair.connect(theirs) != 0) return 2;
      }
      if (!wire.hear()) return 3;
      for (std::uint64_t number = 0; number < messages; ++number) {
        std::memcpy(memory.at(), &number, sizeof number);
        for (auto const& pair : pairs)
          if (pair.send(number, memory.piece(0, sizeof number)) != 0) return 4;
        for (auto const& pair : pairs) {
          static_cast<void>(pair);
          if (next_of(queue).status != IBV_WC_SUCCESS) return 5;
        }
      }
      return 0;  // in order: everything is undone
    }));
  RawDevice const device;
  constexpr std::uint32_t depth = 16;
  RawMemory const memory{device, peers * links * depth * 8};
  RawQueue const queue{device};
  std::vector<std::unique_ptr<RawPair>> pairs;
  for (std::size_t i = 0; i < peers * links; ++i) {
    pairs.push_back(std::make_unique<RawPair>(device, queue, depth));
    std::uint32_t theirs = 0;
    REQUIRE(hear(processes[i / links]->wire(), theirs));
    REQUIRE(pairs[i]->connect(theirs) == 0);
    for (std::uint64_t id = 0; id < depth; ++id)
      REQUIRE(pairs[i]->receive(id, memory.piece((i * depth + id) * 8, 8)) == 0);
    REQUIRE(tell(processes[i / links]->wire(), pairs[i]->number()));
  }
  for (auto const& process : processes) REQUIRE(process->wire().say());

  std::vector<std::uint64_t> got(pairs.size());
  for (std::uint64_t total = 0; total < peers * links * messages; ++total) {
    auto const completion = next_of(queue);
    REQUIRE(completion.status == IBV_WC_SUCCESS);
    std::size_t i = 0;
    while (pairs[i]->number() != completion.qp_num) ++i;
    auto const slot = memory.at((i * depth + completion.wr_id) * 8);
    REQUIRE(std::memcmp(slot, &got[i], 8) == 0);
    ++got[i];
    REQUIRE(pairs[i]->receive(completion.wr_id,
                              memory.piece((i * depth + completion.wr_id) * 8, 8)) == 0);
  }
  for (auto const& process : processes) CHECK(process->exit_status() == 0);
  // All have left: sends to them fail, and do not hang.
  REQUIRE(pairs[0]->send(99, memory.piece(0, 8)) == 0);
  ibv_wc completion{};
  do completion = next_of(queue);
  while (completion.wr_id != 99);
  CHECK(completion.status == IBV_WC_RETRY_EXC_ERR);
}

TEST_CASE("a forked child is refused its parent's device, may open its own, and harms nothing",
          "[two_process]") {
  Rendezvous const rendezvous;
  RawDevice const device;
  RawMemory const memory{device, 128};
  RawQueue const queue{device};
  RawPair const loop{device, queue};
  REQUIRE(loop.connect(loop.number()) == 0);
  REQUIRE(loop.receive(1, memory.piece(64, 64)) == 0);
  RawPool const pool{device, 4};
  auto& mark = static_cast<soft::ReceivePool*>(pool.get())->shared->is_awaited;
  mark.set(1);

  PeerProcess child{[&](Wire const&) {
    ibv_wc completion;
    if (loop.send(2, memory.piece(0, 64)) != ENODEV) return 1;
    if (loop.receive(2, memory.piece(0, 64)) != ENODEV) return 2;
    if (queue.poll(1, &completion) != -ENODEV) return 3;
    if (loop.fail() != ENODEV) return 4;
    if (ibv().alloc_pd(device.context()) != nullptr || errno != ENODEV) return 5;
    if (ibv().last_reason() == nullptr) return 6;
    if (std::strstr(ibv().last_reason(), "fork") == nullptr) return 7;
    if (ibv().reg_mr(device.domain(), memory.at(), 64, 0) != nullptr) return 8;
    if (ibv().allocate(device.context(), 64, {}) != nullptr) return 9;
    RawDevice const own;
    RawMemory const bytes{own, 128};
    RawQueue const own_queue{own};
    RawPair const own_loop{own, own_queue};
    if (own_loop.connect(own_loop.number()) != 0) return 10;
    if (own_loop.write(1, bytes.piece(0, 64), bytes.remote(64)) != 0) return 11;
    if (next_of(own_queue).status != IBV_WC_SUCCESS) return 12;
    return pool.receive(3, memory.piece(64, 64)) == ENODEV ? 0 : 13;
  }};
  CHECK(child.exit_status() == 0);
  CHECK(mark.get() == 1);

  fill(memory.at(), 64, 5);
  REQUIRE(loop.send(2, memory.piece(0, 64)) == 0);
  CHECK(next_of(queue).status == IBV_WC_SUCCESS);
  CHECK(next_of(queue).status == IBV_WC_SUCCESS);
  CHECK(holds(memory.at(64), 64, 5));
  CHECK(rendezvous.slot_files() == 1);
}

TEST_CASE("a forked child asks for itself whether its memory can be reached", "[two_process]") {
  Rendezvous const rendezvous;
  auto const is_possible = soft::cross_memory().possible();
  PeerProcess child{[](Wire const&) {
    if (::prctl(PR_SET_DUMPABLE, 0) != 0) return 1;
    return soft::cross_memory().possible() ? 2 : 0;
  }};
  CHECK(child.exit_status() == 0);
  CHECK(soft::cross_memory().possible() == is_possible);
}

TEST_CASE("random bytes over what is shared of a queue pair end neither side", "[two_process]") {
  auto const first_seed = seed_of_this_run();
  Rendezvous const rendezvous;
  for (unsigned round = 0; round < 150; ++round) {
    auto const seed = first_seed + round;
    CAPTURE(first_seed, seed, round);
    std::mt19937 random{seed};
    RawDevice const devices[2];  // two contexts: each maps the other's segment as a process would
    RawMemory const memory{devices[0], 4096};
    RawMemory const other{devices[1], 4096};
    RawQueue const queues[2]{RawQueue{devices[0], 16}, RawQueue{devices[1], 16}};
    RawPair const victim{devices[0], queues[0], 8};
    RawPair const link{devices[1], queues[1], 8};
    REQUIRE(victim.connect(link.number()) == 0);
    REQUIRE(link.connect(victim.number()) == 0);
    auto& segment = soft::Context::of(devices[0].context()).segment;
    auto& shared = segment.queue_pairs[victim.number() % soft::queue_pairs_max];
    auto const scribble = [&](void* at, std::size_t length) {
      auto* const bytes = static_cast<unsigned char*>(at);
      auto const from = random() % length;
      auto const end = std::min<std::size_t>(length, from + 1 + random() % 16);
      for (auto i = from; i < end; ++i) bytes[i] = static_cast<unsigned char>(random());
    };
    auto* const start = reinterpret_cast<std::byte*>(&segment);
    auto* const rings = start + soft::rings_offset;
    for (int step = 0; step < 100; ++step) {
      switch (random() % 8) {
        case 0:
          scribble(&shared.receive_tail,
                   sizeof shared - offsetof(soft::SharedQueuePair, receive_tail));
          break;
        case 1:
          scribble(
              &segment.completion_queues[0].overrun,
              sizeof(soft::SharedCompletionQueue) - offsetof(soft::SharedCompletionQueue, overrun));
          break;
        case 2: scribble(rings, 4 * soft::page); break;
        case 3: scribble(&segment.regions[1], 2 * sizeof(soft::SharedRegion)); break;
        case 4: scribble(&segment.arenas[0], sizeof(soft::SharedArena)); break;
        case 5: static_cast<void>(link.send(1, other.piece(0, random() % 4096))); break;
        case 6:
          static_cast<void>(link.read(2, other.piece(0, random() % 4096), memory.remote()));
          break;
        case 7: static_cast<void>(victim.receive(3, memory.piece(0, 4096))); break;
        default: break;
      }
      ibv_wc completions[4];
      REQUIRE(queues[0].poll(4, completions) >= 0);
      REQUIRE(queues[1].poll(4, completions) >= 0);
    }
    CHECK(victim.fail() == 0);
    CHECK(link.fail() == 0);
  }
}

TEST_CASE("a peer that lies about a receive's length or status is not believed", "[two_process]") {
  bool const lies_about_length = GENERATE(true, false);
  Rendezvous const rendezvous;
  RawDevice const device;
  RawMemory const memory{device, 128};
  RawQueue const queue{device};
  RawPair const loop{device, queue};
  REQUIRE(loop.connect(loop.number()) == 0);
  REQUIRE(loop.receive(1, memory.piece(64, 64)) == 0);
  REQUIRE(loop.send(2, memory.piece(0, 64)) == 0);
  auto& segment = soft::Context::of(device.context()).segment;
  auto const ring = segment.completion_queues[0].ring_offset.get();
  auto& slot =
      *reinterpret_cast<soft::SharedCompletion*>(reinterpret_cast<std::byte*>(&segment) + ring);
  if (lies_about_length)
    slot.length.set(65);
  else
    slot.how.set(soft::ReceiveHow::of(200, soft::ReceiveKind::send, 0, 0).word);

  for (int i = 0; i < 2; ++i) {
    auto const completion = next_of(queue);
    CHECK(completion.status == (completion.wr_id == 1 ? IBV_WC_GENERAL_ERR : IBV_WC_SUCCESS));
  }
}
