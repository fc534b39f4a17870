// SPDX-License-Identifier: MIT OR Apache-2.0
// Slots: how the contexts of one user on one host get numbers, find each other, and detect dead
// ones.
//
// A slot is a small text file in a rendezvous directory. Its owner holds an OFD lock on the one
// byte whose offset is the slot's generation, so that the kernel drops the lock with the process
// (exit, kill, exec) and it never stands for the next owner. Any thread.
#pragma once

#include <soft/platform/process.hpp>

#include <base/unique_fd.hpp>

#include <cstddef>
#include <cstdint>

namespace lend::soft {

/// One use of a slot, as its file describes it.
struct SlotTenant {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
  int pid = 0;
  std::uint64_t start_time = 0;  // of the process, to detect a recycled pid
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

/// The rendezvous directory, by its absolute path: a device keeps it even if the environment or the
/// working directory changes.
class RendezvousDirectory {
 public:
  /// The directory of LEND_SOFT_DIRECTORY, or the default. 0 or errno, with reason.
  [[nodiscard]] int choose() noexcept;
  /// Its device and inode; creates it if missing. 0 or errno, with reason.
  [[nodiscard]] int identify(std::uint64_t& device, std::uint64_t& inode) const noexcept;
  /// Shares the names of waiting threads with the processes that meet there. Waits learn less
  /// where it has no room for them.
  void share_waiter_names() const noexcept;
  [[nodiscard]] char const* path() const noexcept { return path_; }

  // Less than a path may have: a reason must hold it together with the remedy.
  static constexpr std::size_t length_max = 239;

 private:
  char path_[length_max + 1] = "";
};

/// The reason if own_namespaces() failed, with its errno.
int cannot_tell_namespaces() noexcept;

/// How many nanoseconds a claim waits for others. Each takes well below a millisecond, however many
/// slots there are.
inline constexpr std::uint64_t claim_patience = 60'000'000'000;
/// The same when the slot is given back.
inline constexpr std::uint64_t return_patience = 2'000'000'000;

/// A slot of this process. Destroying it removes the file, unless another process keeps the lock of
/// the claims for return_patience: then it leaves a stale file, which a later claim takes.
class SlotClaim {
 public:
  SlotClaim() = default;
  SlotClaim(SlotClaim&&) = default;
  SlotClaim& operator=(SlotClaim&&) = delete;
  ~SlotClaim();

  /// Takes a free slot: a stale one if some checks find it, otherwise the lowest without a file. 0
  /// or errno, with reason.
  [[nodiscard]] int take(RendezvousDirectory const&, int segment_fd,
                         std::uint64_t patience = claim_patience) noexcept;

  [[nodiscard]] RendezvousDirectory const& directory() const noexcept { return directory_; }
  [[nodiscard]] SlotTenant const& tenant() const noexcept { return tenant_; }
  /// False if the file was removed from outside.
  [[nodiscard]] bool is_listed() const noexcept;

 private:
  /// Writes this process as the owner into the locked file. 0 or errno.
  [[nodiscard]] int move_in(base::UniqueFd file, SlotTenant const& before, int segment_fd) noexcept;

  RendezvousDirectory directory_;
  base::UniqueFd file_;
  SlotTenant tenant_;
};

/// Reads the described owner of `slot`; `file` stays open for lock_is_held(). 0 or errno.
[[nodiscard]] int read_slot(RendezvousDirectory const&, std::uint32_t slot, SlotTenant& tenant,
                            base::UniqueFd& file) noexcept;
/// Whether the owner still holds its lock, checked through another descriptor of the file.
[[nodiscard]] bool lock_is_held(int file, std::uint32_t generation) noexcept;
/// Gone once the owner released its slot, or its process ended, even while a forked child keeps the
/// lock. Unknown with errno: EXDEV if it has other namespaces, where only the lock is known.
[[nodiscard]] Presence presence_of(SlotTenant const& tenant, int file) noexcept;

}  // namespace lend::soft
