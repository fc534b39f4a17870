// SPDX-License-Identifier: MIT OR Apache-2.0
// The copies alone: every alignment and length, random lists, and the order of the last bytes.
#include <soft/memory/copy.hpp>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/placed_bytes.hpp"
#include "support/sanitizers.hpp"
#include "support/seed.hpp"

namespace {

using namespace lend::soft;
using namespace lend::test;

std::vector<std::byte> numbered(std::size_t length) {
  std::vector<std::byte> bytes(length);
  for (std::size_t i = 0; i < length; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
  return bytes;
}

/// Cuts `bytes` into up to `count` extents, some empty, with gaps of one byte between them.
Extents cut(std::vector<std::byte>& bytes, std::size_t length, std::size_t count, bool is_mapped,
            std::mt19937_64& random) {
  Extents extents;
  auto* at = bytes.data();
  auto left = length;
  for (std::size_t i = 0; i < count; ++i) {
    auto const part = i + 1 == count ? left : random() % (left + 1);
    if (is_mapped)
      extents.add(at, part);
    else
      extents.add_distant(reinterpret_cast<std::uint64_t>(at), part);
    at += part + 1;
    left -= part;
  }
  return extents;
}

std::vector<std::byte> joined(Extents const& extents) {
  std::vector<std::byte> all;
  for (std::uint32_t i = 0; i < extents.count; ++i) {
    auto const& extent = extents.items[i];
    auto const* const at = extent.mapped != nullptr
                               ? extent.mapped
                               : reinterpret_cast<std::byte const*>(extent.address);
    all.insert(all.end(), at, at + extent.length);
  }
  return all;
}

}  // namespace

TEST_CASE("an ordered copy moves exactly its bytes at every alignment", "[soft]") {
  auto const source = numbered(512);
  for (std::size_t to = 0; to < 16; ++to)
    for (std::size_t from = 0; from < 9; ++from)
      for (std::size_t length = 0; length < 160; ++length) {
        alignas(64) std::byte target[256]{};
        copy_in_order(target + to, source.data() + from, length);
        REQUIRE(std::memcmp(target + to, source.data() + from, length) == 0);
        auto const is_zero = [](std::byte b) { return b == std::byte{}; };
        REQUIRE(std::all_of(target, target + to, is_zero));
        REQUIRE(std::all_of(target + to + length, std::end(target), is_zero));
      }
}

TEST_CASE("a copy past the caches moves exactly its bytes at every alignment", "[soft]") {
#if defined(__x86_64__)
  bool const is_past_caches = __builtin_cpu_is("amd") != 0;
#else
  bool const is_past_caches = false;
#endif
  if (!is_past_caches) WARN("skipped: on this CPU no copy passes the caches");
  auto const source = numbered(9'000);
  auto const check = [&](std::size_t to, std::size_t from, std::size_t length) {
    PlacedBytes target{to, length};
    copy_past_caches(target.bytes().data(), source.data() + from, length);
    REQUIRE(std::memcmp(target.bytes().data(), source.data() + from, length) == 0);
    REQUIRE(target.is_clean_beside());
  };
  for (std::size_t to = 0; to < 16; ++to)
    for (std::size_t from = 0; from < 16; ++from)
      for (std::size_t const length : {1u, 7u, 64u, 65u, 128u, 200u}) check(to, from, length);
  for (std::size_t const to : {0u, 16u, 17u})
    for (std::size_t const length : {8'192u, 8'200u}) check(to, 3, length);
}

TEST_CASE("a long ordered copy moves exactly its bytes where string moves are slow, too",
          "[soft]") {
  constexpr std::size_t length = (64u << 10) + 200;
  auto const numbers = numbered(length);
  for (std::size_t const behind : {0u, 3u, 16u, 63u, 64u}) {
    PlacedBytes source{32, length}, target{32 + behind, length};
    std::ranges::copy(numbers, source.bytes().begin());
    copy_in_order(target.bytes().data(), source.bytes().data(), length);
    REQUIRE(std::ranges::equal(target.bytes(), numbers));
    REQUIRE(target.is_clean_beside());
  }
}

// Sanitizers look at each access, or copy by their own functions.
#if !LEND_TEST_ASAN && !LEND_TEST_TSAN
TEST_CASE("a long ordered copy takes about as long where string moves are slow", "[soft]") {
  CHECK(cost_just_behind([](auto into, auto from) {
          copy_in_order(into.data(), from.data(), from.size());
        }) < 8);
}
#endif

TEST_CASE("random lists of extents are copied whole, mapped, attached or mixed", "[soft]") {
  for (auto const seed : lend::test::seeds(300)) {
    INFO("LEND_TEST_SEED=" << seed);
    std::mt19937_64 random{seed};
    auto const length = random() % 5000;
    auto ours = numbered(length + pieces_max);
    auto theirs = std::vector<std::byte>(length + pieces_max);
    auto const is_write = random() % 2 == 0;
    auto near = cut(ours, length, 1 + random() % pieces_max, true, random);
    auto far = cut(theirs, length, 1 + random() % pieces_max, random() % 2 == 0, random);
    if (random() % 2 == 0)
      for (std::uint32_t i = 0; i < far.count; ++i)
        if (random() % 2 == 0) {
          if (far.items[i].mapped != nullptr)
            far.items[i].address = reinterpret_cast<std::uint64_t>(far.items[i].mapped);
          far.items[i].mapped = nullptr;
          far.all_mapped = false;
        }

    auto const copied = transfer(is_write ? Direction::to_peer : Direction::from_peer, near, far,
                                 length, ::getpid());

    REQUIRE(copied == Copied::all);
    REQUIRE(joined(near) == joined(far));
  }
}

TEST_CASE("memory that is not there is a fault, a process that is not there is a death", "[soft]") {
  auto bytes = numbered(64);
  Extents near;
  near.add(bytes.data(), 64);
  Extents far;
  far.add_distant(64, 64);  // the zero page

  CHECK(transfer(Direction::to_peer, near, far, 64, ::getpid()) == Copied::fault);
  // Source: proc(5): no pid reaches 2^22.
  CHECK(transfer(Direction::to_peer, near, far, 64, 1 << 22) == Copied::gone);
}

TEST_CASE("who sees the last word sees all bytes before it", "[soft]") {
  auto* const copy = GENERATE(&copy_bytes_in_order, &copy_past_caches);
  constexpr std::size_t length = 4096;
  constexpr std::uint64_t rounds = 3000;
  alignas(64) static std::byte target[length];
  auto* const last = reinterpret_cast<std::uint64_t*>(target + length - 8);
  std::atomic<std::uint64_t> seen{0};
  std::thread writer{[&] {
    std::vector<std::uint64_t> words(length / 8);
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      std::fill(words.begin(), words.end(), round);
      copy(target, reinterpret_cast<std::byte const*>(words.data()), length);
      while (seen.load(std::memory_order_acquire) != round) std::this_thread::yield();
    }
  }};
  bool is_whole = true;
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    while (__atomic_load_n(last, __ATOMIC_ACQUIRE) != round) std::this_thread::yield();
    for (std::size_t i = 0; i < length; i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, target + i, sizeof word);
      is_whole = is_whole && word == round;
    }
    seen.store(round, std::memory_order_release);
  }
  writer.join();

  CHECK(is_whole);
}
