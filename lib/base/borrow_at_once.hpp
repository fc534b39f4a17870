// SPDX-License-Identifier: MIT OR Apache-2.0
// The constant-time part of the borrow ledger, inline, which halves its cost. borrow.hpp includes
// it. Any thread.
#pragma once

#include <base/borrow.hpp>

namespace lend::base {

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

/// Whether a loan may go between `below` and the next without a look at any other.
inline bool BorrowLedger::fits_above(Loan const& below, std::size_t begin, std::size_t end,
                                     LoanKind kind) noexcept {
  bool const is_clear_below =
      below.reach_ <= begin ||
      // An exclusive loan that reached beyond `begin` would overlap `below`, too.
      (kind == LoanKind::shared && below.kind_ == LoanKind::shared && below.begin_ <= begin);
  return is_clear_below && end <= below.next_->begin_;
}

/// Puts a ring of one exclusive loan in order. Inline: with a call here, compilers keep less of a
/// post in registers.
[[gnu::always_inline]] inline void BorrowLedger::sort_lone() noexcept {
  Loan& loan = *ends_.next_;
  loan.reach_ = loan.end_;
  last_made_[static_cast<std::size_t>(LoanKind::exclusive)] = &loan;
  flags_.store(static_cast<Flags>((flags() & ~lone) | sorted), std::memory_order_relaxed);
}

/// As link_anywhere(), where that takes few instructions.
[[gnu::always_inline]] inline bool BorrowLedger::link_at_once(Loan& loan, LoanKind kind) noexcept {
  Flags const now = flags();
  if (kind == LoanKind::shared && now == 0) [[likely]] {
    insert(loan, *ends_.previous_, ends_);
    return true;
  }
  if (now != sorted) {
    if (now == 0 && is_empty()) {
      flags_.store(lone, std::memory_order_relaxed);
      insert(loan, ends_, ends_);
      return true;
    }
    if (now != lone) return false;
    sort_lone();
  }
  Loan* below = last_made_[static_cast<std::size_t>(kind)];
  if (!fits_above(*below, loan.begin_, loan.end_, kind)) [[unlikely]] {
    below = left_last_;
    if (!fits_above(*below, loan.begin_, loan.end_, kind)) return false;
  }
  link_sorted(loan, kind, *below);
  return true;
}

/// The loans above reach as far as this one already, unless link_anywhere() corrects that.
inline void BorrowLedger::link_sorted(Loan& loan, LoanKind kind, Loan& below) noexcept {
  std::size_t const furthest = below.reach_ < loan.end_ ? loan.end_ : below.reach_;
  loan.reach_ = kind == LoanKind::exclusive ? loan.end_ : furthest;
  insert(loan, below, *below.next_);
  last_made_[static_cast<std::size_t>(kind)] = &loan;
}

inline void BorrowLedger::insert(Loan& loan, Loan& below, Loan& above) noexcept {
  loan.previous_ = &below;
  loan.next_ = &above;
  below.next_ = above.previous_ = &loan;
}

inline void BorrowLedger::describe(Loan& loan, ByteRange range, LoanKind kind, Operation operation,
                                   SourceLine where) noexcept {
  loan.begin_ = range.offset;
  loan.end_ = range.offset + range.length;
  loan.note(where);
  loan.kind_ = kind;
  loan.operation_ = operation;
}

[[gnu::always_inline]] inline bool BorrowLedger::lend_at_once(Loan& loan, ByteRange range,
                                                              LoanKind kind, Operation operation,
                                                              SourceLine where) noexcept {
  describe(loan, range, kind, operation, where);
  Lock const lock{locked_};
  if (!link_at_once(loan, kind)) [[unlikely]]
    return false;
  ++holders_;
  loan.ledger_ = this;
  return true;
}

[[gnu::always_inline]] inline bool BorrowLedger::give_back(Loan& loan) noexcept {
  LEND_ASSERT(loan.on_loan());
  BorrowLedger& ledger = *loan.ledger_;
  loan.ledger_ = nullptr;
  Lock const lock{ledger.locked_};
  Loan* const below = loan.previous_;
  Loan* const above = loan.next_;
  below->next_ = above;  // an empty one is a ring of its own
  above->previous_ = below;
  --ledger.holders_;
  Flags const now = ledger.flags();
  if (now == 0) [[likely]]
    return false;
  if (now == lone) {
    if (ledger.is_empty()) ledger.flags_.store(0, std::memory_order_relaxed);
    return false;
  }
  if (below == above && below == &ledger.ends_) {  // it was the last one with bytes
    ledger.last_made_[0] = ledger.last_made_[1] = ledger.left_last_ = below;
    ledger.flags_.store(static_cast<Flags>(now & ~(sorted | lone)), std::memory_order_relaxed);
  } else if ((now & sorted) != 0 && below != &loan) {  // an empty one is below itself
    for (Loan*& last : ledger.last_made_)
      if (last == &loan) last = below;
    ledger.left_last_ = below;
    if (above->end_ < loan.reach_) [[unlikely]]
      ledger.lower_reach_from(above);
  }
  return ledger.holders_ == 0;
}

}  // namespace lend::base
