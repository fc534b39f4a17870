// SPDX-License-Identifier: MIT OR Apache-2.0
// Registered bytes: asking, and the end. Any thread.
#include <lend/base/stop.hpp>
#include <lend/verbs/memory_region.hpp>
#include <verbs/device/verb_error.hpp>
#include <verbs/memory/region_state.hpp>
#include <verbs/memory/value_check.hpp>

#include <cerrno>
#include <string>

namespace lend {

using verbs::RegionState;

namespace {

std::string range_text(ByteRange range) {
  if (range.offset == outside_piece) return std::to_string(range.length) + " bytes beyond a piece";
  return std::to_string(range.length) + " bytes at offset " + std::to_string(range.offset);
}

/// What keeps the region from ending: "on loan: bytes …".
std::string hold_of(RegionState const& state) {
  // Relaxed: words only.
  auto const exposures = state.exposures.load(std::memory_order_relaxed);
  if (exposures != 0 && state.ledger.loans() <= exposures) return "exposed to a peer";
  return "on loan: " + state.ledger.describe_a_loan();
}

}  // namespace

Result<std::byte*> verbs::touch(RegionState const* region, ByteRange range,
                                base::LoanKind kind) noexcept {
  if (region == nullptr || !region->contains(range))
    return verbs::element_error(region, range, 0, 1);
  if (region->ledger.is_recording()) {
    LEND_TRYV(region->ledger.check(range, kind));
  }
  return region->address + range.offset;
}

Error verbs::element_error(RegionState const* region, ByteRange range, std::size_t index,
                           std::size_t list_size) {
  std::string text;
  if (list_size > 1)
    text = "element " + std::to_string(index) + " of " + std::to_string(list_size) + ": ";
  text += range_text(range);
  if (region == nullptr)
    text +=
        " of no region: the element was default-constructed, or its region was moved from; take "
        "it from gather() or scatter()";
  else
    text += " of a region of " + std::to_string(region->length) +
            " bytes are out of bounds; keep offset + length within the region";
  return Error{Errc::invalid_argument, std::move(text)};
}

RegionState::~RegionState() {
  int const failure = registration.try_destroy();
  if (failure == 0) return;
  // Refused: the device may still write there. A leak is better than its writes in other memory.
  storage.keep_for_ever();
  // Of a view only the device knows when that ends. Source: lib/soft, dereg_mr().
  if (is_owned || verbs::errno_of(failure) != EBUSY) return;
  auto const* const reason = registration.provider().last_reason();
  stop("a registered view of " + std::to_string(length) +
       " bytes was destroyed while its peer may still write there: " +
       (reason != nullptr ? reason : "the device does not invalidate the key"));
}

std::size_t MemoryRegion::size() const noexcept {
  return state_ != nullptr ? state_->length : 0;
}

ByteRange MemoryRegion::range_of(std::span<std::byte const> bytes) const noexcept {
  if (state_ == nullptr) return {outside_piece, bytes.size()};
  auto const start = reinterpret_cast<std::uintptr_t>(state_->address);
  auto const at = reinterpret_cast<std::uintptr_t>(bytes.data());
  bool const fits =
      at >= start && at - start <= state_->length && bytes.size() <= state_->length - (at - start);
  return {fits ? at - start : outside_piece, bytes.size()};
}

Result<void> MemoryRegion::check_values(std::size_t value_bytes, std::size_t alignment) const {
  auto const address = state_ != nullptr ? reinterpret_cast<std::uintptr_t>(state_->address) : 0;
  return verbs::check_values("region", size(), address, value_bytes, alignment);
}

std::uint32_t MemoryRegion::local_key() const noexcept {
  return state_ != nullptr ? state_->local_key : 0;
}

ibv_mr* MemoryRegion::native() const noexcept {
  return state_ != nullptr ? state_->registration.get() : nullptr;
}

std::optional<Pages> MemoryRegion::pages() const noexcept {
  if (state_ == nullptr || !state_->storage.is_allocated()) return std::nullopt;
  return state_->storage.pages();
}

std::size_t MemoryRegion::loans() const noexcept {
  return state_ != nullptr ? state_->ledger.loans() : 0;
}

Result<std::span<std::byte const>> MemoryRegion::bytes(std::size_t offset,
                                                       std::size_t length) const& noexcept {
  LEND_TRY(address, verbs::touch(state_, {offset, length}, base::LoanKind::shared));
  return std::span<std::byte const>{address, length};
}

Result<std::span<std::byte>> MemoryRegion::mutable_bytes(std::size_t offset,
                                                         std::size_t length) & noexcept {
  LEND_TRY(address, verbs::touch(state_, {offset, length}, base::LoanKind::exclusive));
  return std::span<std::byte>{address, length};
}

Result<RemoteRegion> MemoryRegion::remote() const noexcept {
  if (state_ == nullptr || state_->exposed_for == RemoteAccess{})
    return Error{
        Errc::unsupported,
        "the region was registered for local access only; make it with "
        "unsafe_allocate_exposed() or unsafe_register_exposed(), or expose it for a while by "
        "unsafe_expose()"};
  return RemoteRegion{reinterpret_cast<std::uintptr_t>(state_->address), state_->length,
                      state_->remote_key, state_->exposed_for};
}

Result<void> MemoryRegion::unsafe_disable_ledger() & noexcept {
  if (state_ == nullptr) return success();
  if (state_->ledger.loans() != 0)
    return Error{Errc::already_borrowed,
                 "the ledger cannot be disabled for a region that is " + hold_of(*state_)};
  state_->ledger.stop_recording();
  return success();
}

[[gnu::cold]] void verbs::destroy_at_last(RegionState* region) noexcept {
  delete region;
}

void MemoryRegion::take_over(void* object, void (*end)(void*) noexcept) noexcept {
  state_->storage.take_over(object, end);
  state_->is_owned = true;
}

void MemoryRegion::destroy(RegionState* state) noexcept {
  if (state == nullptr) return;
  // Left as it is: its loans are the parent's, and a thread that this process lacks may hold its
  // ledger.
  if (state->registration.is_inherited()) return;
  // Asked first: once it is retired, another thread that gives the last loan back deletes it.
  bool const is_owned = state->is_owned;
  auto const length = state->length;
  std::string const hold =
      !is_owned && state->ledger.loans() != 0 ? hold_of(*state) : std::string{"on loan"};
  if (state->ledger.retire()) {
    delete state;
    return;
  }
  // An owned region lives on until end_loan() sees its last loan; a view's bytes are not ours.
  if (is_owned) return;
  stop("a registered view of " + std::to_string(length) + " bytes was destroyed while " + hold +
       "; let the work, its scope or the Exposure end first");
}

}  // namespace lend
