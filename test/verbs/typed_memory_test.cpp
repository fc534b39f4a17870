// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: values are lent, sent, written and read by their number, and no other bytes are touched.
// Method: two channels on the test's device; spans whose extent, alignment or rights do not fit.
#include "support/two_ends.hpp"

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

struct Particle {
  double x = 0;
  std::uint32_t charge = 0;
  std::uint32_t spin = 0;
};

template <class T>
concept CanBeWritten = std::constructible_from<Write, GatherList, RemoteSpan<T>>;
static_assert(CanBeWritten<double> && !CanBeWritten<double const>);
static_assert(std::convertible_to<RemoteSpan<double>, RemoteSpan<double const>>);
static_assert(!std::convertible_to<RemoteSpan<double const>, RemoteSpan<double>>);
template <class Region>
concept ShowsValues = requires(Region&& region) {
  std::forward<Region>(region).values();
};
static_assert(ShowsValues<TypedRegion<int>&> && !ShowsValues<TypedRegion<int>>);
template <class Vector>
concept IsTakenOver = requires(ProtectionDomain const& domain, Vector&& vector) {
  domain.register_owned(std::forward<Vector>(vector));
};
static_assert(IsTakenOver<std::vector<int>> && !IsTakenOver<std::vector<int>&>);
static_assert(!IsTakenOver<std::vector<bool>>);

}  // namespace

TEST_CASE("elements of a span are the bytes of the region that it names", "[verbs]") {
  TwoEnds ends = two_ends();
  std::vector<std::byte> bytes(100);
  MemoryRegion region = must(ends.domain.register_memory(bytes));
  std::span<std::byte const> const all{bytes};

  CHECK(region.gather(all.subspan(10, 20)).range == ByteRange{10, 20});
  CHECK(region.scatter(all.last(1)).range == ByteRange{99, 1});
  CHECK(region.encloses(all));
  CHECK(region.encloses(all.subspan(100)));
  for (auto const& foreign : {std::span<std::byte const>{bytes.data() - 1, 1},
                              std::span<std::byte const>{bytes.data() + 99, 2},
                              std::span<std::byte const>{bytes.data() + 101, 0}}) {
    CHECK_FALSE(region.encloses(foreign));
    CHECK(error_of(ends.a.send(region.gather(foreign), within(1s))) == Errc::invalid_argument);
  }
  MemoryRegion const moved = std::move(region);
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  CHECK_FALSE(region.encloses(all));
  CHECK(region.native() == nullptr);
  CHECK(moved.native() != nullptr);
}

TEST_CASE("typed memory is zero, counts values and lends them alone", "[verbs]") {
  TwoEnds ends = two_ends();
  auto cells = must(ends.domain.allocate<double>(100));
  CHECK(cells.size() == 100);
  CHECK(must(cells.values(99, 1))[0] == 0);
  CHECK(error_of(cells.values(99, 2)) == Errc::invalid_argument);
  CHECK(error_of(cells.mutable_values(101, 0)) == Errc::invalid_argument);
  CHECK(error_of(ends.domain.allocate<double>(SIZE_MAX / 4)) == Errc::invalid_argument);
  CHECK(error_of(ends.domain.allocate<double>(0)) == Errc::invalid_argument);

  auto const values = must(cells.mutable_values(0, 10));
  std::iota(values.begin(), values.end(), 1.0);
  PollingScope scope{ends.b};
  auto arrived = must(scope.post_receive(cells.scatter(50, 10)));
  CHECK(error_of(cells.values(59, 1)) == Errc::already_borrowed);
  CHECK(must(cells.values(60, 1))[0] == 0);
  must(ends.a.send(cells.gather(0, 10), within(10s)));
  CHECK(must(arrived.wait(within(10s))).bytes == 80);
  CHECK(must(cells.values(59, 1))[0] == 10.0);
  must(scope.finish());
}

TEST_CASE("a copy of values is registered, and a region of odd size is no values", "[verbs]") {
  ProtectionDomain const domain = must(open_test_device().allocate_protection_domain());
  std::array<std::uint16_t, 3> const values{1, 2, 3};
  auto copy = must(domain.allocate_copy(values));
  CHECK(must(copy.values())[2] == 3);
  CHECK(copy.region().size() == 6);

  CHECK(error_of(TypedRegion<std::uint32_t>::of(std::move(copy).region())).message() ==
        "a region of 6 bytes is no whole number of values of 4 bytes; take a part of it that is");
  alignas(8) std::array<std::byte, 9> bytes{};
  auto odd = must(domain.register_memory(std::span{bytes}.subspan(1)));
  CHECK(error_of(TypedRegion<std::uint64_t>::of(std::move(odd))) == Errc::invalid_argument);
}

TEST_CASE("a vector that is taken over outlives its region until its last loan ends", "[verbs]") {
  TwoEnds ends = two_ends();
  std::vector<std::uint32_t> values(1000, 3);
  auto const* const where = values.data();
  auto target = must(ends.domain.allocate(4000));
  PollingScope scope{ends.b};
  auto arrival = must(scope.post_receive(target.scatter()));
  PollingScope sending{ends.a};
  {
    auto owned = must(ends.domain.register_owned(std::move(values)));
    CHECK(owned.size() == 1000);
    CHECK(must(owned.values()).data() == where);
    CHECK_FALSE(owned.region().pages());
    must(owned.mutable_values(999, 1))[0] = 7;
    static_cast<void>(must(sending.post_send(owned.gather())));
  }
  CHECK(must(arrival.wait(within(10s))).bytes == 4000);
  must(sending.finish());
  auto const came = must(TypedRegion<std::uint32_t>::of(std::move(target)));
  CHECK(must(came.values())[0] == 3);
  CHECK(must(came.values())[999] == 7);
  must(scope.finish());
}

TEST_CASE("a vector that cannot be registered stays the program's", "[verbs]") {
  ProtectionDomain const domain = must(open_test_device().allocate_protection_domain());
  std::vector<double> none;
  none.reserve(100);
  auto const* const where = none.data();
  CHECK(error_of(domain.register_owned(std::move(none))) == Errc::invalid_argument);
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  CHECK(none.data() == where);
}

TEST_CASE("values and fields of a peer are written and read, and no others", "[verbs]") {
  TwoEnds ends = two_ends();
  MemoryRegion board =
      must(ends.domain.unsafe_allocate_exposed(4 * sizeof(Particle), RemoteAccess::read_write));
  auto const particles = must(RemoteSpan<Particle>::of(must(board.remote())));
  REQUIRE(particles.size() == 4);
  auto numbers = must(ends.domain.allocate<std::uint32_t>(8));
  must(numbers.mutable_values())[0] = 77;

  must(ends.a.write({numbers.gather(0, 1), particles[2].field(&Particle::spin)}, within(10s)));
  RemoteSpan<Particle const> const seen = particles;
  must(ends.a.read({numbers.scatter(1, 1), seen[2].field(&Particle::spin)}, within(10s)));
  CHECK(must(numbers.values())[1] == 77);
  must(ends.a.read({numbers.scatter(4, 4), seen[2]}, within(10s)));
  CHECK(must(numbers.values())[6] == 0);
  CHECK(must(numbers.values())[7] == 77);

  auto const refused = [&](RemoteSlice const& target, std::size_t count) {
    return error_of(ends.a.write({numbers.gather(0, count), target}, within(1s))) ==
           Errc::invalid_argument;
  };
  CHECK(refused(particles[4], 4));
  CHECK(refused(particles.subspan(1, 4), 8));
  CHECK(refused(particles.subspan(5, 0), 1));
  CHECK(refused(particles[4].field(&Particle::charge), 1));
  CHECK(refused(particles.field(&Particle::charge), 1));
  CHECK(refused(particles[1], 1));            // the lengths differ
  CHECK(refused(RemoteSlice(seen[1]), 4));    // to read only
  CHECK(refused(RemoteSpan<Particle>{}, 4));  // of no region
  CHECK(ends.a.first_cause() == nullptr);
}

TEST_CASE("a span of a peer's values has their size, alignment and rights", "[verbs]") {
  auto const message = [](auto const& result) { return error_of(result).message(); };
  CHECK(message(RemoteSpan<std::uint64_t>::of({0x1000, 12, 1})).find("no whole number") !=
        std::string::npos);
  CHECK(message(RemoteSpan<std::uint64_t>::of({0x1004, 16, 1})).find("is not aligned") !=
        std::string::npos);
  CHECK(message(RemoteSpan<int>::of({0x1000, 16, 1, RemoteAccess::read})).find("than to write") !=
        std::string::npos);
  CHECK(message(RemoteSpan<int const>::of({0x1000, 16, 1, RemoteAccess::write}))
            .find("than to read") != std::string::npos);
  CHECK(RemoteSpan<int>::of({0x1000, 16, 1, RemoteAccess::write}).has_value());

  auto const counters = must(RemoteSpan<std::uint64_t>::of({0x1000, 16, 1}));
  CHECK(counters[1].word().address == 0x1008);
  CHECK(counters.word().access == RemoteAccess{});
}

TEST_CASE("a part of a remote region is one, and nothing beyond it", "[verbs]") {
  RemoteRegion const region{0x1000, 100, 7, RemoteAccess::read};
  auto const part = must(region.sub_region(40, 60));
  CHECK(part == RemoteRegion{0x1028, 60, 7, RemoteAccess::read});
  CHECK(must(RemoteRegion::decode(part.encode())) == part);
  CHECK(error_of(region.sub_region(40, 61)) == Errc::invalid_argument);
  CHECK(error_of(region.sub_region(101, 0)) == Errc::invalid_argument);
  CHECK(error_of(region.sub_region(2, SIZE_MAX)) == Errc::invalid_argument);
}
