// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a completion is seen whole or not at all, whoever dies while writing it, and nothing that
// another process can write makes this one leave its rings. Method: the ring alone in a shared
// segment; producers killed at random moments; random bytes. Seeds are printed and taken back from
// LEND_TEST_SEED.
#include <soft/objects/completion_queue.hpp>
#include <soft/segment/wake_pipe.hpp>

#include <array>
#include <cstring>
#include <optional>
#include <set>
#include <thread>

#include "claimants.hpp"
#include "rendezvous.hpp"
#include "support/peer_process.hpp"

using namespace lend;
using namespace lend::soft;
using namespace lend::test;

namespace {

constexpr std::uint32_t capacity = 8;

/// These rings are never armed.
WakePipes& nobody() {
  static WakePipes wake_pipes;
  return wake_pipes;
}

/// Completion `number`: every field follows from it.
ReceiveEnd numbered(std::uint32_t number) {
  ReceiveEnd end{};
  end.queue_pair = number % 4096;
  end.epoch = number * 3;
  end.receive = number;
  end.length = number * 7;
  end.immediate = ~number;
  end.status = static_cast<std::uint8_t>(number % 22);
  end.kind = ReceiveKind::wide;
  end.inline_length = SharedCompletion::inline_max;
  std::uint64_t last = number;
  for (auto& word : end.bytes) word = last = last * 0x9e3779b97f4a7c15 + 1;
  return end;
}

/// One completion queue in a shared segment, seen by its owner.
class Ring {
 public:
  explicit Ring(std::uint32_t slots = capacity) : mask_{slots - 1} {
    shared().ring_offset.set(rings_offset);
    shared().ring_mask.set(slots - 1);
  }
  [[nodiscard]] Segment& segment() const { return *segment_; }
  [[nodiscard]] SharedCompletionQueue& shared() const { return segment_->completion_queues[0]; }
  [[nodiscard]] SharedCompletion& slot(std::uint64_t position) const {
    auto* const ring = reinterpret_cast<std::byte*>(&*segment_) + rings_offset;
    return reinterpret_cast<SharedCompletion*>(ring)[position & mask_];
  }
  Pushed push(std::uint32_t number) const {
    return push_receive_end(*segment_, 0, numbered(number), this_process(), nobody());
  }
  /// The number of the next completion, if one is valid; it must be whole.
  std::optional<std::uint32_t> take() {
    auto& next = slot(head_);
    // Acquire pairs with the release that publishes it.
    if (next.sequence.load(std::memory_order_acquire) != head_ + 1) return std::nullopt;
    auto const number = next.receive.get();
    auto const right = numbered(number);
    is_whole_ = is_whole_ && next.receiver.get() == receiver_name(right.queue_pair, right.epoch) &&
                next.length.get() == right.length && next.immediate.get() == right.immediate &&
                how_of(next).status() == right.status;
    auto const* word = right.bytes;
    for (auto const& own : next.bytes) is_whole_ = is_whole_ && own.get() == *word++;
    auto const& rest = rest_of(&slot(0), mask_, head_);
    for (auto const& more : rest.bytes) is_whole_ = is_whole_ && more.get() == *word++;
    // Release pairs with the producer's acquire: the slot was read.
    shared().head.store(++head_, std::memory_order_release);
    return number;
  }
  [[nodiscard]] bool all_were_whole() const { return is_whole_; }

 private:
  struct Whole : Segment {
    std::byte more[segment_bytes - sizeof(Segment)];
  };
  Shared<Whole> segment_;
  std::uint64_t mask_;
  std::uint64_t head_ = 0;
  bool is_whole_ = true;
};

}  // namespace

TEST_CASE("completions come out once and in order, many times around the ring", "[soft]") {
  Ring ring;
  std::uint32_t taken = 0;
  for (std::uint32_t number = 0; number < 1000; ++number) {
    REQUIRE(ring.push(number) == Pushed::yes);
    if (number % 3 == 1) continue;  // so that the fill level varies
    while (auto const next = ring.take()) REQUIRE(*next == taken++);
  }
  while (auto const next = ring.take()) REQUIRE(*next == taken++);
  CHECK(taken == 1000);
  CHECK(ring.all_were_whole());
}

TEST_CASE("a full ring refuses, says so, and keeps what it holds", "[soft]") {
  Ring ring;
  for (std::uint32_t number = 0; number < capacity; ++number)
    REQUIRE(ring.push(number) == Pushed::yes);
  CHECK(ring.shared().overrun.get() == 0);

  CHECK(ring.push(99) == Pushed::overrun);

  CHECK(ring.shared().overrun.get() == 1);
  for (std::uint32_t number = 0; number < capacity; ++number) CHECK(ring.take() == number);
  CHECK_FALSE(ring.take());
  CHECK(ring.push(100) == Pushed::yes);
  CHECK(ring.take() == 100);
}

TEST_CASE("a ring of one completion works", "[soft]") {
  Ring ring{1};
  for (std::uint32_t number = 0; number < 20; ++number) {
    REQUIRE(ring.push(number) == Pushed::yes);
    CHECK(ring.push(number) == Pushed::overrun);
    CHECK(ring.take() == number);
    CHECK_FALSE(ring.take());
  }
}

TEST_CASE("what a producer wrote without publishing it is never seen", "[soft]") {
  Ring ring;
  for (std::uint32_t number = 0; number < 3 * capacity; ++number) {
    // Dead before the sequence number.
    std::memset(static_cast<void*>(&ring.slot(number).receiver), 0xa5,
                sizeof(SharedCompletion) - offsetof(SharedCompletion, receiver));
    CHECK_FALSE(ring.take());
    REQUIRE(ring.push(number) == Pushed::yes);
    CHECK(ring.take() == number);
  }
  CHECK(ring.all_were_whole());
}

TEST_CASE("a producer that dies between publishing and counting costs no completion", "[soft]") {
  Ring ring;
  for (std::uint32_t number = 0; number < 5 * capacity; number += 2) {
    REQUIRE(ring.push(number) == Pushed::yes);
    ring.shared().tail.set(ring.shared().tail.get() - 1);
    REQUIRE(ring.push(number + 1) == Pushed::yes);
    CHECK(ring.take() == number);
    CHECK(ring.take() == number + 1);
  }
  CHECK(ring.all_were_whole());
}

TEST_CASE("a full ring is full, too, when its last producer did not count", "[soft]") {
  Ring ring;
  for (std::uint32_t number = 0; number < capacity; ++number)
    REQUIRE(ring.push(number) == Pushed::yes);
  ring.shared().tail.set(ring.shared().tail.get() - 1);
  CHECK(ring.push(99) == Pushed::overrun);
  for (std::uint32_t number = 0; number < capacity; ++number) CHECK(ring.take() == number);
}

TEST_CASE("a reader beside the writer sees whole completions only", "[soft]") {
  constexpr std::uint32_t count = 100'000;
  Ring ring;
  std::thread writer{[&] {
    for (std::uint32_t number = 0; number < count;)
      if (ring.push(number) == Pushed::yes)
        ++number;
      else
        std::this_thread::yield();
  }};
  bool in_order = true;
  for (std::uint32_t taken = 0; taken < count;) {
    if (auto const next = ring.take())
      in_order = in_order && *next == taken++;
    else
      std::this_thread::yield();
  }
  writer.join();
  CHECK(in_order);
  CHECK(ring.all_were_whole());
}

TEST_CASE("a producer killed at any moment leaves whole completions and a ring that goes on",
          "[soft]") {
  auto const seed = seed_of_this_run();
  CAPTURE(seed);
  std::mt19937 random{seed};
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    Ring ring{64};
    PeerProcess peer{[&](Wire const& wire) {
      if (!wire.say()) return 1;
      for (std::uint32_t number = 0;;) {
        if (ring.push(number) == Pushed::yes)
          ++number;
        else
          std::this_thread::yield();
      }
    }};
    REQUIRE(peer.wire().hear());
    std::uint32_t taken = 0;
    auto const last = random() % 20'000;
    bool in_order = true;
    while (taken < last) {
      if (auto const next = ring.take())
        in_order = in_order && *next == taken++;
      else
        std::this_thread::yield();
    }
    peer.kill();
    CHECK(peer.exit_status() == 128 + SIGKILL);
    while (auto const next = ring.take()) in_order = in_order && *next == taken++;
    CHECK(in_order);

    for (std::uint32_t more = 0; more < 100; ++more) {
      REQUIRE(ring.push(1'000'000 + more) == Pushed::yes);
      REQUIRE(ring.take() == 1'000'000 + more);
    }
    CHECK_FALSE(ring.take());
    CHECK(ring.all_were_whole());
  }
}

TEST_CASE("two producers of which one is killed lose nothing of the other's", "[soft]") {
  constexpr std::uint32_t first_of_survivor = 1'000'000;
  constexpr std::uint32_t count = 3000;
  for (int round = 0; round < 10; ++round) {
    Ring ring{64};
    auto const produce = [&](Wire const& wire, std::uint32_t first, std::uint32_t end) {
      if (!wire.hear()) return 1;
      for (auto number = first; number < end;) {
        if (ring.push(number) == Pushed::yes)
          ++number;
        else
          std::this_thread::yield();
      }
      return 0;
    };
    PeerProcess victim{[&](Wire const& wire) { return produce(wire, 0, first_of_survivor); }};
    PeerProcess survivor{[&](Wire const& wire) {
      return produce(wire, first_of_survivor, first_of_survivor + count);
    }};
    REQUIRE(victim.wire().say());
    REQUIRE(survivor.wire().say());
    std::uint32_t of_victim = 0;
    std::uint32_t of_survivor = 0;
    bool in_order = true;
    while (of_survivor < count) {
      auto const next = ring.take();
      if (!next) {
        std::this_thread::yield();
        continue;
      }
      if (*next < first_of_survivor)
        in_order = in_order && *next == of_victim++;
      else
        in_order = in_order && *next == first_of_survivor + of_survivor++;
      if (of_survivor == count / 4) victim.kill();
    }
    CHECK(in_order);
    CHECK(ring.all_were_whole());
    CHECK(survivor.exit_status() == 0);
  }
}

TEST_CASE("whatever a segment says of its completion queues, a producer stays within its rings",
          "[soft]") {
  auto const seed = seed_of_this_run();
  CAPTURE(seed);
  std::mt19937_64 random{seed};
  Ring ring;
  CHECK(push_receive_end(ring.segment(), completion_queues_max, numbered(1), this_process(),
                         nobody()) == Pushed::corrupt);
  CHECK(push_receive_end(ring.segment(), UINT32_MAX, numbered(1), this_process(), nobody()) ==
        Pushed::corrupt);

  std::array<int, 3> outcomes{};
  for (int i = 0; i < 5000; ++i) {
    auto& shared = ring.shared();
    // Half of the offsets are plausible: in lines, somewhere about the segment.
    auto const word = random();
    shared.ring_offset.set(i % 2 == 0 ? word : word % (segment_bytes / 32) * 64);
    shared.ring_mask.set(static_cast<std::uint32_t>(random() >> random() % 64));
    shared.tail.set(random() >> random() % 64);
    shared.head_seen.set(random() >> random() % 64);
    shared.head.store(random() >> random() % 64);
    ++outcomes[static_cast<std::size_t>(ring.push(1))];
  }
  for (auto const count : outcomes) CHECK(count > 0);
  // What lies before the rings is as it was.
  for (auto const& qp : ring.segment().queue_pairs) REQUIRE(qp.state.load() == 0);
  for (auto const& region : ring.segment().regions) REQUIRE(region.key.load() == 0);
}
