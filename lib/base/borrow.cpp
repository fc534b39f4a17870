// SPDX-License-Identifier: MIT OR Apache-2.0
// The borrow ledger: a sorted list of loans under a spin lock. Any thread.
//
// Two facts keep it short. An exclusive loan overlaps nothing, so for a shared one only the
// neighbour below and the loans that begin inside it can be exclusive rivals. And reach_, the
// largest end up to a loan, tells an exclusive one at once whether anything below runs into it.
// Loans of no bytes overlap nothing and are only counted.
#include <lend/base/borrow.hpp>
#include <lend/base/stop.hpp>

#include <algorithm>
#include <new>
#include <optional>
#include <thread>
#include <utility>

namespace lend {

[[gnu::noinline, gnu::cold]] void BorrowLedger::Lock::wait(std::atomic<bool>& locked) noexcept {
  // A walk takes tens of nanoseconds; a holder that takes longer than these looks is not running.
  constexpr int looks_before_yielding = 100;
  do {
    // Relaxed: only the exchange takes the lock.
    for (int looks = 0; locked.load(std::memory_order_relaxed); ++looks)
      if (looks >= looks_before_yielding) std::this_thread::yield();
    // Acquire: as in take().
  } while (locked.exchange(true, std::memory_order_acquire));
}

struct BorrowLedger::Gap {
  Loan* below;
  Loan* above;
};

struct BorrowLedger::Found {
  explicit Found(Loan const& loan) noexcept
      : begin{loan.begin_},
        end{loan.end_},
        kind{loan.kind_},
        operation{loan.operation_},
        where{loan.where_} {}

  /// "bytes [32, 96) lent to a send at b.cpp:9"
  [[nodiscard]] std::string sentence() const;

  std::size_t begin;
  std::size_t end;
  LoanKind kind;
  Operation operation;
  SourceLine where;
};

namespace {

std::string bytes_text(std::size_t begin, std::size_t end) {
  return "bytes [" + std::to_string(begin) + ", " + std::to_string(end) + ")";
}

std::string work_text(Operation operation, SourceLine where) {
  std::string text{"a "};
  text += name_of(operation);
  if (*where.file != '\0') ((text += " at ") += where.file) += ':' + std::to_string(where.line);
  return text;
}

}  // namespace

std::string BorrowLedger::Found::sentence() const {
  return bytes_text(begin, end) + " lent to " + work_text(operation, where);
}

[[gnu::always_inline]] inline BorrowLedger::Gap BorrowLedger::gap_for(
    std::size_t begin, LoanKind kind) const noexcept {
  if (tail_ == nullptr || tail_->begin_ <= begin) return {tail_, nullptr};
  if (head_->begin_ > begin) return {nullptr, head_};
  return gap_inside(begin, kind);
}

/// Between head and tail, so both walks end inside the list. Out of line, so that those above save
/// no registers.
[[gnu::noinline]] BorrowLedger::Gap BorrowLedger::gap_inside(std::size_t begin,
                                                             LoanKind kind) const noexcept {
  auto const distance = [begin](Loan const* loan) {
    return loan->begin_ > begin ? loan->begin_ - begin : begin - loan->begin_;
  };
  Loan* below = finger_[static_cast<std::size_t>(kind)];
  if (distance(vacated_) < distance(below)) below = vacated_;
  while (below->begin_ > begin) below = below->previous_;
  while (below->next_->begin_ <= begin) below = below->next_;
  return {below, below->next_};
}

[[gnu::always_inline]] inline Loan const* BorrowLedger::conflict(Gap gap, std::size_t begin,
                                                                 std::size_t end,
                                                                 LoanKind kind) noexcept {
  Loan const* below = gap.below;
  Loan const* above = gap.above;
  if (kind == LoanKind::exclusive) {
    if (below != nullptr && below->reach_ > begin) {
      while (below->end_ <= begin) below = below->previous_;
      return below;
    }
    return above != nullptr && above->begin_ < end ? above : nullptr;
  }
  if (below != nullptr && below->end_ > begin && below->kind_ == LoanKind::exclusive) return below;
  for (; above != nullptr && above->begin_ < end; above = above->next_)
    if (above->kind_ == LoanKind::exclusive) return above;
  return nullptr;
}

[[gnu::always_inline]] inline void BorrowLedger::link(Loan& loan, Gap gap) noexcept {
  if (head_ == tail_) finger_[0] = finger_[1] = vacated_ = head_;  // it was alone so far
  loan.previous_ = gap.below;
  loan.next_ = gap.above;
  loan.reach_ = gap.below != nullptr ? std::max(gap.below->reach_, loan.end_) : loan.end_;
  (gap.below != nullptr ? gap.below->next_ : head_) = &loan;
  (gap.above != nullptr ? gap.above->previous_ : tail_) = &loan;
  for (Loan* above = gap.above; above != nullptr && above->reach_ < loan.reach_;
       above = above->next_)
    above->reach_ = loan.reach_;
  finger_[static_cast<std::size_t>(loan.kind_)] = &loan;
}

void BorrowLedger::unlink_among(Loan& loan) noexcept {
  Loan* const below = loan.previous_;
  Loan* const above = loan.next_;
  (below != nullptr ? below->next_ : head_) = above;
  (above != nullptr ? above->previous_ : tail_) = below;
  Loan* const neighbour = below != nullptr ? below : above;
  for (Loan*& finger : finger_)
    if (finger == &loan) finger = neighbour;
  vacated_ = neighbour;
  std::size_t reach = below != nullptr ? below->reach_ : 0;
  for (Loan* up = above; up != nullptr; up = up->next_) {
    reach = std::max(reach, up->end_);
    if (up->reach_ == reach) break;
    up->reach_ = reach;
  }
}

[[gnu::cold]] Error BorrowLedger::refuse(Loan const& wanted, Loan const& rival) noexcept {
  Found const found{rival};
  Lock::drop(locked_);
  try {
    return {Errc::already_borrowed, bytes_text(wanted.begin_, wanted.end_) + " for " +
                                        work_text(wanted.operation_, wanted.where_) + " overlap " +
                                        found.sentence() + "; wait for that work first"};
  } catch (std::bad_alloc const&) {
    return Errc::already_borrowed;
  }
}

[[gnu::cold, gnu::noinline]] void BorrowLedger::stop_for_ended_region() noexcept {
  stop(
      "an element or piece of a MemoryRegion was posted or exposed after that region had been "
      "destroyed or assigned over; take elements and pieces anew from the region that is there");
}

Loan const* BorrowLedger::link_among(Loan& loan) noexcept {
  Gap const gap = gap_for(loan.begin_, loan.kind_);
  Loan const* const rival = conflict(gap, loan.begin_, loan.end_, loan.kind_);
  if (rival == nullptr) [[likely]]
    link(loan, gap);
  return rival;
}

Result<void> BorrowLedger::check(ByteRange range, LoanKind kind) const noexcept {
  std::size_t const begin = range.offset;
  std::size_t const end = begin + range.length;
  LEND_ASSERT(end >= begin);
  if (begin == end) return success();
  std::optional<Found> rival;
  {
    Lock const lock{locked_};
    if (Loan const* const found = conflict(gap_for(begin, kind), begin, end, kind))
      rival.emplace(*found);
  }
  if (!rival) return success();
  try {
    return Error{Errc::already_borrowed, bytes_text(begin, end) + " cannot be " +
                                             (kind == LoanKind::exclusive ? "written" : "read") +
                                             " now: they overlap " + rival->sentence() +
                                             "; wait for that work first"};
  } catch (std::bad_alloc const&) {
    return Errc::already_borrowed;
  }
}

std::size_t BorrowLedger::loans() const noexcept {
  Lock const lock{locked_};
  return loans_under_lock();
}

bool BorrowLedger::retire() noexcept {
  Lock const lock{locked_};
  retired_ = true;
  return --holders_ == 0;
}

std::string BorrowLedger::describe_a_loan() const {
  std::optional<Found> found;
  {
    Lock const lock{locked_};
    if (loans_under_lock() == 0) return {};
    if (head_ != nullptr) found.emplace(*head_);
  }
  return found ? found->sentence() : "a range of no bytes";
}

}  // namespace lend
