// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the transport.
#include <transport/held.hpp>
#include <verbs/memory/loan_row.hpp>

#include <utility>

namespace lend {

namespace {

[[gnu::cold]] Error no_room() noexcept {
  return {Errc::invalid_argument, "this draft has no room: ask for another, and look at it"};
}
[[gnu::cold]] Error longer_than_its_draft() noexcept {
  return {Errc::invalid_argument,
          "a message is longer than its draft: send at most bytes().size()"};
}

}  // namespace

void Received::give_back() noexcept {
  std::exchange(held_, nullptr)->take_back(slot_);
}

std::size_t Received::lent_length() const noexcept {
  return held_->lent_bytes(slot_);
}

void Draft::drop() noexcept {
  std::exchange(held_, nullptr)->drop_draft();
}

Result<void> Draft::send(std::size_t used) && noexcept {
  if (held_ == nullptr) [[unlikely]]
    return no_room();
  auto& held = *std::exchange(held_, nullptr);
  if (used <= std::exchange(bytes_, {}).size()) [[likely]]
    return held.send_draft(used);
  held.drop_draft();
  return longer_than_its_draft();
}

namespace transport {

Held::Held(Lender& lender, std::uint32_t slots, std::shared_ptr<void const> keeps)
    : lender_{&lender}, keeps_{std::move(keeps)}, slots_(slots), lent_bytes_(slots) {}

void Held::end() noexcept {
  lender_ = nullptr;
  if (loans_ == 0) delete this;
}

Result<Received> Held::lend(std::uint32_t slot, std::span<std::byte const> bytes,
                            GatherElement const& where) noexcept {
  if (where.region != nullptr) {
    Slot& lent = slots_[slot];
    constexpr auto kind = base::LoanKind::shared;
    auto const here = SourceLine::here();
    if (!verbs::begin_loan_at_once(lent.loan, *where.region, where.range, kind, Operation::receive,
                                   here)) {
      LEND_TRYV(
          verbs::begin_loan(lent.loan, *where.region, where.range, kind, Operation::receive, here));
    }
    lent.region = where.region;
  }
  ++loans_;
  Received received;
  received.held_ = this;
  received.slot_ = slot;
  received.what_ = Received::What::message;
  received.bytes_ = bytes;
  return received;
}

Received Held::hold_lent(std::uint32_t slot, std::size_t lent_bytes) noexcept {
  lent_bytes_[slot] = lent_bytes;
  ++loans_;
  Received received;
  received.held_ = this;
  received.slot_ = slot;
  received.what_ = Received::What::lent;
  return received;
}

Draft Held::draft(std::span<std::byte> bytes) noexcept {
  Draft draft;
  has_draft_ = true;
  ++loans_;
  draft.held_ = this;
  draft.bytes_ = bytes;
  return draft;
}

void Held::take_back(std::uint32_t slot) noexcept {
  // The last loan of a region that has ended ends that, too.
  if (slot < slots_.size()) verbs::end_loan(slots_[slot].loan, slots_[slot].region);
  if (lender_ != nullptr) lender_->take_back(slot);
  end_one();
}

void Held::drop_draft() noexcept {
  has_draft_ = false;
  if (lender_ != nullptr) lender_->drop_draft();
  end_one();
}

Result<void> Held::send_draft(std::size_t used) noexcept {
  if (lender_ == nullptr) [[unlikely]] {
    drop_draft();
    return without_lender();
  }
  has_draft_ = false;
  --loans_;
  return lender_->send_draft(used);
}

[[gnu::cold]] Error Held::without_lender() noexcept {
  return {Errc::stale_handle, "the transport of this draft is gone: nothing was sent"};
}

void Held::end_one() noexcept {
  if (--loans_ == 0 && lender_ == nullptr) delete this;
}

}  // namespace transport
}  // namespace lend
