// SPDX-License-Identifier: MIT OR Apache-2.0
// Bytes that a peer may access for a while. One thread at a time; its end asks no peer.
#pragma once

#include <lend/base/result.hpp>
#include <lend/verbs/remote_region.hpp>

#include <utility>

namespace lend {

struct ExposureState;

/// Lets a peer that learns `remote()` access bytes of a region, until this ends.
///
/// Made by MemoryRegion::unsafe_expose(). Once it has ended, the key is dead: whoever uses it still
/// is refused, with WorkStatus::remote_access where the device acknowledges, and its connection
/// breaks. No byte changes any more, but that on SoftiWARP and its like a segment that was being
/// placed at that very moment may land an instant later. Bytes exposed anew have a new key. Who is
/// at the bytes at that moment is waited for: on the soft device a peer that was stopped in the
/// middle of a copy, until it goes on or dies.
///
/// But a key is 32 bits, which come round. An opened soft device gives a dead one to other bytes
/// after 2^18 × (16,384 - n) registrations at the earliest, where at most n of its registrations
/// lived at once: 4.3 · 10^9 of them while n is small, 262,144 where n is the 16,383 that
/// it holds. How soon a card does, its driver decides.
///
/// It is a registration of its own over the same bytes, not a memory window: that works on every
/// device, needs no queue pair to bind it and no room in one, and costs what a registration costs
/// (its pages count against locked memory once more). A region that is destroyed meanwhile stays as
/// it does for a loan; a view cannot, and stops the process.
///
///     LEND_TRY(exposure, memory.unsafe_expose(RemoteAccess::write));
///     tell_the_peer(exposure.remote().encode());
///
/// Source:  ibv_dereg_mr(3); kernel drivers/infiniband/sw: rxe_pool.c, __rxe_cleanup (waits for
///          whoever uses the key); siw_mem.c, siw_mr_drop_mem (does not).
class Exposure {
 public:
  Exposure(Exposure&& other) noexcept : state_{std::exchange(other.state_, nullptr)} {}
  Exposure& operator=(Exposure&& other) noexcept {
    Exposure old{std::move(other)};
    std::swap(state_, old.state_);
    return *this;
  }
  ~Exposure() { static_cast<void>(finish()); }

  /// What the peer needs. Of no bytes once this has ended or been moved from.
  [[nodiscard]] RemoteRegion remote() const noexcept;

  /// Ends it now and says whether the key is dead. Nothing to do the second time.
  /// Errors:  system_failed  the device did not take the key back: the peer may still reach the
  ///          bytes. If the region owns them, they are kept until the process ends.
  [[nodiscard]] Result<void> finish() noexcept;

 private:
  friend class MemoryRegion;
  explicit Exposure(ExposureState* state) noexcept : state_{state} {}

  ExposureState* state_;
};

}  // namespace lend
