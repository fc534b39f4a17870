// SPDX-License-Identifier: MIT OR Apache-2.0
// Which bytes of a region are on loan, how, and to what. Safe from any thread.
#pragma once

#include <lend/base/result.hpp>
#include <lend/base/source_line.hpp>
#include <lend/base/work_failure.hpp>

#include <atomic>
#include <cstddef>

namespace lend {

/// Shared: the device reads, others may read too. Exclusive: the device writes, nobody else may
/// touch the bytes.
enum class LoanKind : std::uint8_t { shared, exclusive };

/// Bytes [offset, offset + length) of a region.
struct ByteRange {
  std::size_t offset = 0;
  std::size_t length = 0;

  friend bool operator==(ByteRange, ByteRange) = default;
};

class BorrowLedger;

/// The record of one loan. Its storage is the borrower's (a slot), so that lending allocates
/// nothing; it must stay where it is while `on_loan()`.
class Loan {
 public:
  Loan() = default;
  Loan(Loan const&) = delete;
  Loan& operator=(Loan const&) = delete;

  [[nodiscard]] bool on_loan() const noexcept { return ledger_ != nullptr; }

 private:
  friend class BorrowLedger;
  BorrowLedger* ledger_ = nullptr;
  Loan* previous_ = nullptr;
  Loan* next_ = nullptr;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  SourceLine where_{};
  LoanKind kind_{};
  Operation operation_{};
};

/// All loans of one region of memory.
///
/// Overlap is allowed between shared loans only. An empty range overlaps nothing. Lending and
/// giving back take constant time for disjoint pieces lent in order, however many; in the worst
/// order time grows with the number of loans.
class BorrowLedger {
 public:
  BorrowLedger() = default;
  BorrowLedger(BorrowLedger const&) = delete;
  BorrowLedger& operator=(BorrowLedger const&) = delete;

  /// Lends `range` and records it in `loan`.
  ///
  /// Errors:  already_borrowed  names both ranges, both operations and both source lines.
  /// Threads: any.
  [[nodiscard]] Result<void> lend(Loan& loan, ByteRange range, LoanKind kind, Operation operation,
                                  SourceLine where) noexcept;

  /// Takes `loan` back. True if it was the last one and `retire()` was called before: then the
  /// caller, and nobody else, must now release what the ledger guards.
  [[nodiscard]] static bool give_back(Loan& loan) noexcept;

  /// Whether `range` could be touched as `kind` right now.
  /// Errors: already_borrowed.
  [[nodiscard]] Result<void> check(ByteRange range, LoanKind kind) const noexcept;

  [[nodiscard]] std::size_t loans() const noexcept;

  /// No more lending. True if nothing is on loan; else the give_back() of the last loan says so.
  [[nodiscard]] bool retire() noexcept;

  /// A sentence about one of the loans, for the message that ends a process. Empty if none.
  [[nodiscard]] std::string describe_a_loan() const;

 private:
  class Lock;
  [[nodiscard]] Loan const* conflict(ByteRange range, LoanKind kind, Loan*& before) const noexcept;

  mutable std::atomic<bool> locked_{false};
  bool retired_ = false;
  Loan* head_ = nullptr;  // sorted by begin_
  Loan* tail_ = nullptr;
  Loan* finger_ = nullptr;  // the loan made last, where the next one probably goes
  std::size_t count_ = 0;
  std::size_t longest_ = 0;  // of the present loans at least; how far back an overlap may begin
};

}  // namespace lend
