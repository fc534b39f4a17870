// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a row that a thread stores is whole once its run's number is seen, and its slot has a later
// one only after it was read; under every schedule, and wherever one of the ranks dies. Method: the
// library's own stores and looks, on words of the explorer. Two ranks have a row for each other in
// each of four runs.
#include <group/link/written_row.hpp>

#include "interleave/explorer.hpp"
#include "interleave/slot.hpp"
#include "support/catch.hpp"

#include <array>
#include <cstring>
#include <memory>

using namespace lend::interleave;
using namespace lend::group;

namespace {

class RowPair {
 public:
  /// What one of the two ranks does, which looks so often in each run.
  void run(std::size_t rank, std::uint32_t runs, std::uint32_t looks) {
    for (std::uint32_t run = 1; run <= runs; ++run) {
      auto const own = value_of(rank, run);
      std::array<std::byte, sizeof own> bytes{};
      std::memcpy(bytes.data(), &own, sizeof own);
      WrittenRow::store(slot_of(1 - rank, run), run, bytes.data(), bytes.size());
      if (!take(rank, run, looks)) return;  // it would look again
    }
  }

 private:
  bool take(std::size_t rank, std::uint32_t run, std::uint32_t looks) {
    for (std::uint32_t i = 0; i < looks; ++i) {
      auto const slot = slot_of(rank, run);
      auto const number = slot.load(0) >> 32;
      expect(number == 0 || number == run || number + 2 == run, "a row came too early");
      std::array<std::byte, sizeof(std::uint64_t)> bytes{};
      auto const found = WrittenRow::find(slot, run, bytes.data(), bytes.size());
      bool const has_come = found == WrittenRow::Found::in_slot;
      expect(number != run || has_come, "a row whose number has come is not whole");
      if (!has_come) continue;
      slot.take(bytes.data(), bytes.size());  // at any time before the next run
      std::uint64_t value = 0;
      std::memcpy(&value, bytes.data(), sizeof value);
      expect(value == value_of(1 - rank, run), "a row has values of another");
      return true;
    }
    return false;
  }
  static std::uint64_t value_of(std::size_t rank, std::uint32_t run) {
    return 0x0101'0101'0101'0101u * (10 * run + rank);
  }
  /// In the box of `rank`.
  ModelSlot slot_of(std::size_t rank, std::uint32_t run) { return {&boxes_[rank][2 * (run % 2)]}; }

  std::array<std::array<ModelWord, 4>, 2> boxes_{};
};

}  // namespace

TEST_CASE("a stored row is whole once its number is seen, and its slot is used after it was read",
          "[interleave]") {
  bool const dies = GENERATE(false, true);
  CAPTURE(dies);
  auto const report = explore(
      [&](History& history) {
        auto const pair = std::make_shared<RowPair>();
        std::function<void()> const first = [=] { pair->run(0, 3, 2); };
        dies ? history.mortal(first) : history.actor(first);
        history.actor([=] { pair->run(1, 3, 2); });
      },
      {2'000'000, 0, 2});
  INFO(report.histories << " histories");
  CHECK(report.failure == "");
  CHECK(report.is_complete);
  CHECK((report.with_deaths > 0) == dies);
}
