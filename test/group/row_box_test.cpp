// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: of a short row that a peer writes, its device or its thread, a rank takes the whole or
// nothing. Method: the words of rows are stored in any order.
#include <group/link/row_box.hpp>

#include "support/two_ends.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <span>
#include <vector>

using namespace lend;
using namespace lend::group;
using namespace lend::test;

namespace {

std::vector<std::byte> bytes_of_run(std::uint32_t run, std::size_t length) {
  std::vector<std::byte> bytes(length);
  for (std::size_t i = 0; i < length; ++i) bytes[i] = static_cast<std::byte>(run * 31 + i);
  return bytes;
}

/// Whether it has come; then `bytes` have it.
bool take(ReadSlot slot, std::uint32_t run, std::span<std::byte> bytes) {
  auto const found = WrittenRow::find(slot, run, bytes.data(), bytes.size());
  if (found == WrittenRow::Found::in_slot) std::copy_n(slot.bytes(), bytes.size(), bytes.begin());
  return found != WrittenRow::Found::nothing;
}

}  // namespace

TEST_CASE("a row whose words come in any order is taken whole or not at all", "[group]") {
  auto const context = open_test_device();
  auto const domain = must(context.allocate_protection_domain());
  constexpr std::size_t first = WrittenRow::place_bytes(5);
  std::mt19937 random{7};
  for (std::uint32_t run = 1; run < 200; ++run) {
    auto const length = std::size_t{random() % (WrittenRow::written_max + 1)};
    auto const both = WrittenRow::place_bytes(length);
    auto const box = must(RowBox::create(domain, first + both));
    CHECK(box.remote(first, both).size() == both);
    auto const sent = bytes_of_run(run, length);
    std::vector<std::uint64_t> words(WrittenRow::length(length) / sizeof(std::uint64_t));
    WrittenRow::encode({reinterpret_cast<std::byte*>(words.data())}, run, sent.data(), length);
    std::vector<std::size_t> order(words.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::shuffle(order, random);
    std::vector<std::byte> read(length);
    for (std::size_t i = 0; i < order.size(); ++i) {
      bool const has_come = take(box.slot(first, length, run), run, read);
      // A word that is as before is there already.
      if (has_come) REQUIRE(read == sent);
      auto* const place = const_cast<std::byte*>(box.slot(first, length, run).place);
      reinterpret_cast<std::uint64_t volatile*>(place)[order[i]] = words[order[i]];
    }
    REQUIRE(take(box.slot(first, length, run), run, read));
    REQUIRE(read == sent);
    REQUIRE_FALSE(take(box.slot(first, length, run), run + 2, read));
  }
}

TEST_CASE("a row that a thread stores and one that a device writes follow each other in a slot",
          "[group]") {
  auto const domain = must(open_test_device().allocate_protection_domain());
  constexpr auto length = WrittenRow::stored_max - 3;
  auto const box = must(RowBox::create(domain, WrittenRow::place_bytes(length)));
  std::vector<std::byte> read(length);
  for (std::uint32_t run = 1; run <= 8; ++run) {
    auto const sent = bytes_of_run(run, length);
    auto const slot = box.slot(0, length, run);
    auto* const place = const_cast<std::byte*>(slot.place);
    CHECK_FALSE(take(slot, run, read));
    if (run % 4 < 2)
      WrittenRow::encode({place}, run, sent.data(), length);
    else
      WrittenRow::store(MappedSlot{place}, run, sent.data(), length);
    REQUIRE(take(slot, run, read));
    CHECK(read == sent);
  }
}
