// SPDX-License-Identifier: MIT OR Apache-2.0
// The borrow ledger: which bytes of a region are on loan, and how. Any thread.
#pragma once

#include <base/only_thread.hpp>
#include <lend/base/byte_range.hpp>
#include <lend/base/result.hpp>
#include <lend/base/source_line.hpp>
#include <lend/base/stop.hpp>
#include <lend/base/work_failure.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace lend::base {

/// Shared: the device reads, and others may read too. Exclusive: the device writes, and nothing
/// else may touch the bytes.
enum class LoanKind : std::uint8_t { shared, exclusive };

class BorrowLedger;

/// The record of one loan. The borrower (a slot) stores it, so that lending allocates nothing; it
/// must not move while `on_loan()`.
class Loan {
 public:
  Loan() = default;
  Loan(Loan const&) = delete;
  Loan& operator=(Loan const&) = delete;

  [[nodiscard]] bool on_loan() const noexcept { return ledger_ != nullptr; }
  /// What was lent, while on_loan().
  [[nodiscard]] ByteRange range() const noexcept { return {begin_, end_ - begin_}; }
  [[nodiscard]] LoanKind kind() const noexcept { return kind_; }
  [[nodiscard]] SourceLine where() const noexcept { return where_; }  ///< the post that made it

 private:
  friend class BorrowLedger;
  BorrowLedger* ledger_ = nullptr;
  Loan* previous_ = nullptr;
  Loan* next_ = nullptr;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t reach_ = 0;  // largest end_ of this loan and all before it in the list
  SourceLine where_{};
  LoanKind kind_{};
  Operation operation_{};
};

/// All loans of one region of memory.
///
/// Only shared loans may overlap. An empty range overlaps nothing. Lending and returning take
/// constant time if each range is lent next to the previous one, or where the last loan was
/// returned, or if one range is lent repeatedly; ranges may be returned in any order. In other
/// orders of lending, time grows with the number of loans. test/bench/README.md has the curve.
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

  /// Returns `loan`. True if it was the last one and `retire()` was called before: then the caller,
  /// and no other thread, must now release the memory that the ledger guards.
  [[nodiscard]] static bool give_back(Loan& loan) noexcept;

  /// Whether `range` could be lent as `kind` now.
  /// Errors: already_borrowed.
  [[nodiscard]] Result<void> check(ByteRange range, LoanKind kind) const noexcept;

  [[nodiscard]] std::size_t loans() const noexcept;

  /// Ends lending. True if nothing is on loan; otherwise give_back() of the last loan returns true.
  [[nodiscard]] bool retire() noexcept;

  /// A sentence about one of the loans, for the message that stops a process. Empty if none.
  [[nodiscard]] std::string describe_a_loan() const;

 private:
  class Lock;
  struct Found;  // a copy of a loan for a message, so that the lock can be released

  [[nodiscard]] std::size_t loans_under_lock() const noexcept {
    return holders_ - (retired_ ? 0 : 1);
  }
  [[noreturn]] static void stop_for_ended_region() noexcept;
  [[nodiscard]] static bool fits_above(Loan const& below, std::size_t begin, std::size_t end,
                                       LoanKind kind) noexcept;
  void link(Loan& loan, LoanKind kind, Loan& below, Loan& above) noexcept;
  [[nodiscard]] Loan const* link_anywhere(Loan& loan) noexcept;  // or the rival it overlaps
  void lower_reach_from(Loan* loan) noexcept;
  [[nodiscard]] Loan* place_below(std::size_t begin, LoanKind kind) const noexcept;
  [[nodiscard]] static Loan const* conflict(Loan const* below, std::size_t begin, std::size_t end,
                                            LoanKind kind) noexcept;
  [[nodiscard]] Error refuse(Loan const& wanted, Loan const& rival) noexcept;  // drops the lock

  mutable std::atomic<bool> locked_{false};
  bool retired_ = false;
  std::size_t holders_ = 1;  // the region's owner until retire(), and each loan, empty ones too
  // Closes the ring of loans with bytes, sorted by begin_: below the first and above the last. It
  // conflicts with no loan: shared, it reaches nothing, begins and ends beyond everything.
  mutable Loan ends_{};
  // Where the next loan probably goes: above the last one made of its kind; or above the place left
  // last, where a loan was returned, or the one made last before another was made further off.
  Loan* last_made_[2] = {&ends_, &ends_};
  Loan* left_last_ = &ends_;
};

// The constant-time part of lending and returning is inline, which halves their cost.

/// Held for a walk along the list, never for a message or a wait.
class BorrowLedger::Lock {
 public:
  explicit Lock(std::atomic<bool>& locked) noexcept : locked_{locked} { take(locked); }
  Lock(Lock const&) = delete;
  Lock& operator=(Lock const&) = delete;
  ~Lock() { drop(locked_); }

  static void take(std::atomic<bool>& locked) noexcept {
    if (is_only_thread()) return;  // saves a scoped post a sixth
    // Acquire: pairs with the release in drop() by the holder before.
    if (locked.exchange(true, std::memory_order_acquire)) [[unlikely]]
      wait(locked);
  }

  /// The last touch of the ledger, which another thread may destroy from here on.
  static void drop(std::atomic<bool>& locked) noexcept {
    // Release: pairs with the acquire in take() or wait() by the next holder.
    locked.store(false, std::memory_order_release);
  }

 private:
  static void wait(std::atomic<bool>& locked) noexcept;

  std::atomic<bool>& locked_;
};

[[gnu::always_inline]] inline Result<void> BorrowLedger::lend(Loan& loan, ByteRange range,
                                                              LoanKind kind, Operation operation,
                                                              SourceLine const& where) noexcept {
  LEND_ASSERT(!loan.on_loan());
  std::size_t const begin = range.offset;
  std::size_t const end = begin + range.length;
  LEND_ASSERT(end >= begin);
  loan.begin_ = begin;
  loan.end_ = end;
  loan.where_ = where;
  loan.kind_ = kind;
  loan.operation_ = operation;

  Lock::take(locked_);
  if (retired_) [[unlikely]]
    stop_for_ended_region();
  if (begin != end) {
    Loan* below = last_made_[static_cast<std::size_t>(kind)];
    if (!fits_above(*below, begin, end, kind)) [[unlikely]]
      below = left_last_;
    if (fits_above(*below, begin, end, kind)) [[likely]] {
      link(loan, kind, *below, *below->next_);
    } else if (Loan const* const rival = link_anywhere(loan)) [[unlikely]] {
      return refuse(loan, *rival);
    }
  }
  ++holders_;
  Lock::drop(locked_);
  loan.ledger_ = this;
  return success();
}

/// Whether a loan may go between `below` and the next without a look at any other.
inline bool BorrowLedger::fits_above(Loan const& below, std::size_t begin, std::size_t end,
                                     LoanKind kind) noexcept {
  bool const is_clear_below =
      below.reach_ <= begin ||
      // An exclusive loan that reached beyond `begin` would overlap `below`, too.
      (kind == LoanKind::shared && below.kind_ == LoanKind::shared && below.begin_ <= begin);
  return is_clear_below && end <= below.next_->begin_;
}

/// The loans above reach as far as this one already, unless link_anywhere() corrects that.
inline void BorrowLedger::link(Loan& loan, LoanKind kind, Loan& below, Loan& above) noexcept {
  loan.previous_ = &below;
  loan.next_ = &above;
  std::size_t const furthest = below.reach_ < loan.end_ ? loan.end_ : below.reach_;
  loan.reach_ = kind == LoanKind::exclusive ? loan.end_ : furthest;
  below.next_ = above.previous_ = &loan;
  last_made_[static_cast<std::size_t>(kind)] = &loan;
}

[[gnu::always_inline]] inline bool BorrowLedger::give_back(Loan& loan) noexcept {
  LEND_ASSERT(loan.on_loan());
  BorrowLedger& ledger = *loan.ledger_;
  loan.ledger_ = nullptr;
  Lock const lock{ledger.locked_};
  if (loan.begin_ != loan.end_) {
    Loan* const below = loan.previous_;
    Loan* const above = loan.next_;
    below->next_ = above;
    above->previous_ = below;
    for (Loan*& last : ledger.last_made_)
      if (last == &loan) last = below;
    ledger.left_last_ = below;
    if (above->end_ < loan.reach_) [[unlikely]]
      ledger.lower_reach_from(above);
  }
  return --ledger.holders_ == 0;
}

}  // namespace lend::base
