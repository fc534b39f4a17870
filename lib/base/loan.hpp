// SPDX-License-Identifier: MIT OR Apache-2.0
// The record of one loan, which the borrower keeps and the ledger links. Any thread.
#pragma once

#include <lend/base/byte_range.hpp>
#include <lend/base/source_line.hpp>
#include <lend/base/work_failure.hpp>

#include <cstddef>
#include <cstdint>

namespace lend::base {

/// Shared: the device reads, and others may read too. Exclusive: the device writes, and nothing
/// else may touch the bytes.
enum class LoanKind : std::uint8_t { shared, exclusive };

class BorrowLedger;

/// The record of one loan. The borrower (a slot) stores it, so that lending allocates nothing; it
/// must not move while `on_loan()`.
class Loan {
 public:
  Loan() = default;
  Loan(Loan const&) = delete;
  Loan& operator=(Loan const&) = delete;

  [[nodiscard]] bool on_loan() const noexcept { return ledger_ != nullptr; }
  /// What was lent, while on_loan().
  [[nodiscard]] ByteRange range() const noexcept { return {begin_, end_ - begin_}; }
  [[nodiscard]] LoanKind kind() const noexcept { return kind_; }
  /// The post that made it, or that note() named since; a null file if unknown.
  [[nodiscard]] SourceLine where() const noexcept { return where_; }
  /// Of a post that lends nothing.
  void note(SourceLine where) noexcept {
    where_.file = where.file;  // one by one: from registers, and not through memory
    where_.line = where.line;
  }
  void forget_where() noexcept { where_.file = nullptr; }

 private:
  friend class BorrowLedger;

  void describe(ByteRange range, LoanKind kind, Operation operation, SourceLine where) noexcept {
    begin_ = range.offset;
    end_ = range.offset + range.length;
    note(where);
    kind_ = kind;
    operation_ = operation;
  }
  void insert(Loan& below, Loan& above) noexcept {
    previous_ = &below;
    next_ = &above;
    below.next_ = above.previous_ = this;
  }
  /// Whether one may go between this and the next without a look at any other.
  [[nodiscard]] bool has_room_above(std::size_t begin, std::size_t end,
                                    LoanKind kind) const noexcept {
    bool const is_clear_below =
        reach_ <= begin ||
        // An exclusive loan that reached beyond `begin` would overlap this one, too.
        (kind == LoanKind::shared && kind_ == LoanKind::shared && begin_ <= begin);
    return is_clear_below && end <= next_->begin_;
  }

  BorrowLedger* ledger_ = nullptr;
  Loan* previous_ = nullptr;
  Loan* next_ = nullptr;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t reach_ = 0;  // largest end_ of this loan and all before it in the list
  SourceLine where_{nullptr, 0};
  LoanKind kind_{};
  Operation operation_{};
};

}  // namespace lend::base
