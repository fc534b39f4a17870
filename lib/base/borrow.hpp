// SPDX-License-Identifier: MIT OR Apache-2.0
// The borrow ledger: which bytes of a region are on loan, and how. Any thread.
#pragma once

#include <base/loan.hpp>
#include <base/only_thread.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/base/stop.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace lend::base {

/// All loans of one region of memory.
///
/// Only shared loans may overlap. An empty range overlaps nothing. While all loans are shared,
/// lending and returning take constant time in any order. Beside exclusive loans they do if each
/// range is lent next to the previous one, or where the last loan was returned, or if one range is
/// lent repeatedly; ranges may be returned in any order. In other orders of lending, time grows
/// with the number of loans. test/bench/README.md has the curve.
class BorrowLedger {
 public:
  BorrowLedger() noexcept;
  BorrowLedger(BorrowLedger const&) = delete;
  BorrowLedger& operator=(BorrowLedger const&) = delete;

  /// Lends `range` and records it in `loan`.
  ///
  /// Errors:  already_borrowed  names both ranges, both operations and both source lines.
  /// After retire(): stops the process, because an element outlived its region.
  /// Threads: any.
  [[nodiscard]] Result<void> lend(Loan& loan, ByteRange range, LoanKind kind, Operation operation,
                                  SourceLine const& where) noexcept;

  /// The same for a range with bytes, where that takes few instructions and no wait for another
  /// thread. False: nothing was lent, and lend() decides.
  [[nodiscard]] bool lend_at_once(Loan& loan, ByteRange range, LoanKind kind, Operation operation,
                                  SourceLine where) noexcept;

  /// Whether any range may be read until the calling thread does something else: no loan is
  /// exclusive, no other thread can make one, and the region exists. False: lend() decides.
  [[nodiscard]] bool allows_reading_at_once() const noexcept {
    return is_only_thread() && flags() == 0;
  }

  /// Returns `loan`. True if it was the last one and `retire()` was called before: then the caller,
  /// and no other thread, must now release the memory that the ledger guards.
  [[nodiscard]] static bool give_back(Loan& loan) noexcept;

  /// An exclusive loan becomes a shared one.
  static void share(Loan& loan) noexcept;
  /// A shared loan that share() made becomes exclusive again. False while others overlap it.
  [[nodiscard]] static bool take_alone(Loan& loan) noexcept;

  /// Whether any range could be lent as `kind` now, where that takes few instructions and no wait
  /// for another thread. False: check() decides.
  [[nodiscard]] bool allows_at_once(LoanKind kind) const noexcept;
  /// Whether `range` could be lent as `kind` now.
  /// Errors: already_borrowed.
  [[nodiscard]] Result<void> check(ByteRange range, LoanKind kind) const noexcept;

  [[nodiscard]] std::size_t loans() const noexcept;

  /// From here on lend_at_once() answers false: the region records no loans.
  void stop_recording() noexcept;
  [[nodiscard]] bool is_recording() const noexcept { return (flags() & unrecorded) == 0; }

  /// Ends lending. True if nothing is on loan; otherwise give_back() of the last loan returns true.
  [[nodiscard]] bool retire() noexcept;

  /// A sentence about one of the loans, for the message that stops a process. Empty if none.
  [[nodiscard]] std::string describe_a_loan() const;

 private:
  class Lock;
  struct Found;  // a copy of a loan for a message, so that the lock can be released

  // 0 while all loans are shared and nothing else is to be told: then the ring is in no order, and
  // its loans have no reach_.
  using Flags = std::uint8_t;
  static constexpr Flags sorted = 1;      // since an exclusive loan beside others, until empty
  static constexpr Flags retired = 2;     // the owner is gone
  static constexpr Flags unrecorded = 4;  // the region records no loans
  static constexpr Flags lone = 8;        // one loan, exclusive: no reach_, and no hint names it

  // Relaxed: changed under the lock; is_recording() reads what publishes nothing.
  [[nodiscard]] Flags flags() const noexcept { return flags_.load(std::memory_order_relaxed); }
  void set(Flags flag) noexcept {
    flags_.store(static_cast<Flags>(flags() | flag), std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_sorted() const noexcept { return (flags() & sorted) != 0; }
  [[nodiscard]] bool is_lone() const noexcept { return (flags() & lone) != 0; }
  [[nodiscard]] bool is_empty() const noexcept { return ends_.next_ == &ends_; }

  [[nodiscard]] std::size_t loans_under_lock() const noexcept {
    return holders_ - ((flags() & retired) != 0 ? 0 : 1);
  }
  [[nodiscard]] bool link_at_once(Loan& loan, ByteRange range, LoanKind kind) noexcept;
  void link_sorted(Loan& loan, std::size_t end, LoanKind kind, Loan& below) noexcept;
  [[nodiscard]] Loan const* link_anywhere(Loan& loan) noexcept;  // or the rival it overlaps
  [[nodiscard]] static Loan* merged(Loan* one, Loan* other) noexcept;
  void leave_order(Loan const& loan, Loan& below, Loan& above) noexcept;
  [[nodiscard]] LEND_EXPORT bool give_back_last(Loan const& unlinked) noexcept;
  void sort() noexcept;
  void sort_lone() noexcept;
  [[nodiscard]] Loan const* overlapping(std::size_t begin, std::size_t end) const noexcept;
  LEND_EXPORT void lower_reach_from(Loan* loan) noexcept;
  [[nodiscard]] Loan* place_below(std::size_t begin, LoanKind kind) const noexcept;
  [[nodiscard]] static Loan const* conflict(Loan const* below, std::size_t begin, std::size_t end,
                                            LoanKind kind) noexcept;
  [[nodiscard]] Error refuse(Loan const& wanted, Loan const& rival) noexcept;  // drops the lock

  mutable std::atomic<bool> locked_{false};
  std::atomic<Flags> flags_{0};
  std::size_t holders_ = 1;  // the region's owner until retire(), and each loan, empty ones too
  // Closes the ring of loans with bytes. Sorted by begin_ it is below the first and above the last.
  // It conflicts with no loan: shared, it reaches nothing, begins and ends beyond everything.
  mutable Loan ends_{};
  // Where the next loan probably goes, while sorted: above the last one made of its kind; or above
  // the place left last, where a loan was returned, or the one made last before another was made
  // further off. Otherwise &ends_, as in each empty ring.
  static_assert(static_cast<int>(LoanKind::shared) + static_cast<int>(LoanKind::exclusive) == 1);
  Loan* last_made_[2] = {&ends_, &ends_};
  Loan* left_last_ = &ends_;
};

}  // namespace lend::base

#include <base/borrow_at_once.hpp>
