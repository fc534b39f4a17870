// SPDX-License-Identifier: MIT OR Apache-2.0
// Loans that take more than a few instructions, and rows of more than one.
#include <verbs/loan_row.hpp>

namespace lend::verbs {

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

void give_back_all_but_one(LentPiece* pieces, std::uint16_t& count) noexcept {
  for (; count > 1; --count) {
    auto& [loan, region] = pieces[count - 1];
    end_loan(loan, region);
  }
}

}  // namespace lend::verbs
