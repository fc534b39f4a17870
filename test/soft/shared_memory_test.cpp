// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: memory that peers map can never shrink under them, is found through /proc only when it is
// what it claims to be, and goes when nobody maps it. Method: real descriptors of this process and
// of another.
#include <soft/memory/arenas.hpp>
#include <soft/platform/shared_memory.hpp>
#include <soft/segment/layout.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "rendezvous.hpp"
#include "support/peer_process.hpp"

using namespace lend;
using namespace lend::soft;
using namespace lend::test;
using lend::base::UniqueFd;

static_assert(!std::is_copy_constructible_v<Mapping>);
static_assert(std::is_nothrow_move_constructible_v<Mapping>);

TEST_CASE("a memory file keeps its size for ever and holds zeros", "[soft]") {
  constexpr std::size_t length = 3 * page;
  auto const file = make_memory_file("lend.test", length);
  REQUIRE(file);
  CHECK(::ftruncate(file.get(), page) != 0);
  CHECK(::ftruncate(file.get(), 4 * page) != 0);
  CHECK(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE) != 0);

  auto const mapping = Mapping::of(file.get(), length);
  REQUIRE(mapping);
  CHECK(std::all_of(mapping.base(), mapping.base() + length,
                    [](std::byte byte) { return byte == std::byte{0}; }));
}

TEST_CASE("two mappings of a memory file show the same bytes, and dropped pages read as zeros",
          "[soft]") {
  auto const file = make_memory_file("lend.test", 2 * page);
  auto const one = Mapping::of(file.get(), 2 * page);
  auto const two = Mapping::of(file.get(), 2 * page);
  std::memset(one.base(), 0x5a, 2 * page);
  CHECK(std::memcmp(one.base(), two.base(), 2 * page) == 0);

  CHECK(drop_pages(file.get(), page, page));

  CHECK(two.base()[page - 1] == std::byte{0x5a});
  CHECK(two.base()[page] == std::byte{0});
  CHECK(one.base()[2 * page - 1] == std::byte{0});
}

TEST_CASE("pages that are used again hold zeros, even where the kernel drops none", "[soft]") {
  auto const file = make_memory_file("lend.test", 3 * page);
  auto const mapping = Mapping::of(file.get(), 3 * page);
  UniqueFd const read_only{
      ::open(("/proc/self/fd/" + std::to_string(file.get())).c_str(), O_RDONLY | O_CLOEXEC)};
  REQUIRE(read_only);
  bool const can_drop = GENERATE(true, false);
  std::memset(mapping.base(), 0x5a, 3 * page);

  clear_pages(can_drop ? file.get() : read_only.get(), mapping.base(), page, page);

  CHECK(drop_pages(read_only.get(), page, page) == false);
  CHECK(mapping.base()[page - 1] == std::byte{0x5a});
  CHECK(std::all_of(mapping.base() + page, mapping.base() + 2 * page,
                    [](std::byte byte) { return byte == std::byte{0}; }));
  CHECK(mapping.base()[2 * page] == std::byte{0x5a});
}

TEST_CASE("another process's memory file opens by number, and lives as long as a mapping",
          "[soft]") {
  PeerProcess peer{[](Wire const& wire) {
    auto const file = make_memory_file("lend.test", page);
    auto const mapping = Mapping::of(file.get(), page);
    std::memcpy(mapping.base(), "hello", 5);
    std::array<int, 2> const here{::getpid(), file.get()};
    if (!wire.put(std::as_bytes(std::span{here})) || !wire.hear()) return 1;
    return std::memcmp(mapping.base(), "HELLO", 5) == 0 ? 0 : 2;
  }};
  std::array<int, 2> there{};
  REQUIRE(peer.wire().take(std::as_writable_bytes(std::span{there})));
  auto const [pid, number] = there;
  CHECK_FALSE(open_memory_file_of(pid, number, 2 * page));  // too short
  Mapping mapping;
  {
    auto const file = open_memory_file_of(pid, number, page);
    REQUIRE(file);
    mapping = Mapping::of(file.get(), page);
  }
  CHECK(std::memcmp(mapping.base(), "hello", 5) == 0);
  std::memcpy(mapping.base(), "HELLO", 5);
  REQUIRE(peer.wire().say());
  CHECK(peer.exit_status() == 0);
  CHECK(std::memcmp(mapping.base(), "HELLO", 5) == 0);
  CHECK_FALSE(open_memory_file_of(pid, number, page));
}

TEST_CASE("a descriptor that is no sealed memory file is refused", "[soft]") {
  auto const before = Holdings::now();
  {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    UniqueFd const reading{ends[0]};
    UniqueFd const writing{ends[1]};
    UniqueFd const zeros{::open("/dev/zero", O_RDWR | O_CLOEXEC)};
    UniqueFd const shrinking{::memfd_create("lend.test", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    REQUIRE(::ftruncate(shrinking.get(), page) == 0);
    for (int const fd : {reading.get(), writing.get(), zeros.get(), shrinking.get(), 9999, -1}) {
      CAPTURE(fd);
      CHECK_FALSE(open_memory_file_of(::getpid(), fd, page));
    }
    CHECK_FALSE(open_memory_file_of(-1, 0, page));
  }
  CHECK(Holdings::now() == before);
}

TEST_CASE("a mapping has one owner", "[soft]") {
  auto const before = Holdings::now();
  {
    auto const file = make_memory_file("lend.test", page);
    Mapping one = Mapping::of(file.get(), page);
    Mapping two = std::move(one);
    CHECK_FALSE(one);  // NOLINT(bugprone-use-after-move)
    Mapping three = Mapping::of(file.get(), page);
    three = std::move(two);
    CHECK(three);
    CHECK_FALSE(Mapping::of(file.get(), 0));
    CHECK_FALSE(Mapping::of(-1, page));
  }
  CHECK(Holdings::now() == before);
}

TEST_CASE("allocated memory is zeroed when it comes again, and a large one takes its file along",
          "[soft]") {
  Shared<Segment> segment;
  auto const before = Holdings::now();
  {
    Arenas arenas{*segment};
    auto* const small = static_cast<std::byte*>(arenas.allocate(100, {}));
    REQUIRE(small != nullptr);
    std::memset(small, 1, 100);
    arenas.release(small, 100);
    auto* const again = static_cast<std::byte*>(arenas.allocate(100, {}));
    REQUIRE(again == small);
    CHECK(again[0] == std::byte{0});
    CHECK(arenas.find(reinterpret_cast<std::uint64_t>(again), page).has_value());
    arenas.release(again, 100);
    CHECK(arenas.empty());

    auto const with_small = Holdings::now();
    void* const large = arenas.allocate(std::size_t{32} << 20, {});
    REQUIRE(large != nullptr);
    auto const place = arenas.find(reinterpret_cast<std::uint64_t>(large), page);
    REQUIRE(place.has_value());
    CHECK(segment->arenas[place->arena].generation.load() != 0);
    arenas.release(large, std::size_t{32} << 20);
    CHECK(segment->arenas[place->arena].generation.load() == 0);
    CHECK(Holdings::now() == with_small);
    CHECK(arenas.allocate(0, {}) == nullptr);
    CHECK(arenas.allocate(SIZE_MAX, {}) == nullptr);
  }
  CHECK(Holdings::now() == before);
}

TEST_CASE("memory apart is alone in its file, which goes with it", "[soft]") {
  Shared<Segment> segment;
  auto const before = Holdings::now();
  {
    Arenas arenas{*segment};
    auto const arena_of = [&arenas](void const* bytes) {
      return arenas.find(reinterpret_cast<std::uint64_t>(bytes), 100).value().arena;
    };
    void* const small = arenas.allocate(100, {});
    void* const one = arenas.allocate_apart(100);
    void* const other = arenas.allocate_apart(100);
    REQUIRE(small != nullptr);
    REQUIRE(one != nullptr);
    REQUIRE(other != nullptr);
    auto const index = arena_of(one);
    CHECK(index != arena_of(small));
    CHECK(index != arena_of(other));
    void* const next = arenas.allocate(100, {});
    CHECK(arena_of(next) == arena_of(small));
    CHECK(segment->arenas[index].generation.load() != 0);
    arenas.release(one, 100);
    CHECK(segment->arenas[index].generation.load() == 0);
    for (void* const each : {small, other, next}) arenas.release(each, 100);
    CHECK(arenas.empty());
  }
  CHECK(Holdings::now() == before);
}
