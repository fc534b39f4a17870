// SPDX-License-Identifier: MIT OR Apache-2.0
// Slots: an id finds its own tenancy and no other, against a model with random takes and frees.
#include "support/catch.hpp"
#include "support/seed.hpp"

#include "base/slot_table.hpp"

#include <map>
#include <random>
#include <set>
#include <vector>

namespace lend {

using base::SlotId;
using base::SlotTable;

namespace {

struct Tenant {
  std::uint64_t number = 0;
};

std::size_t tenants_of(auto& table) {
  std::size_t count = 0;
  table.for_each([&count](SlotId, auto&) { ++count; });
  return count;
}

TEST_CASE("a table gives each of its slots once and then is full", "[base]") {
  SlotTable<Tenant> table{4};
  CHECK(table.capacity() == 4);
  std::set<std::uint32_t> indices;
  for (std::uint32_t taken = 0; taken < 4; ++taken) {
    CHECK(!table.full());
    CHECK(tenants_of(table) == taken);
    auto const id = table.take();
    CHECK(id.value != 0);
    indices.insert(id.index());
  }
  CHECK(table.full());
  CHECK(indices == std::set<std::uint32_t>{0, 1, 2, 3});
}

TEST_CASE("a table of no slots is full and finds nobody", "[base]") {
  SlotTable<Tenant> table{0};
  CHECK(table.full());
  CHECK(table.find(SlotId{}) == nullptr);
  CHECK(table.find(SlotId{std::uint64_t{1} << 32}) == nullptr);
}

TEST_CASE("a stale id finds nobody, before and after the slot has a new tenant", "[base]") {
  SlotTable<Tenant> table{1};
  auto const first = table.take();
  table.find(first)->number = 7;
  table.free(*table.find(first));
  CHECK(table.find(first) == nullptr);
  auto const second = table.take();
  CHECK(second.index() == first.index());
  CHECK(second != first);
  CHECK(table.find(first) == nullptr);
  REQUIRE(table.find(second) != nullptr);
  CHECK(table.find(second)->number == 7);  // reused as it was left
}

TEST_CASE("an id that is skipped finds nobody, and its slot is given next", "[base]") {
  SlotTable<Tenant> table{2, UINT32_MAX};  // whose next generation wraps
  auto const skipped = table.next_id();
  table.skip(table.next());
  CHECK(table.find(skipped) == nullptr);
  CHECK(tenants_of(table) == 0);
  auto const announced = table.next_id();
  auto const id = table.take();
  CHECK(id == announced);
  CHECK(id.index() == skipped.index());
  CHECK(id.generation() == 1);
  CHECK(table.has_still(id));
  CHECK_FALSE(table.has_still(skipped));
  static_cast<void>(table.take());
  CHECK(table.full());
}

TEST_CASE("an id that never was finds nobody", "[base]") {
  SlotTable<Tenant> table{2};
  CHECK(table.find(SlotId{0}) == nullptr);
  CHECK(table.find(SlotId{std::uint64_t{1} << 32}) == nullptr);  // free, its next generation
  auto const id = table.take();
  CHECK(table.find(SlotId{id.value + 2}) == nullptr);  // index beyond the end
  CHECK(table.find(SlotId{id.value + (std::uint64_t{1} << 32)}) == nullptr);
  CHECK(table.find(SlotId{UINT64_MAX}) == nullptr);
}

TEST_CASE("generations wrap past 2^32 without making an id of 0", "[base]") {
  SlotTable<Tenant> table{1, UINT32_MAX};
  auto const last = table.take();
  CHECK(last.generation() == UINT32_MAX);
  table.free(*table.find(last));
  auto const first = table.take();
  CHECK(first.generation() == 1);
  CHECK(first.value != 0);
  CHECK(table.find(last) == nullptr);
  CHECK(table.find(SlotId{0}) == nullptr);
}

TEST_CASE("for_each shows every tenant once and lets it free the one it shows", "[base]") {
  SlotTable<Tenant> table{8};
  std::vector<SlotId> ids;
  for (int i = 0; i < 8; ++i) ids.push_back(table.take());
  for (std::size_t i = 0; i < 8; i += 2) table.free(*table.find(ids[i]));
  std::set<std::uint64_t> seen;
  table.for_each([&](SlotId id, Tenant& tenant) {
    CHECK(seen.insert(id.value).second);
    table.free(tenant);
  });
  CHECK(seen == std::set<std::uint64_t>{ids[1].value, ids[3].value, ids[5].value, ids[7].value});
  CHECK(tenants_of(table) == 0);
}

TEST_CASE("for_each_while stops at the first tenant that ends it", "[base]") {
  SlotTable<Tenant> table{8};
  for (int i = 0; i < 8; ++i) static_cast<void>(table.take());
  int seen = 0;
  table.for_each_while([&seen](SlotId, Tenant&) { return ++seen < 3; });
  CHECK(seen == 3);
}

TEST_CASE("a table agrees with a map over random takes and frees", "[base]") {
  for (auto const seed : test::seeds(10)) {
    INFO("LEND_TEST_SEED=" << seed);
    std::mt19937_64 random{seed};
    auto const capacity = static_cast<std::uint32_t>(1 + random() % 20);
    // Some tables wrap on the way.
    SlotTable<Tenant> table{capacity, random() % 2 == 0 ? 1 : UINT32_MAX - 5};
    std::map<std::uint64_t, std::uint64_t> model;
    std::vector<SlotId> over;
    for (std::uint64_t step = 0; step < 5000; ++step) {
      if (!table.full() && random() % 2 == 0) {
        auto const id = table.take();
        table.find(id)->number = step;
        REQUIRE(model.emplace(id.value, step).second);
      } else if (!model.empty()) {
        auto const victim =
            std::next(model.begin(), static_cast<std::ptrdiff_t>(random() % model.size()));
        table.free(*table.find(SlotId{victim->first}));
        over.push_back(SlotId{victim->first});
        model.erase(victim);
      }
      REQUIRE(tenants_of(table) == model.size());
      REQUIRE(table.full() == (model.size() == capacity));
      for (auto const& [id, value] : model) {
        auto const* const found = table.find(SlotId{id});
        if (found == nullptr || found->number != value) FAIL("lost tenant " << id);
      }
      if (!over.empty()) REQUIRE(table.find(over[random() % over.size()]) == nullptr);
    }
  }
}

}  // namespace
}  // namespace lend
