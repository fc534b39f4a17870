// SPDX-License-Identifier: MIT OR Apache-2.0
// Rows for several elements, and rows that outlive their channel. The thread of the channel.
#include <channel/parts/loan_rows.hpp>

#include <cstddef>
#include <new>

namespace lend::channel {

LoanRows::LoanRows(std::uint32_t slots, std::uint32_t elements)
    : pieces_{std::make_unique<verbs::LentPiece[]>(slots)}, slots_{slots}, elements_{elements} {}

LoanRows::~LoanRows() {
  if (!keeps_some_) return;
  // The ledgers of regions still refer to them.
  verbs::keep_loans_for_ever(pieces_.release());
  if (rows_ != nullptr) verbs::keep_loans_for_ever(rows_.release());
}

bool LoanRows::widen(SlotId id, Slot& slot) noexcept {
  if (rows_ == nullptr)
    rows_.reset(new (std::nothrow) verbs::LentPiece[std::size_t{slots_} * elements_]);
  if (rows_ == nullptr) return false;
  slot.pieces = rows_.get() + std::size_t{id.index()} * elements_;
  return true;
}

void LoanRows::keep(Slot& slot) noexcept {
  slot.loans = 0;
  keeps_some_ = true;
}

void LoanRows::leak() noexcept {
  static_cast<void>(pieces_.release());
  static_cast<void>(rows_.release());
}

}  // namespace lend::channel
