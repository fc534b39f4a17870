// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the group.
#include <group/state/posted_calls.hpp>

#include <cstring>
#include <new>
#include <string>
#include <utility>

namespace lend::group {

namespace {

using base::LoanKind;

/// Of what the call names as its place: some ranks only send from there.
LoanKind kind_of_place(Call const& call, Ranks ranks) noexcept {
  bool const is_root = ranks.rank == call.root;
  bool const is_read = (call.collective == Collective::broadcast && is_root) ||
                       (call.collective == Collective::reduce && !is_root);
  return is_read ? LoanKind::shared : LoanKind::exclusive;
}

Result<void> lend_piece(verbs::LentPiece& piece, GatherElement bytes, LoanKind kind,
                        SourceLine where) noexcept {
  if (bytes.region == nullptr) return success();  // none are given
  LEND_TRYV(verbs::begin_loan(piece.loan, *bytes.region, bytes.range, kind,
                              kind == LoanKind::shared ? Operation::send : Operation::receive,
                              where));
  piece.region = bytes.region;
  return success();
}

bool is_poisoned(verbs::LentPiece const& piece) noexcept {
  return piece.loan.on_loan() && piece.loan.kind() == LoanKind::exclusive;
}

}  // namespace

PostedCall::Touch::Touch(PostedCall const& posted) noexcept : piece_{posted.out} {
  if (is_poisoned(piece_)) verbs::unpoison(*piece_.region, piece_.loan.range());
}
PostedCall::Touch::~Touch() {
  if (is_poisoned(piece_)) verbs::poison(*piece_.region, piece_.loan.range());
}

Result<PostedCalls::Id> PostedCalls::add(Membership& team, Call const& call, GatherElement in,
                                         ScatterElement out, bool do_links_write) noexcept try {
  if (calls_ == nullptr) calls_.reset(new (std::nothrow) Ring);
  if (calls_ == nullptr) return Errc::exhausted;
  if (added_ - ended_ == GroupScope::posted_max)
    return Error{Errc::queue_full, std::to_string(GroupScope::posted_max) +
                                       " posted collectives of this group are not over: wait for "
                                       "one of them"};
  PostedCall& posted = at(added_ + 1);
  if (call.is_uneven()) posted.counts.assign(*call.counts);
  LEND_TRYV(lend_piece(posted.in, in, LoanKind::shared, call.where));
  auto lent =
      lend_piece(posted.out, {out.region, out.range}, kind_of_place(call, team.ranks), call.where);
  if (!lent.has_value()) {
    verbs::end_loan(posted.in);
    return std::move(lent).assume_error();
  }
  posted.team = &team;
  posted.call = call;
  if (do_links_write) posted.call.out_region = out.region;
  if (call.is_uneven()) posted.call.counts = &posted.counts.get();
  if (call.op.op != nullptr) {
    std::memcpy(posted.op.data(), call.op.op, call.op.op_bytes);
    posted.call.op.op = posted.op.data();
  }
  return ++added_;
} catch (std::bad_alloc const&) {
  return Error{Errc::exhausted, "no memory for the lengths of a collective"};
}

void PostedCalls::end_front() noexcept {
  PostedCall& posted = front();
  verbs::end_loan(posted.in);
  verbs::end_loan(posted.out);
  ++ended_;
}

void PostedCalls::fail(bool is_first_kept) noexcept {
  if (std::exchange(has_failed_, true)) return;
  keeps_bytes_ = is_first_kept;
  for (Id id = ended_ + 1; id <= added_; ++id) {
    verbs::end_loan(at(id).in);
    if (!keeps_bytes_ || !is_first_failed(id)) verbs::end_loan(at(id).out);
  }
  // The ledger refers to the loan for good.
  if (keeps_bytes_) verbs::keep_loans_for_ever(calls_.release());
}

}  // namespace lend::group
