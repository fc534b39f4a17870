// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: chunks and halves cover a region exactly, do not overlap, and cannot be left.
// Method: random sizes against counting; loans of all chunks at once.
#include "support/catch.hpp"
#include "support/seed.hpp"
#include "verbs/fake_provider.hpp"

#include <lend/verbs/protection_domain.hpp>
#include <verbs/memory/loan_row.hpp>

#include <algorithm>
#include <deque>
#include <iterator>
#include <random>
#include <ranges>
#include <utility>

using namespace lend;
using namespace lend::test;
using lend::base::Loan;

namespace {

static_assert(std::forward_iterator<Chunks<MemoryPiece>::Iterator>);
static_assert(std::ranges::forward_range<Chunks<ConstantPiece>>);
static_assert(std::ranges::sized_range<Chunks<MemoryPiece>>);
static_assert(std::is_same_v<decltype(std::declval<MemoryRegion&>().chunks(1)[0]), MemoryPiece>);
static_assert(
    std::is_same_v<decltype(std::declval<MemoryRegion const&>().chunks(1)[0]), ConstantPiece>);
template <class Region>
concept CanBeCut = requires(Region&& region) {
  std::forward<Region>(region).chunks(1);
  std::forward<Region>(region).split_at(1);
};
static_assert(CanBeCut<MemoryRegion&> && CanBeCut<MemoryRegion const&>);
static_assert(!CanBeCut<MemoryRegion>);  // a temporary ends before its pieces

MemoryRegion fresh(std::size_t length) {
  Fake::get().reset();
  return open_fake().value().allocate_protection_domain().value().allocate(length).value();
}

// Asks what a post asks.
bool lend_out(Loan& loan, ScatterElement const& element) {
  return element.region != nullptr && element.region->contains(element.range) &&
         verbs::begin_loan(loan, *element.region, element.range, base::LoanKind::exclusive,
                           Operation::receive, SourceLine::here())
             .has_value();
}

}  // namespace

TEST_CASE("chunks cover a region once, in order, and only the last is shorter", "[verbs]") {
  for (auto const seed : test::seeds(50)) {
    INFO("LEND_TEST_SEED=" << seed);
    std::mt19937_64 random{seed};
    auto const length = 1 + random() % 500;
    auto const size = 1 + random() % 100;
    auto memory = fresh(length);
    std::size_t at = 0;
    std::size_t count = 0;
    std::deque<Loan> loans;

    auto const chunks = memory.chunks(size);
    for (auto const piece : chunks) {
      REQUIRE(piece.index() == count++);
      REQUIRE(piece.offset() == at);
      at += piece.size();
      REQUIRE(piece.size() == (at == length ? (length - 1) % size + 1 : size));
      REQUIRE(chunks[piece.index()].offset() == piece.offset());
      REQUIRE(lend_out(loans.emplace_back(), piece.scatter()));  // disjoint
    }
    REQUIRE(at == length);
    REQUIRE(chunks.size() == count);
    REQUIRE(memory.mutable_bytes(random() % length, 1).error() == Errc::already_borrowed);
    for (auto& loan : loans) verbs::end_loan(loan, memory.gather().region);
  }
}

TEST_CASE("a chunk that is not there is of no bytes and an error to use", "[verbs]") {
  auto memory = fresh(100);
  auto const beyond = memory.chunks(30)[4];
  Loan loan;

  CHECK(beyond.size() == 0);
  CHECK(beyond.bytes().error() == Errc::invalid_argument);
  CHECK(beyond.mutable_bytes(0, 0).error() == Errc::invalid_argument);
  CHECK_FALSE(lend_out(loan, beyond.scatter()));
  CHECK(beyond.chunks(1).size() == 0);
  CHECK(MemoryPiece{}.bytes().error() == Errc::invalid_argument);
}

TEST_CASE("what leaves a piece is out of bounds though the region goes on", "[verbs]") {
  auto memory = fresh(100);
  auto const piece = memory.chunks(40)[1];
  Loan loan;

  CHECK(piece.bytes(10, 30).value().data() == memory.bytes(50, 30).value().data());
  for (auto const& range : {ByteRange{0, 41}, ByteRange{41, 0}, ByteRange{30, 11},
                            ByteRange{SIZE_MAX, 2}, ByteRange{2, SIZE_MAX}}) {
    CAPTURE(range.offset, range.length);
    auto const refused = piece.bytes(range.offset, range.length);
    REQUIRE(refused.has_error());
    CHECK(refused.error().message().find("beyond a piece") != std::string::npos);
    CHECK(piece.mutable_bytes(range.offset, range.length).has_error());
    CHECK_FALSE(lend_out(loan, piece.scatter(range.offset, range.length)));
    auto const gather = piece.gather(range.offset, range.length);
    CHECK_FALSE(gather.region->contains(gather.range));
  }
  CHECK_FALSE(loan.on_loan());
}

TEST_CASE("halves share no byte and lose none, and halves of chunks too", "[verbs]") {
  auto memory = fresh(100);
  for (std::size_t offset : {0u, 1u, 50u, 100u}) {
    auto const [head, tail] = memory.split_at(offset).value();
    CHECK(head.offset() == 0);
    CHECK(head.size() == offset);
    CHECK(tail.offset() == offset);
    CHECK(tail.size() == 100 - offset);
  }
  auto const refused = memory.split_at(101);
  REQUIRE(refused.has_error());
  CHECK(refused.error() == Errc::invalid_argument);

  auto const [header, payload] = memory.chunks(40)[1].split_at(8).value();
  CHECK(header.offset() == 40);
  CHECK(payload.offset() == 48);
  CHECK(payload.size() == 32);
  CHECK(payload.chunks(20)[1].offset() == 68);
  CHECK(payload.chunks(20)[1].size() == 12);
}

TEST_CASE("a piece asks the ledger of its region", "[verbs]") {
  auto memory = fresh(100);
  auto const chunks = memory.chunks(50);
  Loan loan;
  REQUIRE(lend_out(loan, chunks[0].scatter(0, 10)));

  CHECK(chunks[0].bytes().error() == Errc::already_borrowed);
  CHECK(chunks[0].mutable_bytes(10, 40).has_value());
  CHECK(chunks[1].mutable_bytes().has_value());
  CHECK(std::as_const(memory).chunks(50)[0].bytes(5, 1).error() == Errc::already_borrowed);
  verbs::end_loan(loan, memory.gather().region);
}

TEST_CASE("a region moved from has no chunks", "[verbs]") {
  auto memory = fresh(100);
  auto const taken = std::move(memory);

  CHECK(memory.chunks(10).size() == 0);
  CHECK(memory.split_at(1).has_error());
  CHECK(taken.chunks(10).size() == 10);
}
