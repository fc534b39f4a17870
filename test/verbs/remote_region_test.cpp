// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a remote region survives its journey, nothing else passes for one, and slices know bounds.
// Method: random regions; every bit flipped, every length, random garbage; slices at the edges.
#include "support/catch.hpp"
#include "support/seed.hpp"

#include <lend/verbs/remote_region.hpp>

#include <limits>
#include <random>
#include <vector>

using namespace lend;

namespace {

constexpr auto largest = std::numeric_limits<std::uint64_t>::max();

void check_refused(Result<RemoteRegion> const& result) {
  REQUIRE(result.has_error());
  REQUIRE(result.error() == Errc::incompatible_peer);
}

}  // namespace

TEST_CASE("a remote region decodes to itself", "[verbs]") {
  for (auto const seed : test::seeds(200)) {
    INFO("LEND_TEST_SEED=" << seed);
    std::mt19937_64 random{seed};
    auto const address = random();
    RemoteRegion const region{address, random() % (largest - address),
                              static_cast<std::uint32_t>(random()),
                              static_cast<RemoteAccess>(1 + random() % 7)};

    auto const decoded = RemoteRegion::decode(region.encode());

    REQUIRE(decoded.has_value());
    CHECK(decoded.value() == region);
  }
}

TEST_CASE("one flipped bit anywhere in a remote region is refused", "[verbs]") {
  auto const good = RemoteRegion{0x7f00'1234'5000, 4096, 0xabcd'0123}.encode();

  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    INFO("bit " << bit);
    auto bytes = good;
    bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    check_refused(RemoteRegion::decode(bytes));
  }
}

TEST_CASE("a remote region cut short or lengthened is refused", "[verbs]") {
  auto const good = RemoteRegion{0x1000, 4096, 7}.encode();

  for (std::size_t size = 0; size < good.size(); ++size)
    check_refused(RemoteRegion::decode(std::span{good}.first(size)));
  std::vector<std::byte> longer{good.begin(), good.end()};
  longer.push_back(std::byte{0});
  check_refused(RemoteRegion::decode(longer));
}

TEST_CASE("random bytes are no remote region", "[verbs]") {
  for (auto const seed : test::seeds(2000)) {
    INFO("LEND_TEST_SEED=" << seed);
    std::mt19937_64 random{seed};
    auto bytes = RemoteRegion{0x1000, 4096, 7}.encode();
    for (std::size_t i = random() % 2 * 5; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>(random());

    check_refused(RemoteRegion::decode(bytes));
  }
}

TEST_CASE("a remote region that wraps around the address space is refused", "[verbs]") {
  CHECK(RemoteRegion::decode(RemoteRegion{largest - 4096, 4096, 1}.encode()).has_value());
  check_refused(RemoteRegion::decode(RemoteRegion{largest - 4096, 4097, 1}.encode()));
  check_refused(RemoteRegion::decode(RemoteRegion{1, largest, 1}.encode()));
}

TEST_CASE("a slice is in bounds exactly when all its bytes are", "[verbs]") {
  RemoteRegion const region{1000, 100, 3};

  CHECK(region.slice(0, 100).in_bounds());
  CHECK(region.slice(40, 60).in_bounds());
  CHECK(region.slice(40, 60).address == 1040);
  CHECK(region.slice(100, 0).in_bounds());
  CHECK_FALSE(region.slice(101, 0).in_bounds());
  CHECK_FALSE(region.slice(40, 61).in_bounds());
  CHECK_FALSE(region.slice(largest, 2).in_bounds());
  CHECK_FALSE(region.slice(2, largest).in_bounds());
  RemoteSlice const whole = region;
  CHECK(whole.in_bounds());
  CHECK(whole.length == 100);
}

TEST_CASE("an element is in bounds exactly when all its bytes are", "[verbs]") {
  RemoteRegion const region{1000, 100, 3};

  CHECK(region.element<std::uint64_t>(11).in_bounds());
  CHECK(region.element<std::uint64_t>(11).address == 1088);
  CHECK_FALSE(region.element<std::uint64_t>(12).in_bounds());  // bytes 96 to 103
  CHECK_FALSE(region.element<std::uint64_t>(largest / 8 + 1).in_bounds());
  CHECK_FALSE(region.element<std::uint64_t>(largest).in_bounds());
}
