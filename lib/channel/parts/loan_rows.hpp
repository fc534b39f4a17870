// SPDX-License-Identifier: MIT OR Apache-2.0
// The memory in which the requests of one channel keep their loans. The thread of the channel.
#pragma once

#include <channel/parts/slot.hpp>
#include <verbs/memory/loan_row.hpp>

#include <cstdint>
#include <memory>

namespace lend::channel {

/// A row for each slot: of one element, or of as many as a request may have.
class LoanRows {
 public:
  /// `elements`: maximum of one request.
  LoanRows(std::uint32_t slots, std::uint32_t elements);
  ~LoanRows();
  LoanRows(LoanRows const&) = delete;
  LoanRows& operator=(LoanRows const&) = delete;

  /// Of the slot with this index, at first: of one element.
  [[nodiscard]] verbs::LentPiece* row_of(std::uint32_t slot) noexcept { return &pieces_[slot]; }
  /// Gives a slot without loans a row for several elements. False without memory.
  [[nodiscard]] bool widen(SlotId id, Slot& slot) noexcept;
  /// Keeps the loans of a slot for good: the device keeps the queue pair.
  void keep(Slot& slot) noexcept;
  /// Leaks all, because the ledgers of regions still refer to them.
  void leak() noexcept;

 private:
  std::unique_ptr<verbs::LentPiece[]> pieces_;  // one for each slot
  std::unique_ptr<verbs::LentPiece[]> rows_{};  // elements_ for each, made when first used
  std::uint32_t const slots_;
  std::uint32_t const elements_;
  bool keeps_some_ = false;
};

}  // namespace lend::channel
