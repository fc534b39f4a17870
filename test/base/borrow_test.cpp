// SPDX-License-Identifier: MIT OR Apache-2.0
// The ledger's rules and its sentences, one by one. borrow_model_test.cpp has the random half.
#include "support/catch.hpp"

#include <base/borrow.hpp>

#include <array>
#include <string>
#include <type_traits>

namespace lend {

using base::BorrowLedger;
using base::Loan;
using base::LoanKind;

namespace {

static_assert(!std::is_copy_constructible_v<Loan> && !std::is_move_constructible_v<Loan>);
static_assert(!std::is_copy_assignable_v<Loan> && !std::is_move_assignable_v<Loan>);
static_assert(!std::is_copy_constructible_v<BorrowLedger>);
static_assert(!std::is_move_constructible_v<BorrowLedger>);

constexpr auto shared = LoanKind::shared;
constexpr auto exclusive = LoanKind::exclusive;

bool lend_to(BorrowLedger& ledger, Loan& loan, ByteRange range, LoanKind kind) {
  auto const operation = kind == shared ? Operation::send : Operation::receive;
  return ledger.lend(loan, range, kind, operation, SourceLine::here()).has_value();
}

TEST_CASE("shared loans may overlap, an exclusive one may overlap none", "[base]") {
  struct Row {
    LoanKind first, second;
    bool allowed;
  };
  for (auto const& row : {Row{shared, shared, true}, Row{shared, exclusive, false},
                          Row{exclusive, shared, false}, Row{exclusive, exclusive, false}}) {
    BorrowLedger ledger;
    Loan first, second;
    REQUIRE(lend_to(ledger, first, {10, 10}, row.first));
    CHECK(lend_to(ledger, second, {15, 10}, row.second) == row.allowed);
    CHECK(second.on_loan() == row.allowed);
    CHECK(ledger.check({15, 10}, row.second).has_value() == row.allowed);
  }
}

TEST_CASE("ranges that only touch do not overlap", "[base]") {
  BorrowLedger ledger;
  std::array<Loan, 3> loans;
  REQUIRE(lend_to(ledger, loans[0], {10, 10}, exclusive));
  CHECK(lend_to(ledger, loans[1], {0, 10}, exclusive));
  CHECK(lend_to(ledger, loans[2], {20, 1}, exclusive));
  CHECK(ledger.check({19, 1}, shared).has_error());
  CHECK(ledger.check({21, 1}, exclusive).has_value());
}

TEST_CASE("a refused loan names both ranges, both operations and both source lines", "[base]") {
  BorrowLedger ledger;
  Loan lent, refused;
  REQUIRE(ledger.lend(lent, {32, 64}, shared, Operation::send, {"b.cpp", 9}));
  auto const result = ledger.lend(refused, {0, 64}, exclusive, Operation::receive, {"a.cpp", 12});
  REQUIRE(result.has_error());
  CHECK(result.error() == Errc::already_borrowed);
  CHECK(result.error().message() ==
        "bytes [0, 64) for a receive at a.cpp:12 overlap bytes [32, 96) lent to a send at "
        "b.cpp:9; wait for that work first");
  CHECK(!refused.on_loan());
  CHECK(ledger.loans() == 1);
}

TEST_CASE("a refused look names the range and the loan in its way", "[base]") {
  BorrowLedger ledger;
  Loan lent;
  REQUIRE(ledger.lend(lent, {0, 8}, exclusive, Operation::read, {"b.cpp", 9}));
  CHECK(ledger.check({4, 8}, shared).error().message() ==
        "bytes [4, 12) cannot be read now: they overlap bytes [0, 8) lent to a read at b.cpp:9; "
        "wait for that work first");
  CHECK_THAT(ledger.check({4, 8}, exclusive).error().message(),
             Catch::Contains("cannot be written now"));
}

TEST_CASE("a loan without a source line is named without one", "[base]") {
  BorrowLedger ledger;
  Loan lent;
  REQUIRE(ledger.lend(lent, {0, 8}, shared, Operation::write, {}));
  CHECK(ledger.describe_a_loan() == "bytes [0, 8) lent to a write");
}

TEST_CASE("an empty range overlaps nothing but is a loan until it is given back", "[base]") {
  BorrowLedger ledger;
  Loan whole, empty;
  REQUIRE(lend_to(ledger, whole, {0, 100}, exclusive));
  REQUIRE(lend_to(ledger, empty, {50, 0}, exclusive));
  CHECK(empty.on_loan());
  CHECK(ledger.loans() == 2);
  CHECK(ledger.check({50, 0}, exclusive).has_value());
  CHECK(!BorrowLedger::give_back(whole));
  CHECK(ledger.check({0, 100}, exclusive).has_value());
  CHECK(ledger.describe_a_loan() == "an empty range");
  CHECK(!ledger.retire());
  CHECK(BorrowLedger::give_back(empty));
  CHECK(ledger.describe_a_loan().empty());
}

TEST_CASE("a loan given back leaves room and can be made again", "[base]") {
  BorrowLedger ledger;
  Loan loan, other;
  for (int i = 0; i < 3; ++i) {
    REQUIRE(lend_to(ledger, loan, {0, 8}, exclusive));
    CHECK(!lend_to(ledger, other, {0, 8}, exclusive));
    CHECK(!BorrowLedger::give_back(loan));
    CHECK(!loan.on_loan());
    CHECK(ledger.loans() == 0);
  }
}

TEST_CASE("a retired ledger says once that its last loan came back", "[base]") {
  BorrowLedger ledger;
  Loan first, second;
  REQUIRE(lend_to(ledger, first, {0, 8}, shared));
  REQUIRE(lend_to(ledger, second, {0, 8}, shared));
  CHECK(!ledger.retire());
  CHECK(!BorrowLedger::give_back(second));
  CHECK(BorrowLedger::give_back(first));

  BorrowLedger idle;
  CHECK(idle.retire());
}

TEST_CASE("a long shared loan hides no exclusive one and is not hidden by short ones", "[base]") {
  BorrowLedger ledger;
  std::array<Loan, 8> loans;
  REQUIRE(lend_to(ledger, loans[0], {0, 1000}, shared));
  for (std::size_t i = 1; i < loans.size(); ++i)
    REQUIRE(lend_to(ledger, loans[i], {i * 100, 10}, shared));
  CHECK(ledger.check({900, 10}, exclusive).has_error());
  CHECK(ledger.check({900, 10}, shared).has_value());
  CHECK(!BorrowLedger::give_back(loans[0]));
  CHECK(ledger.check({710, 300}, exclusive).has_value());
  CHECK(ledger.check({709, 300}, exclusive).has_error());
}

TEST_CASE("a loan that was shared is exclusive again once no other overlaps it", "[base]") {
  BorrowLedger ledger;
  Loan below, piece, beside, echo, across;
  REQUIRE(lend_to(ledger, below, {0, 100}, exclusive));
  REQUIRE(lend_to(ledger, piece, {100, 100}, exclusive));
  REQUIRE(lend_to(ledger, beside, {200, 100}, exclusive));
  CHECK(ledger.check({100, 100}, shared).has_error());

  BorrowLedger::share(below);
  BorrowLedger::share(piece);
  CHECK(ledger.check({100, 100}, shared).has_value());
  CHECK(ledger.check({150, 1}, exclusive).has_error());
  REQUIRE(lend_to(ledger, echo, {150, 10}, shared));
  REQUIRE(lend_to(ledger, across, {50, 100}, shared));
  CHECK_FALSE(BorrowLedger::take_alone(piece));
  CHECK(!BorrowLedger::give_back(echo));
  CHECK_FALSE(BorrowLedger::take_alone(piece));
  CHECK_FALSE(BorrowLedger::take_alone(below));
  CHECK(!BorrowLedger::give_back(across));
  CHECK(BorrowLedger::take_alone(piece));
  CHECK(ledger.check({199, 1}, shared).has_error());
  CHECK(ledger.check({0, 100}, shared).has_value());
}

TEST_CASE("the whole address range can be lent", "[base]") {
  BorrowLedger ledger;
  Loan whole, last;
  REQUIRE(lend_to(ledger, whole, {0, SIZE_MAX}, shared));
  CHECK(ledger.check({SIZE_MAX - 1, 1}, exclusive).has_error());
  CHECK(lend_to(ledger, last, {SIZE_MAX, 0}, exclusive));
}

}  // namespace
}  // namespace lend
