// SPDX-License-Identifier: MIT OR Apache-2.0
// The loans of a work request: made as it is posted, ended when it is over. Of one row one thread
// at a time.
#pragma once

#include <lend/base/export.hpp>

#include <base/poison.hpp>
#include <verbs/memory/region_state.hpp>

#include <cstdint>

namespace lend::verbs {

// Bytes on loan to be written are poisoned for AddressSanitizer, those of the host.
inline void poison([[maybe_unused]] RegionState const& region,
                   [[maybe_unused]] ByteRange range) noexcept {
  if constexpr (base::can_poison)
    if (!region.is_device_memory) base::poison({region.address + range.offset, range.length});
}
inline void unpoison([[maybe_unused]] RegionState const& region,
                     [[maybe_unused]] ByteRange range) noexcept {
  if constexpr (base::can_poison)
    if (!region.is_device_memory) base::unpoison({region.address + range.offset, range.length});
}

/// Lends bytes that `region` contains, where that takes few instructions. False: nothing was lent,
/// and begin_loan() decides.
/// Threads: any.
[[nodiscard, gnu::always_inline]] inline bool begin_loan_at_once(
    base::Loan& loan, RegionState& region, ByteRange range, base::LoanKind kind,
    Operation operation, SourceLine where) noexcept {
  if (!region.ledger.lend_at_once(loan, range, kind, operation, where)) [[unlikely]]
    return false;
  if (kind == base::LoanKind::exclusive) poison(region, range);
  return true;
}

/// The same for any bytes. `loan` stays unused where the region's ledger was disabled.
/// Errors:  already_borrowed.
/// Threads: any.
[[nodiscard]] LEND_EXPORT Result<void> begin_loan(base::Loan& loan, RegionState& region,
                                                  ByteRange range, base::LoanKind kind,
                                                  Operation operation,
                                                  SourceLine const& where) noexcept;

/// Takes a loan of `region` back, and with the last one of an owned region that was destroyed in
/// the meantime the region itself. Nothing to do where the loan is unused.
/// Threads: any.
[[gnu::always_inline]] inline void end_loan(base::Loan& loan, RegionState* const& region) noexcept {
  if (!loan.on_loan()) return;
  // First: once returned, another request may lend these bytes and poison them.
  if constexpr (base::can_poison)
    if (loan.kind() == base::LoanKind::exclusive) unpoison(*region, loan.range());
  if (base::BorrowLedger::give_back(loan)) [[unlikely]]
    destroy_at_last(region);
}

/// An exclusive loan becomes a shared one, and can be taken alone again once no other overlaps it.
/// Threads: any.
inline void share_loan(base::Loan& loan, RegionState const& region) noexcept {
  unpoison(region, loan.range());
  base::BorrowLedger::share(loan);
}
[[nodiscard]] inline bool take_loan_alone(base::Loan& loan, RegionState const& region) noexcept {
  if (!base::BorrowLedger::take_alone(loan)) return false;
  poison(region, loan.range());
  return true;
}

/// How an element's bytes are lent.
template <class Element>
struct ElementKind;

template <>
struct ElementKind<GatherElement> {
  static constexpr base::LoanKind loan = base::LoanKind::shared;  // the device reads
};
template <>
struct ElementKind<ScatterElement> {
  static constexpr base::LoanKind loan = base::LoanKind::exclusive;  // and writes
};

/// The loan of one element, and its region.
struct LentPiece {
  base::Loan loan{};
  RegionState* region = nullptr;
};

[[gnu::always_inline]] inline void end_loan(LentPiece& piece) noexcept {
  end_loan(piece.loan, piece.region);
}

/// Where a work request's loans are recorded. Without `where` nothing is lent.
struct LoanRow {
  LentPiece* next = nullptr;          // one for each element; unused
  std::uint16_t* count = nullptr;     // of those in use
  SourceLine const* where = nullptr;  // the call that lends
  Error* conflict = nullptr;          // what the ledger answered, where it refused
};

/// Lends the bytes of `element`, which are its region's. False where the ledger refuses.
template <class Element>
[[nodiscard, gnu::always_inline]] inline bool lend_element(LoanRow& row, Element const& element,
                                                           Operation operation) noexcept {
  if (row.where == nullptr) return true;
  auto lent = begin_loan(row.next->loan, *element.region, element.range, ElementKind<Element>::loan,
                         operation, *row.where);
  if (!lent.has_value()) [[unlikely]] {
    *row.conflict = std::move(lent).assume_error();
    return false;
  }
  row.next->region = element.region;
  ++row.next;
  ++*row.count;
  return true;
}

/// Of storage of loans that never end, to which their ledger refers: keeps it reachable for leak
/// checkers. Threads: any.
LEND_EXPORT void keep_loans_for_ever(void const* storage) noexcept;

/// Out of line: a loop among what is inline below would cost even one loan ten instructions.
void give_back_all_but_one(LentPiece* pieces, std::uint16_t& count) noexcept;

/// Ends the loans of a row of at least one, whose bytes were copied; its source line stays.
[[gnu::always_inline]] inline void give_back_copied(LentPiece* pieces,
                                                    std::uint16_t& count) noexcept {
  if (count > 1) [[unlikely]]
    give_back_all_but_one(pieces, count);
  end_loan(*pieces);
}

/// Ends the first `count` loans of a row.
[[gnu::always_inline]] inline void give_back_all(LentPiece* pieces, std::uint16_t& count) noexcept {
  if (count > 1) [[unlikely]]
    give_back_all_but_one(pieces, count);
  if (count == 1) end_loan(*pieces);
  count = 0;
}

}  // namespace lend::verbs
