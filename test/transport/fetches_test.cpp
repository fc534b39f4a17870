// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a lent message that one request cannot read is read piece by piece, and a piece that is
// refused is asked for again. Method: reads that take a few bytes each, without a device.
#include <transport/lent.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace lend::transport;

namespace {

/// Reads at most 100 bytes at a time; each is over when it is asked for again.
struct ShortReads final : LentReads {
  std::vector<std::size_t> offsets{};
  bool refuses = false;

  Result<void> check(verbs::RegionState const&) const noexcept override { return success(); }
  Result<std::size_t> begin(std::uint32_t, ScatterElement, RemoteRegion const& from,
                            std::size_t offset, SourceLine) noexcept override {
    if (std::exchange(refuses, false)) return Errc::already_borrowed;
    offsets.push_back(offset);
    return std::min<std::size_t>(100, from.size() - offset);
  }
  Result<bool> is_over(std::uint32_t) noexcept override { return true; }
};

}  // namespace

TEST_CASE("a lent message that one request cannot read is read piece by piece", "[transport]") {
  auto const domain = must(open_test_device().allocate_protection_domain());
  auto memory = must(domain.allocate(250));
  auto const target = memory.scatter(0, 250);
  ShortReads reads;
  Fetches fetches{&reads, 4096};
  std::array<std::byte, lent_note_bytes> note{};
  store_note(note, {0x1000, 250, 7, RemoteAccess::read}, 3);
  REQUIRE(fetches.take({.slot = 5, .bytes = note}) == nullptr);
  auto const place = fetches.find(5);
  REQUIRE(place == 3);

  CHECK_FALSE(must(fetches.read(*place, target, {})));
  reads.refuses = true;
  CHECK(error_of(fetches.read(*place, target, {})) == Errc::already_borrowed);
  CHECK(fetches.untold() == 0);
  CHECK_FALSE(must(fetches.read(*place, target, {})));
  CHECK(error_of(fetches.read(*place, memory.scatter(0, 249), {})) == Errc::invalid_argument);
  CHECK_FALSE(must(fetches.read(*place, target, {})));
  CHECK(must(fetches.read(*place, target, {})));

  CHECK(reads.offsets == std::vector<std::size_t>{0, 100, 200});
  CHECK(fetches.untold() == 1u << 3);
  CHECK_FALSE(fetches.find(5));
}

TEST_CASE("a lent message whose next piece was refused is over at once when it is dropped",
          "[transport]") {
  auto const domain = must(open_test_device().allocate_protection_domain());
  auto memory = must(domain.allocate(250));
  ShortReads reads;
  Fetches fetches{&reads, 4096};
  std::array<std::byte, lent_note_bytes> note{};
  store_note(note, {0x1000, 250, 7, RemoteAccess::read}, 0);
  REQUIRE(fetches.take({.slot = 5, .bytes = note}) == nullptr);
  CHECK_FALSE(must(fetches.read(0, memory.scatter(), {})));
  reads.refuses = true;
  CHECK(error_of(fetches.read(0, memory.scatter(), {})) == Errc::already_borrowed);

  fetches.drop(5);

  CHECK(fetches.untold() == 1);
  CHECK(fetches.owed() == 1);
}
