// SPDX-License-Identifier: MIT OR Apache-2.0
// What this host and process allow. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace lend::soft {

class RendezvousDirectory;

/// A number that two contexts share if and only if they can reach each other: same boot of the same
/// host, same user, same pid and time namespace, same rendezvous directory. 0 or errno, with
/// reason.
[[nodiscard]] int reachability_guid(RendezvousDirectory const&, std::uint64_t& guid) noexcept;

/// Whether peers may read and write this process's private memory (cross-memory attach), and why
/// not; determined once per process, also in a forked child.
struct CrossMemory {
  bool possible = false;
  char const* obstacle = "";
};
[[nodiscard]] CrossMemory cross_memory() noexcept;

/// A number that only this process has; a forked child, however it was made, reads 0 until its
/// first call. 0: no memory for it.
[[nodiscard]] std::uint64_t process_mark() noexcept;
/// The address of the number, for a check that costs one load.
[[nodiscard]] std::atomic<std::uint64_t> const* process_mark_address() noexcept;

}  // namespace lend::soft
