// SPDX-License-Identifier: MIT OR Apache-2.0
// Slots: how the contexts of one user on one host get numbers, find each other, and know the dead.
//
// A slot is a small text file in a rendezvous directory. Its owner holds an OFD lock on the one
// byte whose offset is the slot's generation, so that the lock falls with the process (exit, kill,
// exec) and never vouches for the next tenant. Any thread.
#pragma once

#include "process.hpp"

#include <base/unique_fd.hpp>

#include <cstddef>
#include <cstdint>

namespace lend::soft {

/// One tenancy of a slot, as its file tells it.
struct SlotTenant {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
  int pid = 0;
  std::uint64_t start_time = 0;  // of the process, so that a recycled pid is told apart
  int segment_fd = -1;           // in that process
  Namespaces namespaces{};       // of pid and start_time

  [[nodiscard]] std::uint32_t instance() const noexcept { return generation << 12 | slot; }
};

[[nodiscard]] constexpr std::uint32_t slot_of_instance(std::uint32_t instance) noexcept {
  return instance & 0xfff;
}
[[nodiscard]] constexpr std::uint32_t generation_of_instance(std::uint32_t instance) noexcept {
  return instance >> 12;
}

/// The rendezvous directory, by its absolute path: where one device looked first it looks always,
/// whatever becomes of the environment and the working directory.
class RendezvousDirectory {
 public:
  /// What LEND_SOFT_DIRECTORY names now, or that of none. 0 or errno, with reason.
  [[nodiscard]] int choose() noexcept;
  /// Its device and inode; it is made when missing. 0 or errno, with reason.
  [[nodiscard]] int identify(std::uint64_t& device, std::uint64_t& inode) const noexcept;
  [[nodiscard]] char const* path() const noexcept { return path_; }

  // Less than a path may have: a reason holds it, and what is to be done.
  static constexpr std::size_t length_max = 239;

 private:
  char path_[length_max + 1] = "";
};

/// What to say where own_namespaces() could not tell; errno is from there.
int cannot_tell_namespaces() noexcept;

/// How many nanoseconds a claim waits for others. Each takes well below a millisecond, however many
/// there are.
inline constexpr std::uint64_t claim_patience = 60'000'000'000;

/// A slot of ours. Destroying it removes the file.
class SlotClaim {
 public:
  SlotClaim() = default;
  SlotClaim(SlotClaim&&) = default;
  SlotClaim& operator=(SlotClaim&&) = delete;
  ~SlotClaim();

  /// Takes a slot that is known to be nobody's: a stale one if some looks find it, else the lowest
  /// without a file. 0 or errno, with reason.
  [[nodiscard]] int take(RendezvousDirectory const&, int segment_fd,
                         std::uint64_t patience = claim_patience) noexcept;

  [[nodiscard]] RendezvousDirectory const& directory() const noexcept { return directory_; }
  [[nodiscard]] SlotTenant const& tenant() const noexcept { return tenant_; }
  /// False when somebody removed our file by hand.
  [[nodiscard]] bool is_listed() const noexcept;

 private:
  /// Writes into the file, which is locked, that the slot is ours. 0 or errno.
  [[nodiscard]] int move_in(UniqueFd file, SlotTenant const& before, int segment_fd) noexcept;

  RendezvousDirectory directory_;
  UniqueFd file_;
  SlotTenant tenant_;
};

/// Reads who is said to hold `slot`; `file` stays open for lock_is_held(). 0 or errno.
[[nodiscard]] int read_slot(RendezvousDirectory const&, std::uint32_t slot, SlotTenant& tenant,
                            UniqueFd& file) noexcept;
/// Whether the tenant still holds its lock, asked through any other descriptor of the file.
[[nodiscard]] bool lock_is_held(int file, std::uint32_t generation) noexcept;
/// Gone once the tenant let go of its slot, or its process ended, even while a forked child keeps
/// the lock. Unknown with errno: EXDEV where it has other namespaces, of which only the lock tells.
[[nodiscard]] Presence presence_of(SlotTenant const& tenant, int file) noexcept;

}  // namespace lend::soft
