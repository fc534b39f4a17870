// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: no byte of a collective is copied more often than it must be. Method: this program's
// memcpy() counts; what the soft device moves in copies of up to 64 KiB is not counted, and a fault
// that never comes has it move what ranks read from each other. All values begin at pages, so that
// groups copy them by memcpy() (base/copy_bytes.hpp).
#include "group/scope_ranks.hpp"
#include "support/copy_counter.hpp"

#include <lend/soft/faults.hpp>

#include <array>
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

  Three(ScopeRanks const& of, std::uint32_t rank, std::size_t values)
      : own{of.values(rank, values)},
        all{of.values(rank, size * values)},
        parts{of.values(rank, size * values)} {}
};

/// Bytes copied while `body(group, values)` runs at all ranks, whose parts have so many values.
template <class Body>
std::uint64_t copied(ScopeRanks& ranks, Body const& body, std::size_t values_of_part = count) {
  std::vector<Three> values;
  for (std::uint32_t rank = 0; rank < size; ++rank)
    values.emplace_back(ranks, rank, values_of_part);
  auto const before = bytes_copied();
  on_each(ranks.groups, [&](Group& group) { body(group, values[group.rank()]); });
  return bytes_copied() - before;
}

/// From now on.
void go_by_requests(ScopeRanks const& ranks) {
  for (Context const& device : ranks.devices)
    must(inject_faults(device, FaultPlan{}.peer_dies(UINT64_MAX)));
}

void post_allgather(Group& group, Three& values) {
  GroupScope scope{group};
  static_cast<void>(taken(scope.post_allgather(values.own.gather(), values.all.scatter())));
  expect(scope.finish());
}

void post_all_to_all(Group& group, Three& values) {
  GroupScope scope{group};
  static_cast<void>(taken(scope.post_all_to_all(values.parts.gather(), values.all.scatter())));
  expect(scope.finish());
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
  /// Copied by all ranks, in thirds of a part: of rows, of elements in the group's domain and in
  /// another one; and of rows where a rank copies what it reads itself.
  std::uint64_t rows, elements, elsewhere, mapped;

  /// Whether peers read elements where they are.
  [[nodiscard]] bool are_shown() const { return elsewhere != rows; }
};

template <class Given>
Given at_root(Group const& group, Given given) {
  return group.rank() == 0 ? given : Given{};
}

constexpr auto add = sum<std::int64_t>;

// Each rank copies what others read to its exposed buffer, unless it shows it, and what it keeps.
// Rows take what is read by one copy more. A rank that copies itself what it reads does so once, to
// its landing buffer; what it passes on or combines first, to its exposed buffer. It combines the
// rest from where it is.
constexpr Case cases[] = {
    {"broadcast", [](Group& group, Row own, Row, Row) { expect(group.broadcast(0, own)); },
     [](Group& group, Values& own, Values&, Values&) { expect(group.broadcast(0, own.scatter())); },
     9, 6, 9, 12},
    {"gather",
     [](Group& group, Row own, Row all, Row) { expect(group.gather(0, own, at_root(group, all))); },
     [](Group& group, Values& own, Values& all, Values&) {
       expect(group.gather(0, own.gather(), at_root(group, all.scatter())));
     },
     15, 3, 9, 15},
    {"scatter",
     [](Group& group, Row own, Row, Row parts) {
       expect(group.scatter(0, at_root(group, parts), own));
     },
     [](Group& group, Values& own, Values&, Values& parts) {
       expect(group.scatter(0, at_root(group, parts.gather()), own.scatter()));
     },
     15, 3, 9, 15},
    {"allgather", [](Group& group, Row own, Row all, Row) { expect(group.allgather(own, all)); },
     [](Group& group, Values& own, Values& all, Values&) {
       expect(group.allgather(own.gather(), all.scatter()));
     },
     36, 9, 27, 36},
    {"all_to_all",
     [](Group& group, Row, Row all, Row parts) { expect(group.all_to_all(parts, all)); },
     [](Group& group, Values&, Values& all, Values& parts) {
       expect(group.all_to_all(parts.gather(), all.scatter()));
     },
     45, 9, 27, 45},
    {"reduce", [](Group& group, Row own, Row, Row) { expect(group.reduce(0, add, own)); },
     [](Group& group, Values& own, Values&, Values&) {
       expect(group.reduce(0, add, own.scatter()));
     },
     10, 8, 10, 12},
    {"allreduce", [](Group& group, Row own, Row, Row) { expect(group.allreduce(add, own)); },
     [](Group& group, Values& own, Values&, Values&) {
       expect(group.allreduce(add, own.scatter()));
     },
     16, 10, 16, 18},
    {"reduce_scatter",
     [](Group& group, Row own, Row, Row parts) { expect(group.reduce_scatter(add, parts, own)); },
     [](Group& group, Values& own, Values&, Values& parts) {
       expect(group.reduce_scatter(add, parts.gather(), own.scatter()));
     },
     30, 30, 30, 36},
};

/// Of rows, and of elements.
std::array<std::uint64_t, 2> copied_by(Case const& each, ScopeRanks& ranks) {
  return {copied(ranks,
                 [&](Group& group, Three& values) {
                   each.of_rows(group, row(values.own), row(values.all), row(values.parts));
                 }),
          copied(ranks, [&](Group& group, Three& values) {
            each.of_elements(group, values.own, values.all, values.parts);
          })};
}

}  // namespace

TEST_CASE("long parts that are posted are copied once, from where they are to their place",
          "[group]") {
  if (open_test_device().kind() != DeviceKind::soft)
    return skip(open_test_device(), "its bytes are counted");
  ScopeRanks ranks{size};
  auto const [is_by_requests, values] =
      GENERATE(table<bool, std::size_t>({{false, 16'384}, {true, 16'384}, {false, 200'000}}));
  CAPTURE(is_by_requests, values);
  if (is_by_requests) go_by_requests(ranks);
  // So long that the device's copies count, but for the last word of each.
  auto const all = values * sizeof(std::int64_t) * size * size;
  CHECK(all - copied(ranks, post_allgather, values) < 1'000);
  CHECK(all - copied(ranks, post_all_to_all, values) < 1'000);
}

TEST_CASE("long parts for places that are not in the group's domain are copied once more",
          "[group]") {
  if (open_test_device().kind() != DeviceKind::soft)
    return skip(open_test_device(), "its bytes are counted");
  ScopeRanks ranks{size, {}, ValuesIn::other_domains};
  CHECK(copied(ranks, post_allgather) == delivered + size * part);
  CHECK(copied(ranks, post_all_to_all) == delivered + size * part);
}

TEST_CASE("blocking calls copy what a rank reads once less to memory of the group's domain",
          "[group]") {
  if (open_test_device().kind() != DeviceKind::soft)
    return skip(open_test_device(), "its bytes are counted");
  ScopeRanks ranks{size}, elsewhere{size, {}, ValuesIn::other_domains};
  go_by_requests(ranks);
  go_by_requests(elsewhere);
  for (Case const& each : cases) {
    CAPTURE(each.name);
    auto const [rows, elements] = copied_by(each, ranks);
    CHECK(3 * rows == each.rows * part);
    CHECK(3 * elements == each.elements * part);
    CHECK(3 * copied_by(each, elsewhere)[1] == each.elsewhere * part);
  }
}

TEST_CASE("ranks that have mapped each other's memory read long values straight to their place",
          "[group]") {
  if (open_test_device().kind() != DeviceKind::soft)
    return skip(open_test_device(), "its bytes are counted");
  ScopeRanks ranks{size}, elsewhere{size, {}, ValuesIn::other_domains};
  for (Case const& each : cases) {
    CAPTURE(each.name);
    auto const [rows, elements] = copied_by(each, ranks);
    CHECK(3 * rows == each.mapped * part);
    CHECK(3 * elements == (each.are_shown() ? each.elements : each.mapped) * part);
    CHECK(3 * copied_by(each, elsewhere)[1] ==
          (each.are_shown() ? each.elsewhere : each.mapped) * part);
  }
}
