// SPDX-License-Identifier: MIT OR Apache-2.0
// The constant-time part of the borrow ledger, inline, which halves its cost. borrow.hpp includes
// it. Any thread.
#pragma once

#include <lend/base/export.hpp>

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

  /// False if another thread has it.
  [[nodiscard, gnu::always_inline]] static bool try_take(std::atomic<bool>& locked) noexcept {
    // Acquire: as in take().
    return is_only_thread() || !locked.exchange(true, std::memory_order_acquire);
  }

  /// The last touch of the ledger, which another thread may destroy from here on.
  static void drop(std::atomic<bool>& locked) noexcept {
    // Release: pairs with the acquire in take() or wait() by the next holder.
    locked.store(false, std::memory_order_release);
  }

 private:
  LEND_EXPORT static void wait(std::atomic<bool>& locked) noexcept;

  std::atomic<bool>& locked_;
};

/// Puts a ring of one exclusive loan in order. Inline: with a call here, compilers keep less of a
/// post in registers.
[[gnu::always_inline]] inline void BorrowLedger::sort_lone() noexcept {
  Loan& loan = *ends_.next_;
  loan.reach_ = loan.end_;
  last_made_[static_cast<std::size_t>(LoanKind::exclusive)] = &loan;
  flags_.store(static_cast<Flags>((flags() & ~lone) | sorted), std::memory_order_relaxed);
}

/// As link_anywhere(), where that takes few instructions.
[[gnu::always_inline]] inline bool BorrowLedger::link_at_once(Loan& loan, ByteRange range,
                                                              LoanKind kind) noexcept {
  Flags const now = flags();
  if (kind == LoanKind::shared && now == 0) [[likely]] {
    loan.insert(*ends_.previous_, ends_);
    return true;
  }
  if (now != sorted) {
    if (now == 0 && is_empty()) {
      flags_.store(lone, std::memory_order_relaxed);
      loan.insert(ends_, ends_);
      return true;
    }
    if (now != lone) return false;
    sort_lone();
  }
  std::size_t const begin = range.offset;
  std::size_t const end = range.offset + range.length;
  Loan* below = last_made_[static_cast<std::size_t>(kind)];
  if (!below->has_room_above(begin, end, kind)) [[unlikely]] {
    below = left_last_;
    if (!below->has_room_above(begin, end, kind)) return false;
  }
  link_sorted(loan, end, kind, *below);
  return true;
}

/// The loans above reach as far as this one already, unless link_anywhere() corrects that.
inline void BorrowLedger::link_sorted(Loan& loan, std::size_t end, LoanKind kind,
                                      Loan& below) noexcept {
  std::size_t const furthest = below.reach_ < end ? end : below.reach_;
  loan.reach_ = kind == LoanKind::exclusive ? end : furthest;
  loan.insert(below, *below.next_);
  last_made_[static_cast<std::size_t>(kind)] = &loan;
}

[[gnu::always_inline]] inline bool BorrowLedger::lend_at_once(Loan& loan, ByteRange range,
                                                              LoanKind kind, Operation operation,
                                                              SourceLine where) noexcept {
  loan.describe(range, kind, operation, where);
  // Without a wait, for which callers would save registers.
  if (!Lock::try_take(locked_)) [[unlikely]]
    return false;
  bool const is_linked = link_at_once(loan, range, kind);
  if (is_linked) [[likely]] {
    ++holders_;
    loan.ledger_ = this;
  }
  Lock::drop(locked_);
  return is_linked;
}

inline bool BorrowLedger::allows_at_once(LoanKind kind) const noexcept {
  if (!Lock::try_take(locked_)) [[unlikely]]
    return false;
  bool const allows = flags() == 0 && (kind == LoanKind::shared || is_empty());
  Lock::drop(locked_);
  return allows;
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
  if (now <= sorted) [[likely]] {  // 0, or no other flag
    if (now < sorted) return false;
    if (below != above) [[likely]] {
      ledger.leave_order(loan, *below, *above);
      return false;
    }
  } else if (now == lone) {
    if (above != &loan) ledger.flags_.store(0, std::memory_order_relaxed);
    return false;
  }
  return ledger.give_back_last(loan);
}

/// Of a loan that was unlinked: the hints and the others' reach_ follow.
[[gnu::always_inline]] inline void BorrowLedger::leave_order(Loan const& loan, Loan& below,
                                                             Loan& above) noexcept {
  for (Loan*& last : last_made_)
    if (last == &loan) [[unlikely]]
      last = &below;
  left_last_ = &below;
  if (above.end_ < loan.reach_) [[unlikely]]
    lower_reach_from(&above);
}

}  // namespace lend::base
