// SPDX-License-Identifier: MIT OR Apache-2.0
// Bytes that a peer may access until the exposure ends. One thread at a time.
#pragma once

#include <lend/base/byte_range.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/remote_region.hpp>

#include <utility>

struct ibv_mr;

namespace lend {

class Exposure;

namespace verbs {
struct ExposureState;
struct RegionState;
[[nodiscard]] Result<Exposure> expose(RegionState& region, ByteRange range, RemoteAccess access);
}  // namespace verbs

/// Lets a peer that knows `remote()` access bytes of a region, until the exposure ends.
///
/// Made by MemoryRegion::unsafe_expose(). After its end the key is dead: the device refuses a peer
/// that uses it, with WorkStatus::remote_access if the device acknowledges, and the peer's
/// connection breaks. No byte changes any more, except that on iWARP a segment that the device was
/// placing may land an instant later. Ending waits for accesses in progress; on the soft device for
/// a peer that is stopped in the middle of a copy at most 2 s. Then it fails, and the bytes stay
/// exposed for good. Bytes that are exposed again have a new key.
///
/// A dead key is not reused soon. The soft device reuses it after 2^18 × (16,384 - n) registrations
/// at the earliest, at most n of which lived at once: 4.3 · 10^9 for small n, 262,144 for its limit
/// of 16,383. On a card the driver decides.
///
/// An exposure is a second registration of the same bytes, not a memory window: it works on every
/// device, needs no queue pair, and costs what a registration costs (its pages count against locked
/// memory once more). If its region is destroyed, owned bytes live on as for a loan; a view stops
/// the process.
///
///     LEND_TRY(exposure, memory.unsafe_expose(RemoteAccess::write));
///     tell_the_peer(exposure.remote().encode());
///
/// Source:  ibv_dereg_mr(3); kernel drivers/infiniband/sw: rxe_pool.c, __rxe_cleanup (waits for the
///          users of the key); siw_mem.c, siw_mr_drop_mem (does not).
class LEND_EXPORT Exposure {
 public:
  Exposure(Exposure&& other) noexcept : state_{std::exchange(other.state_, nullptr)} {}
  Exposure& operator=(Exposure&& other) noexcept {
    Exposure old{std::move(other)};
    (std::swap)(state_, old.state_);
    return *this;
  }
  ~Exposure() { static_cast<void>(finish()); }

  /// What the peer needs. Zero bytes after the end or a move.
  [[nodiscard]] RemoteRegion remote() const& noexcept;
  RemoteRegion remote() const&& = delete;  // a temporary's key is invalid when the peer has it

  /// Ends the exposure now. A second call does nothing.
  /// Errors:  system_failed  the device did not invalidate the key: the peer may still access the
  ///                         bytes. If the region owns them, they are kept until the process ends;
  ///                         a view that a stopped peer may be writing to stays exposed.
  ///                         Or this is a forked child: the exposure is its parent's and continues.
  [[nodiscard]] Result<void> finish() noexcept;

  /// Its own registration; null after the end or a move.
  [[nodiscard]] ibv_mr* native() const noexcept;

 private:
  friend Result<Exposure> verbs::expose(verbs::RegionState&, ByteRange, RemoteAccess);
  explicit Exposure(verbs::ExposureState* state) noexcept : state_{state} {}

  verbs::ExposureState* state_;
};

}  // namespace lend
