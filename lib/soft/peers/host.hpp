// SPDX-License-Identifier: MIT OR Apache-2.0
// What this host and process allow. Any thread.
#pragma once

#include <lend/base/export.hpp>

#include <atomic>
#include <cstdint>

namespace lend::soft {

class RendezvousDirectory;

/// A number that two contexts share if and only if they can reach each other: same boot of the same
/// host, same user, same pid and time namespace, same rendezvous directory. 0 or errno, with
/// reason.
[[nodiscard]] int reachability_guid(RendezvousDirectory const&, std::uint64_t& guid) noexcept;

/// What this process may do by cross-memory attach, and whether peers may attach to it; determined
/// once per process, also in a forked child.
struct CrossMemory {
  bool reads = false;         // it may read private memory of peers
  bool writes = false;        // it may write it
  bool is_open = false;       // peers may reach its own, as far as they may do that at all
  char const* obstacle = "";  // the first, unless all holds

  [[nodiscard]] bool possible() const noexcept { return reads && writes && is_open; }
  /// Why a copy between this process and a peer is impossible.
  [[nodiscard]] char const* reason() const noexcept {
    return *obstacle != '\0' ? obstacle : "the kernel or a sandbox refuses the peer's memory";
  }
};
[[nodiscard]] LEND_EXPORT CrossMemory cross_memory() noexcept;

/// A number that only this process has; a forked child, however it was made, reads 0 until its
/// first call. 0: no memory for it.
[[nodiscard]] std::uint64_t process_mark() noexcept;
/// The address of the number, for a check that costs one load.
[[nodiscard]] std::atomic<std::uint64_t> const* process_mark_address() noexcept;

}  // namespace lend::soft
