// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: no byte of a collective is copied more often than it must be. Method: this program's
// memcpy() counts; what the soft device moves in blocks of up to 64 KiB is not counted.
#include "group/scope_ranks.hpp"
#include "support/copy_counter.hpp"

#include <algorithm>

using namespace lend;
using namespace lend::test;

namespace {

constexpr std::uint32_t size = 3;
constexpr std::size_t count = 8000;
constexpr std::uint64_t part = count * sizeof(std::int64_t);
constexpr std::uint64_t delivered = part * size * (size - 1);  // to other ranks

struct Both {
  ScopeRanks const& ranks;
  Values own, all;

  Both(ScopeRanks const& of, std::uint32_t rank, std::size_t own_count)
      : ranks{of}, own{of.values(rank, own_count)}, all{of.values(rank, size * count)} {}
};

/// Bytes copied while `body(group, values)` runs at all ranks.
template <class Body>
std::uint64_t copied(ScopeRanks& ranks, std::size_t own_count, Body const& body) {
  std::vector<Both> values;
  for (std::uint32_t rank = 0; rank < size; ++rank) values.emplace_back(ranks, rank, own_count);
  auto const before = bytes_copied();
  on_each(ranks.groups, [&](Group& group) { body(group, values[group.rank()]); });
  return bytes_copied() - before;
}

std::uint64_t copied_by_allgather(ScopeRanks& ranks) {
  return copied(ranks, count, [](Group& group, Both& values) {
    GroupScope scope{group};
    static_cast<void>(taken(scope.post_allgather(values.own.gather(), values.all.scatter())));
    expect(scope.finish());
  });
}

std::uint64_t copied_by_all_to_all(ScopeRanks& ranks) {
  return copied(ranks, size * count, [](Group& group, Both& values) {
    GroupScope scope{group};
    static_cast<void>(taken(scope.post_all_to_all(values.own.gather(), values.all.scatter())));
    expect(scope.finish());
  });
}

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
