// SPDX-License-Identifier: MIT OR Apache-2.0
// Exposing bytes for a while, by a registration of their own. One thread at a time for each.
#include <lend/verbs/exposure.hpp>
#include <lend/verbs/memory_region.hpp>
#include <verbs/device/verb_error.hpp>
#include <verbs/memory/loan_row.hpp>

#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>

namespace lend {

struct verbs::ExposureState {
  verbs::RegionState* region;
  verbs::Registration registration;
  RemoteRegion remote;
  /// Empty: it keeps the region and conflicts with no loan. The ledger cannot see the peer.
  base::Loan loan{};
  /// In the list below.
  ExposureState* next = nullptr;
};

using verbs::ExposureState;

namespace {

// Exposures that a peer may be in the middle of using: their regions never end.
constinit std::atomic<ExposureState*> endless{nullptr};

void keep_for_ever(ExposureState* state) noexcept {
  // Relaxed: no thread reads the list; it is for leak checkers.
  state->next = endless.exchange(state, std::memory_order_relaxed);
}

}  // namespace

Result<Exposure> verbs::expose(RegionState& region, ByteRange range, RemoteAccess access) {
  std::byte* const address = region.address + range.offset;
  LEND_TRY(registration, register_bytes(*region.domain, address, range.length, access));
  RemoteRegion const remote{reinterpret_cast<std::uintptr_t>(address), range.length,
                            registration.get()->rkey, access};
  std::unique_ptr<ExposureState> made{new ExposureState{&region, std::move(registration), remote}};
  LEND_TRYV(region.ledger.lend(made->loan, {range.offset, 0}, base::LoanKind::shared,
                               Operation::write, {}));
  // Relaxed: words only.
  region.exposures.fetch_add(1, std::memory_order_relaxed);
  return Exposure{made.release()};
}

Result<Exposure> MemoryRegion::unsafe_expose(std::size_t offset, std::size_t length,
                                             RemoteAccess access) & {
  ByteRange const range{offset, length};
  if (state_ == nullptr || !state_->contains(range))
    return verbs::element_error(state_, range, 0, 1);
  if (length == 0) return Error{Errc::invalid_argument, "no bytes to expose: expose 1 or more"};
  return verbs::expose(*state_, range, access);
}

Result<Exposure> MemoryRegion::unsafe_expose(RemoteAccess access) & {
  return unsafe_expose(0, size(), access);
}

RemoteRegion Exposure::remote() const& noexcept {
  return state_ != nullptr ? state_->remote : RemoteRegion{};
}

ibv_mr* Exposure::native() const noexcept {
  return state_ != nullptr ? state_->registration.get() : nullptr;
}

Result<void> Exposure::finish() noexcept {
  std::unique_ptr<ExposureState> state{std::exchange(state_, nullptr)};
  if (!state) return success();
  verbs::RegionState* const region = state->region;
  verbs::Provider const& provider = state->registration.provider();
  char const* const call = "ibv_dereg_mr of exposed bytes";
  if (state->registration.is_inherited()) {
    static_cast<void>(state.release());  // as the region, see MemoryRegion::destroy()
    return verbs::verb_error(Errc::system_failed, provider, call, ENODEV);
  }
  Result<void> result = success();
  if (int const failure = state->registration.try_destroy(); failure != 0) {
    result = verbs::verb_error(Errc::system_failed, provider, call, verbs::errno_of(failure),
                               "The peer may still access them; end its connection.");
    if (verbs::errno_of(failure) == EBUSY) return keep_for_ever(state.release()), result;
    // The device may still write there. A leak is better than its writes in other memory.
    static std::mutex one_at_a_time;  // another thread may end another exposure of this region
    std::lock_guard const guard{one_at_a_time};
    region->storage.keep_for_ever();
  }
  // Relaxed: words only.
  region->exposures.fetch_sub(1, std::memory_order_relaxed);
  verbs::end_loan(state->loan, region);
  return result;
}

}  // namespace lend
