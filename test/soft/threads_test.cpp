// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: threads of one process use the soft device at once without a data race. Method: traffic
// that fails on a lost or torn message; the thread sanitizer sees the races themselves.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "raw_ends.hpp"
#include "rendezvous.hpp"
#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t message_bytes = 256;

/// Waits for one completion; its id, or UINT64_MAX when it is an error.
std::uint64_t next_id(RawQueue const& queue) {
  ibv_wc completion;
  while (queue.poll(1, &completion) == 0) std::this_thread::yield();
  return completion.status == IBV_WC_SUCCESS ? completion.wr_id : UINT64_MAX;
}

/// Waits for a send and a receive, in either order. False on an error.
bool both_end(RawQueue const& queue) {
  return next_id(queue) != UINT64_MAX && next_id(queue) != UINT64_MAX;
}

}  // namespace

TEST_CASE("threads with a loop-back channel each, on one device, see their own bytes", "[soft]") {
  Rendezvous const rendezvous;
  RawDevice const device;
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int id = 1; id <= 6; ++id)
    threads.emplace_back([&, id] {
      // Made and destroyed beside the others, too.
      for (int turn = 0; turn < 5; ++turn) {
        RawMemory const memory{device, 2 * message_bytes,
                               id % 2 == 0 ? Where::allocated : Where::private_memory};
        RawQueue const queue{device};
        RawPair const loop{device, queue};
        if (loop.connect(loop.number()) != 0) return;
        for (int i = 0; i < 100; ++i) {
          auto const length = i % 2 == 0 ? 16u : message_bytes;  // in the completion, and copied
          std::memset(memory.at(), id * 16 + i % 16, length);
          if (loop.receive(1, memory.piece(message_bytes, message_bytes)) != 0) return;
          if (loop.send(2, memory.piece(0, length)) != 0) return;
          if (!both_end(queue)) return;
          if (std::memcmp(memory.at(), memory.at(message_bytes), length) != 0) return;
        }
      }
      ++right;
    });
  for (auto& thread : threads) thread.join();
  CHECK(right == 6);
}

TEST_CASE("two threads play ping-pong over one connection of one device", "[soft]") {
  Rendezvous const rendezvous;
  RawDevice const device;
  constexpr std::uint64_t rounds = 1500;
  RawMemory const memory{device, 4 * message_bytes};
  RawQueue const queues[2]{RawQueue{device}, RawQueue{device}};
  RawPair const ends[2]{{device, queues[0]}, {device, queues[1]}};
  REQUIRE(ends[0].connect(ends[1].number()) == 0);
  REQUIRE(ends[1].connect(ends[0].number()) == 0);
  std::atomic<std::uint64_t> wrong{0};
  auto const play = [&](std::size_t who) {
    auto const out = who * 2 * message_bytes;
    auto const in = out + message_bytes;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      auto const length = round % 2 == 0 ? sizeof round : message_bytes;
      if (ends[who].receive(1, memory.piece(in, message_bytes)) != 0) ++wrong;
      // Who serves writes the number; who answers returns what came.
      if (who == 0) {
        std::memcpy(memory.at(out), &round, sizeof round);
        if (ends[0].send(2, memory.piece(out, length)) != 0) ++wrong;
        if (!both_end(queues[0])) ++wrong;
        if (std::memcmp(memory.at(in), &round, sizeof round) != 0) ++wrong;
      } else {
        if (next_id(queues[1]) != 1) ++wrong;
        std::memcpy(memory.at(out), memory.at(in), length);
        if (ends[1].send(2, memory.piece(out, length)) != 0) ++wrong;
        if (next_id(queues[1]) != 2) ++wrong;
      }
    }
  };
  std::thread one{play, 0};
  std::thread two{play, 1};
  one.join();
  two.join();
  CHECK(wrong == 0);
}

TEST_CASE("two threads with a device each play ping-pong over channels", "[soft]") {
  Rendezvous const rendezvous;
  constexpr std::uint64_t rounds = 500;
  struct Side {
    lend::Context context = open_test_device();
    ProtectionDomain domain = must(context.allocate_protection_domain());
    PreparedChannel prepared = must(prepare_channel(domain, {}));
    MemoryRegion memory = must(domain.allocate(2 * message_bytes));
  };
  Side sides[2];
  Endpoint const endpoints[2]{sides[0].prepared.endpoint(), sides[1].prepared.endpoint()};
  Channel channels[2]{must(std::move(sides[0].prepared).handshake(endpoints[1])),
                      must(std::move(sides[1].prepared).handshake(endpoints[0]))};
  std::atomic<std::uint64_t> right{0};
  auto const play = [&](std::size_t who) {
    auto& channel = channels[who];
    auto& memory = sides[who].memory;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      auto const length = round % 2 == 0 ? 8 : message_bytes;
      if (who == 0 && !channel.send(memory.gather(0, length), within(30s)).has_value()) return;
      auto const got = channel.receive(memory.scatter(message_bytes, message_bytes), within(30s));
      if (!got.has_value() || got.assume_value().bytes != length) return;
      if (who == 1 && !channel.send(memory.gather(0, length), within(30s)).has_value()) return;
      ++right;
    }
  };
  std::thread one{play, 0};
  std::thread two{play, 1};
  one.join();
  two.join();
  CHECK(right == 2 * rounds);
}

TEST_CASE("threads that post to one queue pair and poll one queue share every completion",
          "[soft]") {
  Rendezvous const rendezvous;
  RawDevice const device;
  constexpr std::uint64_t each = 500;
  constexpr std::uint64_t posters = 3;
  RawMemory const memory{device, 2 * message_bytes};
  RawQueue const queue{device, 1024};
  RawPair const loop{device, queue, 128};
  REQUIRE(loop.connect(loop.number()) == 0);
  std::atomic<std::uint64_t> ended{0};
  std::atomic<std::uint64_t> wrong{0};
  std::vector<std::thread> threads;
  for (std::uint64_t id = 0; id < posters; ++id)
    threads.emplace_back([&, id] {
      for (std::uint64_t i = 0; i < each;) {
        auto const error = loop.write(id * each + i, memory.piece(0, 64),
                                      memory.remote(message_bytes / 4 * (id + 1)));
        if (error == 0) ++i;
        if (error != 0 && error != ENOMEM) ++wrong;
        if (error != 0) std::this_thread::yield();
      }
    });
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&] {
      while (ended < posters * each) {
        ibv_wc completions[8];
        auto const count = queue.poll(8, completions);
        for (int at = 0; at < count; ++at)
          if (completions[at].status != IBV_WC_SUCCESS) ++wrong;
        if (count > 0) ended += static_cast<std::uint64_t>(count);
        if (count == 0) std::this_thread::yield();
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(ended == posters * each);
  CHECK(wrong == 0);
}

TEST_CASE("queue pairs are made while others of the device break", "[soft]") {
  Rendezvous const rendezvous;
  RawDevice const device;
  RawMemory const memory{device, 2 * message_bytes};
  RawQueue const queues[2]{RawQueue{device}, RawQueue{device}};
  std::atomic<bool> is_over{false};
  // A bystander polls: it walks the queue pairs of the device whenever one of them is broken.
  std::thread bystander{[&] {
    ibv_wc none;
    while (!is_over) (void)queues[1].poll(1, &none);
  }};
  std::thread maker{[&] {
    while (!is_over) RawPair const made{device, queues[1]};
  }};
  int broken = 0;
  for (int turn = 0; turn < 200; ++turn) {
    RawPair const loop{device, queues[0]};
    if (loop.connect(loop.number()) != 0) break;
    if (loop.receive(1, memory.piece(message_bytes, 8)) != 0) break;
    if (loop.send(2, memory.piece(0, message_bytes)) != 0) break;
    if (next_id(queues[0]) == UINT64_MAX && next_id(queues[0]) == UINT64_MAX) ++broken;
  }
  is_over = true;
  bystander.join();
  maker.join();
  CHECK(broken == 200);
}

TEST_CASE("the key of a datagram queue pair is set while another thread builds with it", "[soft]") {
  Rendezvous const rendezvous;
  RawDevice const device;
  RawMemory const memory{device, message_bytes};
  RawQueue const queue{device};
  RawDatagrams const pair{device, queue, 64};
  std::atomic<bool> is_over{false};
  int sent = 0;
  std::thread builder{[&] {
    for (int i = 0; i < 200; ++i)
      if (pair.build(1, 2, memory.piece(0, 8), pair.number()) == 0 && both_end(queue)) ++sent;
    is_over = true;
  }};
  int refused = 0;
  while (!is_over) refused += pair.set_key();
  builder.join();
  CHECK(sent == 200);
  CHECK(refused == 0);
}

TEST_CASE("a post with a bad key fails beside the first registration of its device", "[soft]") {
  Rendezvous const rendezvous;
  for (int turn = 0; turn < 20; ++turn) {
    RawDevice const device;
    RawQueue const queue{device};
    RawPair const loop{device, queue};
    REQUIRE(loop.connect(loop.number()) == 0);
    std::byte nowhere[64]{};
    bool has_failed = false;
    std::thread poster{[&] {
      if (loop.send(1, {nowhere, sizeof nowhere, 0x101}) == 0)
        has_failed = next_id(queue) == UINT64_MAX;
    }};
    RawMemory const memory{device, message_bytes, Where::private_memory};
    poster.join();
    CHECK(has_failed);
  }
}
