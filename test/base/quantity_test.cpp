// SPDX-License-Identifier: MIT OR Apache-2.0
// 24-bit numbers: no value above, no mixing of kinds. Mostly facts for the compiler.
#include "support/catch.hpp"

#include <lend/base/quantity.hpp>
#include <lend/base/source_line.hpp>

#include <string>
#include <type_traits>

namespace lend {
namespace {

template <class A, class B>
concept Comparable = requires(A a, B b) {
  a == b;
};

static_assert(!std::is_convertible_v<QueuePairNumber, PacketSequenceNumber>);
static_assert(!std::is_constructible_v<QueuePairNumber, PacketSequenceNumber>);
static_assert(!std::is_constructible_v<QueuePairNumber, std::uint32_t>);
static_assert(!std::is_convertible_v<QueuePairNumber, std::uint32_t>);
static_assert(Comparable<QueuePairNumber, QueuePairNumber>);
static_assert(!Comparable<QueuePairNumber, PacketSequenceNumber>);
static_assert(!Comparable<QueuePairNumber, std::uint32_t>);
static_assert(sizeof(QueuePairNumber) == 4);
static_assert(QueuePairNumber{}.value() == 0);
static_assert(QueuePairNumber::from(0xff'ffff)->value() == 0xff'ffff);
static_assert(!QueuePairNumber::from(0x100'0000).has_value());
static_assert(!QueuePairNumber::from(0xffff'ffff).has_value());
static_assert(QueuePairNumber::truncated(0xff00'0001).value() == 1);
static_assert(*QueuePairNumber::from(1) < *QueuePairNumber::from(2));

SourceLine line_of_caller(SourceLine where = SourceLine::here()) {
  return where;
}

TEST_CASE("truncating keeps exactly the low 24 bits", "[base]") {
  for (int bit = 0; bit < 32; ++bit) {
    auto const value = std::uint32_t{1} << bit;
    CHECK(PacketSequenceNumber::truncated(value).value() == (bit < 24 ? value : 0));
    CHECK(PacketSequenceNumber::from(value).has_value() == (bit < 24));
  }
}

TEST_CASE("a defaulted source line is the caller's", "[base]") {
  auto const where = line_of_caller();
  CHECK(where.line == __LINE__ - 1);
  CHECK_THAT(std::string{where.file}, Catch::EndsWith("quantity_test.cpp"));
}

}  // namespace
}  // namespace lend
