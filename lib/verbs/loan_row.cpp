// SPDX-License-Identifier: MIT OR Apache-2.0
// Rows of more than one loan. One thread at a time.
#include <verbs/loan_row.hpp>

namespace lend::verbs {

void give_back_all_but_one(LentPiece* pieces, std::uint32_t& count) noexcept {
  for (; count > 1; --count) {
    auto& [loan, region] = pieces[count - 1];
    end_loan(loan, region);
  }
}

}  // namespace lend::verbs
