// SPDX-License-Identifier: MIT OR Apache-2.0
// Loans that take more than a few instructions, and rows of more than one.
#include <verbs/memory/loan_row.hpp>

#include <atomic>
#include <new>

namespace lend::verbs {

namespace {

struct EndlessLoans {
  void const* storage;
  EndlessLoans* next;
};
constinit std::atomic<EndlessLoans*> endless_loans{nullptr};

}  // namespace

Result<void> begin_loan(base::Loan& loan, RegionState& region, ByteRange range, base::LoanKind kind,
                        Operation operation, SourceLine const& where) noexcept {
  if (!region.ledger.is_recording()) {
    loan.note(where);
    return success();
  }
  auto lent = region.ledger.lend(loan, range, kind, operation, where);
  if (lent && kind == base::LoanKind::exclusive) poison(region, range);
  return lent;
}

void keep_loans_for_ever(void const* storage) noexcept {
  auto* const entry = new (std::nothrow) EndlessLoans{storage, nullptr};
  if (entry == nullptr) return;
  // Relaxed: no thread reads the list.
  entry->next = endless_loans.exchange(entry, std::memory_order_relaxed);
}

void give_back_all_but_one(LentPiece* pieces, std::uint16_t& count) noexcept {
  for (; count > 1; --count) {
    auto& [loan, region] = pieces[count - 1];
    end_loan(loan, region);
  }
}

}  // namespace lend::verbs
