// SPDX-License-Identifier: MIT OR Apache-2.0
// One of several processes that do everything at random with each other until one of them dies, and
// what it accounts for. One thread.
#pragma once

#include <soft/host.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "raw_ends.hpp"
#include "support/peer_process.hpp"

namespace lend::test {

inline constexpr std::uint32_t pairs = 3;
inline constexpr std::uint32_t depth = 16;
inline constexpr std::size_t size = 8192;
inline constexpr std::uint64_t is_receive = std::uint64_t{1} << 32;
// Beyond the milliseconds it takes, for a loaded machine.
inline constexpr std::chrono::seconds bound{20};

/// What each side tells the other: queue pairs to connect to, and memory to reach.
struct Told {
  std::uint32_t numbers[pairs];
  Remote memory;
};
inline bool tell(Wire const& wire, Told const& told) {
  return wire.put(std::as_bytes(std::span{&told, 1}));
}
inline bool hear(Wire const& wire, Told& told) {
  return wire.take(std::as_writable_bytes(std::span{&told, 1}));
}

/// Private memory now and then, where peers can reach it.
inline Home private_or_not(std::mt19937& random) {
  return random() % 2 == 0 && soft::cross_memory().possible ? Home::process : Home::device;
}

/// A device with `pairs` queue pairs on one completion queue, and who owes what.
struct Party {
  RawDevice device;
  RawMemory memory;
  RawQueue queue{device, 4 * pairs* depth};
  std::vector<std::unique_ptr<RawPair>> links;
  std::set<std::uint64_t> outstanding;
  std::uint64_t next_id = 0;
  std::uint32_t silences = 0;  // one for each link whose peer is gone

  explicit Party(Home home) : memory{device, 4 * size, home} {
    for (std::uint32_t i = 0; i < pairs; ++i)
      links.push_back(std::make_unique<RawPair>(device, queue, depth));
  }
  [[nodiscard]] Told told() const {
    Told told{{}, memory.remote(2 * size)};
    for (std::uint32_t i = 0; i < pairs; ++i) told.numbers[i] = links[i]->number();
    return told;
  }
  /// Posts one thing at random; true if it was taken.
  bool post_something(std::mt19937& random, Remote const& theirs) {
    auto const& link = *links[random() % pairs];
    auto const length = random() % 3 == 0 ? random() % 32 : random() % size;
    auto const what = random() % 4;
    auto const id = next_id++ | (what == 0 ? is_receive : 0);
    int error = 0;
    if (what == 0) error = link.receive(id, memory.piece(0, size));
    if (what == 1) error = link.send(id, memory.piece(size, length));
    if (what == 2) error = link.write(id, memory.piece(size, length), theirs);
    if (what == 3) error = link.read(id, memory.piece(0, length), theirs);
    if (error == 0) REQUIRE(outstanding.insert(id).second);
    return error == 0;
  }
  /// Polls once; every completion must be of something outstanding.
  void poll() {
    ibv_wc completions[16];
    auto const count = queue.poll(16, completions);
    if (count < 0) FAIL("poll_cq: " << count);
    for (int i = 0; i < count; ++i) {
      REQUIRE(outstanding.erase(completions[i].wr_id) == 1);
      auto const status = completions[i].status;
      if (status == IBV_WC_RETRY_EXC_ERR)
        ++silences;
      else if (status != IBV_WC_SUCCESS && status != IBV_WC_WR_FLUSH_ERR)
        FAIL("status " << status << ", vendor code " << completions[i].vendor_err);
    }
  }
  /// Ends every queue pair and collects what is left.
  bool drain() {
    for (auto const& link : links) REQUIRE(link->fail() == 0);
    auto const end = std::chrono::steady_clock::now() + bound;
    while (!outstanding.empty() && std::chrono::steady_clock::now() < end) poll();
    return outstanding.empty();
  }
};

/// Works until every link has failed by its peer's silence. False if that takes too long.
inline bool outlive(Party& party, std::mt19937& random, Remote const& theirs) {
  auto const end = std::chrono::steady_clock::now() + bound;
  while (party.silences < pairs && std::chrono::steady_clock::now() < end) {
    static_cast<void>(party.post_something(random, theirs));
    party.poll();
  }
  return party.silences == pairs;
}

}  // namespace lend::test
