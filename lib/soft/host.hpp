// SPDX-License-Identifier: MIT OR Apache-2.0
// What this host and process allow. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace lend::soft {

class RendezvousDirectory;

/// A number that two contexts share exactly when they can reach each other: same boot of the same
/// host, same user, same pid and time namespace, same rendezvous directory. 0 or errno, with
/// reason.
[[nodiscard]] int reachability_guid(RendezvousDirectory const&, std::uint64_t& guid) noexcept;

/// Whether peers may read and write this process's private memory (cross-memory attach), asked of
/// the kernel once in each process, a forked child too; and why not.
struct CrossMemory {
  bool possible = false;
  char const* obstacle = "";
};
[[nodiscard]] CrossMemory cross_memory() noexcept;

/// A number that only this process has; a forked child, however made, reads 0 until it asks.
/// 0: no memory for it.
[[nodiscard]] std::uint64_t process_mark() noexcept;
/// Where the mark is kept, for a check that costs one load.
[[nodiscard]] std::atomic<std::uint64_t> const* process_mark_address() noexcept;

}  // namespace lend::soft
