// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: no byte of a collective is copied more often than it must be. Method: this program's
// memcpy() counts; what the soft device moves in blocks of up to 64 KiB is not counted. All values
// begin at pages, so that groups copy them by memcpy() (base/copy_bytes.hpp).
#include "group/scope_ranks.hpp"
#include "support/copy_counter.hpp"

#include <span>
#include <vector>

using namespace lend;
using namespace lend::test;

namespace {

constexpr std::uint32_t size = 3;
constexpr std::size_t count = 7680;  // a third is whole cache lines
constexpr std::uint64_t part = count * sizeof(std::int64_t);
constexpr std::uint64_t delivered = part * size * (size - 1);  // to other ranks

/// What a rank has: one part, and twice one for each rank.
struct Three {
  Values own, all, parts;

  Three(ScopeRanks const& of, std::uint32_t rank)
      : own{of.values(rank, count)},
        all{of.values(rank, size * count)},
        parts{of.values(rank, size * count)} {}
};

/// Bytes copied while `body(group, values)` runs at all ranks.
template <class Body>
std::uint64_t copied(ScopeRanks& ranks, Body const& body) {
  std::vector<Three> values;
  for (std::uint32_t rank = 0; rank < size; ++rank) values.emplace_back(ranks, rank);
  auto const before = bytes_copied();
  on_each(ranks.groups, [&](Group& group) { body(group, values[group.rank()]); });
  return bytes_copied() - before;
}

std::uint64_t copied_by_allgather(ScopeRanks& ranks) {
  return copied(ranks, [](Group& group, Three& values) {
    GroupScope scope{group};
    static_cast<void>(taken(scope.post_allgather(values.own.gather(), values.all.scatter())));
    expect(scope.finish());
  });
}

std::uint64_t copied_by_all_to_all(ScopeRanks& ranks) {
  return copied(ranks, [](Group& group, Three& values) {
    GroupScope scope{group};
    static_cast<void>(taken(scope.post_all_to_all(values.parts.gather(), values.all.scatter())));
    expect(scope.finish());
  });
}

using Row = std::span<std::int64_t>;
Row row(Values& values) {
  return taken(values.mutable_values());
}

/// A collective that rank 0 is the root of.
struct Case {
  char const* name;
  void (*of_rows)(Group&, Row own, Row all, Row parts);
  void (*of_elements)(Group&, Values& own, Values& all, Values& parts);
  /// Copied by all ranks, in thirds of a part: of rows, and of elements in the group's domain.
  std::uint64_t rows, elements;
};

template <class Given>
Given at_root(Group const& group, Given given) {
  return group.rank() == 0 ? given : Given{};
}

constexpr auto add = sum<std::int64_t>;

// Each rank copies what others read to its shelf, and what it keeps. Rows take what is read by one
// copy more.
constexpr Case cases[] = {
    {"broadcast", [](Group& group, Row own, Row, Row) { expect(group.broadcast(0, own)); },
     [](Group& group, Values& own, Values&, Values&) { expect(group.broadcast(0, own.scatter())); },
     9, 6},
    {"gather",
     [](Group& group, Row own, Row all, Row) { expect(group.gather(0, own, at_root(group, all))); },
     [](Group& group, Values& own, Values& all, Values&) {
       expect(group.gather(0, own.gather(), at_root(group, all.scatter())));
     },
     15, 9},
    {"scatter",
     [](Group& group, Row own, Row, Row parts) {
       expect(group.scatter(0, at_root(group, parts), own));
     },
     [](Group& group, Values& own, Values&, Values& parts) {
       expect(group.scatter(0, at_root(group, parts.gather()), own.scatter()));
     },
     15, 9},
    {"allgather", [](Group& group, Row own, Row all, Row) { expect(group.allgather(own, all)); },
     [](Group& group, Values& own, Values& all, Values&) {
       expect(group.allgather(own.gather(), all.scatter()));
     },
     36, 18},
    {"all_to_all",
     [](Group& group, Row, Row all, Row parts) { expect(group.all_to_all(parts, all)); },
     [](Group& group, Values&, Values& all, Values& parts) {
       expect(group.all_to_all(parts.gather(), all.scatter()));
     },
     45, 27},
    {"reduce", [](Group& group, Row own, Row, Row) { expect(group.reduce(0, add, own)); },
     [](Group& group, Values& own, Values&, Values&) {
       expect(group.reduce(0, add, own.scatter()));
     },
     10, 8},
    {"allreduce", [](Group& group, Row own, Row, Row) { expect(group.allreduce(add, own)); },
     [](Group& group, Values& own, Values&, Values&) {
       expect(group.allreduce(add, own.scatter()));
     },
     16, 10},
    {"reduce_scatter",
     [](Group& group, Row own, Row, Row parts) { expect(group.reduce_scatter(add, parts, own)); },
     [](Group& group, Values& own, Values&, Values& parts) {
       expect(group.reduce_scatter(add, parts.gather(), own.scatter()));
     },
     30, 30},
};

}  // namespace

TEST_CASE("long values that are posted are copied by their sender only", "[group]") {
  if (open_test_device().kind() != DeviceKind::soft)
    return skip(open_test_device(), "its bytes are counted");
  ScopeRanks ranks{size};
  // Once for all that read them, and once to the own place.
  CHECK(copied_by_allgather(ranks) == 2 * size * part);
  CHECK(copied_by_all_to_all(ranks) == delivered + size * part);
}

TEST_CASE("long values that are not in the group's domain are copied once by each receiver, too",
          "[group]") {
  if (open_test_device().kind() != DeviceKind::soft)
    return skip(open_test_device(), "its bytes are counted");
  ScopeRanks ranks{size, {}, ValuesIn::other_domains};
  CHECK(copied_by_allgather(ranks) == delivered + 2 * size * part);
  CHECK(copied_by_all_to_all(ranks) == 2 * delivered + size * part);
}

TEST_CASE("blocking calls copy what a rank reads once less to memory of the group's domain",
          "[group]") {
  if (open_test_device().kind() != DeviceKind::soft)
    return skip(open_test_device(), "its bytes are counted");
  ScopeRanks ranks{size}, elsewhere{size, {}, ValuesIn::other_domains};
  for (Case const& each : cases) {
    CAPTURE(each.name);
    auto const of_rows = [&](Group& group, Three& values) {
      each.of_rows(group, row(values.own), row(values.all), row(values.parts));
    };
    auto const of_elements = [&](Group& group, Three& values) {
      each.of_elements(group, values.own, values.all, values.parts);
    };
    CHECK(3 * copied(ranks, of_rows) == each.rows * part);
    CHECK(3 * copied(ranks, of_elements) == each.elements * part);
    CHECK(3 * copied(elsewhere, of_elements) == each.rows * part);
  }
}
