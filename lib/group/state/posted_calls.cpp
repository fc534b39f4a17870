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
  bool const is_read =
      call.layout().in == Parts::in_place && !call.layout().gets(ranks.rank == call.root);
  return is_read ? LoanKind::shared : LoanKind::exclusive;
}

[[gnu::always_inline]] inline Result<void> lend_piece(verbs::LentPiece& piece,
                                                      verbs::RegionState* region, ByteRange range,
                                                      LoanKind kind, SourceLine where) noexcept {
  if (region == nullptr) return success();  // none are given
  auto const operation = kind == LoanKind::shared ? Operation::send : Operation::receive;
  if (range.length == 0 ||
      !verbs::begin_loan_at_once(piece.loan, *region, range, kind, operation, where)) {
    LEND_TRYV(verbs::begin_loan(piece.loan, *region, range, kind, operation, where));
  }
  piece.region = region;
  return success();
}

}  // namespace

Result<void> PostedCalls::make_room() noexcept {
  if (calls_ == nullptr) calls_.reset(new (std::nothrow) Ring);
  if (calls_ == nullptr) return Errc::exhausted;
  if (added_ - ended_ < GroupScope::posted_max) return success();
  return Error{Errc::queue_full, std::to_string(GroupScope::posted_max) +
                                     " posted collectives of this group are not over: wait for one "
                                     "of them"};
}

Result<PostedCalls::Id> PostedCalls::add(Membership& team, Call const& call,
                                         GatherElement const& in, ScatterElement const& out,
                                         bool do_links_write) noexcept try {
  if (calls_ == nullptr || added_ - ended_ == GroupScope::posted_max) [[unlikely]]
    LEND_TRYV(make_room());
  PostedCall& posted = at(added_ + 1);
  if (call.is_uneven()) posted.counts.assign(*call.counts);
  LEND_TRYV(lend_piece(posted.in, in.region, in.range, LoanKind::shared, call.where));
  auto lent =
      lend_piece(posted.out, out.region, out.range, kind_of_place(call, team.ranks), call.where);
  if (lent.has_error()) [[unlikely]] {
    verbs::end_loan(posted.in);
    return std::move(lent).assume_error();
  }
  posted.team = &team;
  posted.call = call;
  posted.call.is_in_lent = in.region != nullptr;
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

void PostedCalls::fail(KeptBytes kept) noexcept {
  if (std::exchange(has_failed_, true)) return;
  keeps_bytes_ = kept.in || kept.out;
  for (Id id = ended_ + 1; id <= added_; ++id) {
    if (!kept.in || !is_first_failed(id)) verbs::end_loan(at(id).in);
    if (!kept.out || !is_first_failed(id)) verbs::end_loan(at(id).out);
  }
  // The ledger refers to the loan for good.
  if (keeps_bytes_) verbs::keep_loans_for_ever(calls_.release());
}

}  // namespace lend::group
