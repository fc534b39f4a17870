// SPDX-License-Identifier: MIT OR Apache-2.0
// Rows that are copied, because a request does not take so many elements. The thread of the group.
#include <base/copy_bytes.hpp>
#include <group/calls/checked_call.hpp>
#include <group/calls/rows.hpp>
#include <verbs/memory/loan_row.hpp>

namespace lend::group {

namespace {

/// Lends the bytes of an element while `copy` touches them.
template <class Element, class Copy>
Result<void> with_bytes_of(Element const& element, base::LoanKind kind, Operation operation,
                           SourceLine where, Copy const& copy) noexcept {
  LEND_TRY(bytes, bytes_of(element));
  if (bytes.empty()) return success();
  verbs::LentPiece piece;
  piece.region = element.region;
  LEND_TRYV(verbs::begin_loan(piece.loan, *element.region, element.range, kind, operation, where));
  if (kind == base::LoanKind::exclusive) verbs::unpoison(*element.region, element.range);
  copy(bytes);
  verbs::end_loan(piece);
  return success();
}

}  // namespace

Result<void> pack(Row<GatherElement>& row) noexcept {
  LEND_TRY(room, row.packed->mutable_bytes());
  for (GatherElement const& element : row.elements) {
    LEND_TRYV(with_bytes_of(element, base::LoanKind::shared, Operation::send, row.where,
                            [&](std::span<std::byte const> bytes) {
                              base::copy_bytes(room.first(bytes.size()), bytes);
                            }));
    room = room.subspan(element.range.length);
  }
  return success();
}

Result<void> unpack(Row<ScatterElement>& row) noexcept {
  LEND_TRY(rest, row.packed->bytes());
  for (ScatterElement const& element : row.elements) {
    LEND_TRYV(with_bytes_of(
        element, base::LoanKind::exclusive, Operation::receive, row.where,
        [&](std::span<std::byte> bytes) { base::copy_bytes(bytes, rest.first(bytes.size())); }));
    rest = rest.subspan(element.range.length);
  }
  row.is_to_be_unpacked = false;
  return success();
}

}  // namespace lend::group
