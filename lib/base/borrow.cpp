// SPDX-License-Identifier: MIT OR Apache-2.0
// The borrow ledger: a ring of loans under a spin lock, sorted while one of them is exclusive. Any
// thread.
//
// Shared loans conflict with none of their kind, so alone they are in no order: a new one is linked
// where the ring closes. An exclusive loan alone needs no order either. Beside another the first
// exclusive loan sorts the ring, which stays sorted until it is empty.
//
// Two facts keep walks along a sorted ring short. reach_, the largest end up to a loan, shows at
// once whether any loan below overlaps a new one, which is therefore mostly inserted between two
// neighbours without a walk. And an exclusive loan overlaps nothing, so a shared one can conflict
// only with the neighbour below and with loans that begin inside it. Empty loans overlap nothing;
// they are only counted.
#include <base/borrow.hpp>
#include <lend/base/stop.hpp>

#include <algorithm>
#include <cstdint>
#include <new>
#include <optional>
#include <thread>
#include <utility>

namespace lend::base {

[[gnu::noinline, gnu::cold]] void BorrowLedger::Lock::wait(std::atomic<bool>& locked) noexcept {
  // A walk takes tens of nanoseconds; a holder that takes longer than these polls is not running.
  constexpr int looks_before_yielding = 100;
  do {
    // Relaxed: only the exchange takes the lock.
    for (int looks = 0; locked.load(std::memory_order_relaxed); ++looks)
      if (looks >= looks_before_yielding) std::this_thread::yield();
    // Acquire: as in take().
  } while (locked.exchange(true, std::memory_order_acquire));
}

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

[[noreturn, gnu::cold, gnu::noinline]] void stop_for_ended_region() noexcept {
  stop(
      "an element or piece of a MemoryRegion was posted or exposed after that region had been "
      "destroyed or assigned over; take elements and pieces from an existing region");
}

}  // namespace

std::string BorrowLedger::Found::sentence() const {
  return bytes_text(begin, end) + " lent to " + work_text(operation, where);
}

BorrowLedger::BorrowLedger() noexcept {
  ends_.previous_ = ends_.next_ = &ends_;
  ends_.begin_ = ends_.end_ = SIZE_MAX;
  ends_.kind_ = LoanKind::shared;
}

/// The last loan that begins at `begin` or before.
Loan* BorrowLedger::place_below(std::size_t begin, LoanKind kind) const noexcept {
  if (ends_.next_->begin_ > begin) return &ends_;
  if (ends_.previous_->begin_ <= begin) return ends_.previous_;
  // Between the first and the last, so both walks end inside the ring.
  auto const distance = [begin](Loan const* loan) {
    return loan->begin_ > begin ? loan->begin_ - begin : begin - loan->begin_;
  };
  // A hint below the first loan counts as the first.
  auto const in_ring = [this](Loan* hint) { return hint == &ends_ ? ends_.next_ : hint; };
  Loan* below = in_ring(last_made_[static_cast<std::size_t>(kind)]);
  if (Loan* const left = in_ring(left_last_); distance(left) < distance(below)) below = left;
  while (below->begin_ > begin) below = below->previous_;
  while (below->next_->begin_ <= begin) below = below->next_;
  return below;
}

/// The loan that a loan above `below` would overlap. `ends_` acts as a shared loan without overlap.
Loan const* BorrowLedger::conflict(Loan const* below, std::size_t begin, std::size_t end,
                                   LoanKind kind) noexcept {
  Loan const* above = below->next_;
  if (kind == LoanKind::exclusive) {
    if (below->reach_ > begin) {
      while (below->end_ <= begin) below = below->previous_;
      return below;
    }
    return above->begin_ < end ? above : nullptr;
  }
  if (below->end_ > begin && below->kind_ == LoanKind::exclusive) return below;
  for (; above->begin_ < end; above = above->next_)
    if (above->kind_ == LoanKind::exclusive) return above;
  return nullptr;
}

/// A loan that overlaps these bytes, of a ring in any order.
Loan const* BorrowLedger::overlapping(std::size_t begin, std::size_t end) const noexcept {
  for (Loan const* loan = ends_.next_; loan != &ends_; loan = loan->next_)
    if (loan->begin_ < end && begin < loan->end_) return loan;
  return nullptr;
}

/// One list of two, each in order and ended by null.
Loan* BorrowLedger::merged(Loan* one, Loan* other) noexcept {
  Loan* first = nullptr;
  Loan** end = &first;
  while (one != nullptr && other != nullptr) {
    Loan*& lesser = other->begin_ < one->begin_ ? other : one;
    *end = lesser;
    end = &lesser->next_;
    lesser = *end;
  }
  *end = one != nullptr ? one : other;
  return first;
}

/// Puts the ring, whose loans are all shared, in order: a merge sort of the list.
void BorrowLedger::sort() noexcept {
  Loan* parts[64];  // parts[i]: null, or 2^i loans in order
  std::size_t count = 0;
  for (Loan* loan = ends_.next_; loan != &ends_;) {
    Loan* const rest = std::exchange(loan->next_, nullptr);
    std::size_t i = 0;
    for (; i < count && parts[i] != nullptr; ++i)
      loan = merged(std::exchange(parts[i], nullptr), loan);
    parts[i] = loan;
    count = std::max(count, i + 1);
    loan = rest;
  }
  Loan* loan = nullptr;
  for (std::size_t i = 0; i < count; ++i) loan = merged(parts[i], loan);

  ends_.previous_ = ends_.next_ = &ends_;
  while (loan != nullptr) {
    Loan* const rest = loan->next_;
    link_sorted(*loan, loan->end_, LoanKind::shared, *ends_.previous_);
    loan = rest;
  }
  set(sorted);
}

Loan const* BorrowLedger::link_anywhere(Loan& loan) noexcept {
  if (is_lone()) sort_lone();
  if (!is_sorted()) {
    if (loan.kind_ == LoanKind::shared) {
      loan.insert(*ends_.previous_, ends_);
      return nullptr;
    }
    sort();
  }
  Loan* const below = place_below(loan.begin_, loan.kind_);
  if (Loan const* const rival = conflict(below, loan.begin_, loan.end_, loan.kind_)) return rival;
  Loan* above = below->next_;
  left_last_ = last_made_[static_cast<std::size_t>(loan.kind_)];
  link_sorted(loan, loan.end_, loan.kind_, *below);
  for (; above != &ends_ && above->reach_ < loan.reach_; above = above->next_)
    above->reach_ = loan.reach_;
  return nullptr;
}

/// Updates `loan` and those above it, after a loan below that reached further was returned.
[[gnu::noinline]] void BorrowLedger::lower_reach_from(Loan* loan) noexcept {
  std::size_t reach = loan->previous_->reach_;
  for (; loan != &ends_; loan = loan->next_) {
    reach = std::max(reach, loan->end_);
    if (loan->reach_ == reach) break;
    loan->reach_ = reach;
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

Result<void> BorrowLedger::lend(Loan& loan, ByteRange range, LoanKind kind, Operation operation,
                                SourceLine const& where) noexcept {
  LEND_ASSERT(!loan.on_loan());
  LEND_ASSERT(range.offset + range.length >= range.offset);
  loan.describe(range, kind, operation, where);
  loan.insert(loan, loan);  // an empty one stays a ring of its own

  Lock::take(locked_);
  if ((flags() & retired) != 0) [[unlikely]]
    stop_for_ended_region();
  if (range.length != 0 && !link_at_once(loan, range, kind))
    if (Loan const* const rival = link_anywhere(loan)) [[unlikely]]
      return refuse(loan, *rival);
  ++holders_;
  Lock::drop(locked_);
  loan.ledger_ = this;
  return success();
}

/// The rest of give_back(): of the last loan with bytes, of one without, or of an ended region.
[[gnu::noinline]] bool BorrowLedger::give_back_last(Loan const& unlinked) noexcept {
  if (is_empty()) {
    last_made_[0] = last_made_[1] = left_last_ = &ends_;
    flags_.store(static_cast<Flags>(flags() & ~(sorted | lone)), std::memory_order_relaxed);
  } else if (is_sorted() && unlinked.previous_ != &unlinked) {  // an empty one is below itself
    leave_order(unlinked, *unlinked.previous_, *unlinked.next_);
  }
  return holders_ == 0;
}

void BorrowLedger::share(Loan& loan) noexcept {
  LEND_ASSERT(loan.on_loan() && loan.kind_ == LoanKind::exclusive);
  Lock const lock{loan.ledger_->locked_};
  if (loan.ledger_->is_lone()) loan.ledger_->sort_lone();
  loan.kind_ = LoanKind::shared;  // nothing below reaches into it, so reach_ stays
}

bool BorrowLedger::take_alone(Loan& loan) noexcept {
  LEND_ASSERT(loan.on_loan() && loan.kind_ == LoanKind::shared);
  Lock const lock{loan.ledger_->locked_};
  // The ring is sorted: it was when the loan was exclusive, and has not been empty since.
  if (loan.previous_->reach_ > loan.begin_ || loan.next_->begin_ < loan.end_) return false;
  loan.kind_ = LoanKind::exclusive;
  return true;
}

Result<void> BorrowLedger::check(ByteRange range, LoanKind kind) const noexcept {
  std::size_t const begin = range.offset;
  std::size_t const end = begin + range.length;
  LEND_ASSERT(end >= begin);
  if (begin == end) return success();
  std::optional<Found> rival;
  {
    Lock const lock{locked_};
    Loan const* const found = is_sorted() ? conflict(place_below(begin, kind), begin, end, kind)
                              : kind == LoanKind::exclusive || is_lone() ? overlapping(begin, end)
                                                                         : nullptr;
    if (found != nullptr) rival.emplace(*found);
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

void BorrowLedger::stop_recording() noexcept {
  Lock const lock{locked_};
  set(unrecorded);
}

bool BorrowLedger::retire() noexcept {
  Lock const lock{locked_};
  set(retired);
  return --holders_ == 0;
}

std::string BorrowLedger::describe_a_loan() const {
  std::optional<Found> found;
  {
    Lock const lock{locked_};
    if (loans_under_lock() == 0) return {};
    if (!is_empty()) found.emplace(*ends_.next_);
  }
  return found ? found->sentence() : "an empty range";
}

}  // namespace lend::base
