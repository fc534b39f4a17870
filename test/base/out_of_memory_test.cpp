// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: without memory, errors keep their code and nothing throws; lending allocates nothing.
// Method: a global operator new that fails after a number of allocations, on this thread only.
#include "support/each_failure.hpp"

#include <base/borrow.hpp>
#include <base/error_access.hpp>

#include <cerrno>
#include <cstdlib>
#include <new>

#include "support/catch.hpp"

namespace lend {

using base::BorrowLedger;
using base::LoanKind;

namespace {

/// Runs `work` with 0, 1, 2, … allocations allowed, until they are enough.
template <class Work>
void starve(Work const& work) {
  test::for_each_failure(1, [&](std::uint64_t allowed) {
    bool is_right = false;
    bool const needed_more = test::starved(allowed, [&] { is_right = work(); });
    REQUIRE(is_right);
    return needed_more;
  });
}

static_assert(noexcept(Error::from_errno("", 0)));
static_assert(noexcept(Error::from_work({})));
static_assert(noexcept(std::declval<Error>().message()));

TEST_CASE("errors made without memory keep their code", "[base]") {
  starve([] {
    auto const error =
        Error::from_errno("a call with a name too long to fit in place", ENOMEM, "Do something.");
    return error == Errc::exhausted && !error.message().empty();
  });
  starve([] {
    auto const error = Error::from_work({});
    return error == Errc::work_failed && !error.message().empty();
  });
}

TEST_CASE("an error tells its story without memory as well as it can", "[base]") {
  Error const cause = Error::from_work({});
  base::ErrorAccess::count_flushed(cause);
  Error const bare{Errc::channel_broken, "words that are too long to be held in place"};
  WorkFailure const work{.peer_address = "an address too long to be held in place"};
  starve([&] {
    auto const error = base::ErrorAccess::about(bare.with_cause(cause), work);
    return error == Errc::channel_broken && !error.describe().empty();
  });
  CHECK(cause.flushed_along() == 1);
}

TEST_CASE("drained failures that find no memory leave the first error", "[base]") {
  Error const first{Errc::timed_out, "words that are too long to be held in place"};
  starve([&] {
    std::vector<Error> failures;
    try {
      failures.assign(3, Errc::denied);
    } catch (std::bad_alloc const&) {
      return true;
    }
    auto const error = first.with_drained(std::move(failures));
    return error == Errc::timed_out && (error.drained().empty() || error.drained().size() == 3);
  });
}

TEST_CASE("a refused loan without memory is still refused", "[base]") {
  BorrowLedger ledger;
  base::Loan lent, refused;
  REQUIRE(ledger.lend(lent, {0, 8}, LoanKind::exclusive, Operation::receive, SourceLine::here()));
  starve([&] {
    return ledger.lend(refused, {0, 8}, LoanKind::shared, Operation::send, SourceLine::here())
               .error() == Errc::already_borrowed;
  });
  starve([&] { return ledger.check({0, 8}, LoanKind::shared).error() == Errc::already_borrowed; });
  CHECK(ledger.loans() == 1);
}

TEST_CASE("lending, looking and giving back allocate nothing", "[base]") {
  BorrowLedger ledger;
  base::Loan first, second;
  auto const before = test::allocations();
  for (int i = 0; i < 10; ++i) {
    bool const right =
        ledger.lend(first, {0, 8}, LoanKind::shared, Operation::send, SourceLine::here()) &&
        ledger.lend(second, {8, 8}, LoanKind::exclusive, Operation::receive, SourceLine::here()) &&
        ledger.check({0, 4}, LoanKind::shared) && !BorrowLedger::give_back(first) &&
        !BorrowLedger::give_back(second);
    if (!right) std::abort();
  }
  Result<int> const bare{Errc::queue_full};
  auto const copy = bare.error();
  auto const after = test::allocations();
  CHECK(after == before);
  CHECK(copy == Errc::queue_full);
}

}  // namespace
}  // namespace lend
