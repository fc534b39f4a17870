// SPDX-License-Identifier: MIT OR Apache-2.0
// Whether another process is there still, and by which of its threads it is reached. Any thread.
//
// A process whose main thread has ended goes on in its others; /proc/PID and process_vm_readv(PID)
// then find neither files nor memory, while those of another thread do.
#pragma once

#include <base/unique_fd.hpp>

#include <cerrno>
#include <cstdint>

namespace lend::soft {

/// Where pids and start times count alike: nobody looks from here at processes of other ones.
struct Namespaces {
  std::uint64_t pid = 0;
  std::uint64_t time = 0;

  bool operator==(Namespaces const&) const = default;
};
/// Of this process. `pid` is 0, with errno, where nobody could look: ENXIO where /proc is that of
/// another pid namespace.
/// Source: namespaces(7), time_namespaces(7), proc(5).
[[nodiscard]] Namespaces own_namespaces() noexcept;

enum class Presence : std::uint8_t {
  gone,     // for ever
  here,     // it, and not another with its number
  unknown,  // nobody could look; errno says why. Never to be taken for gone
};

/// Of the process `pid` that started at `start_time`. Gone as soon as it has no memory any more.
[[nodiscard]] Presence presence_of(int pid, std::uint64_t start_time) noexcept;

/// When process `pid` started, in clock ticks since boot. 0 with errno: ESRCH when there is none,
/// another when nobody could look.
[[nodiscard]] std::uint64_t start_time_of(int pid) noexcept;

/// A thread of process `pid` that has its memory and files: `pid`, unless the main thread ended. 0
/// with errno: ESRCH when there is none, another when nobody could look.
[[nodiscard]] int living_thread_of(int pid) noexcept;

/// Opens what process `pid` has open as `fd`. Empty with errno.
[[nodiscard]] UniqueFd open_file_of(int pid, int fd, int flags) noexcept;

/// Whether a call failed since this process or host has no more to give, which tells nothing of the
/// one asked about.
[[nodiscard]] inline bool is_shortage(int error) noexcept {
  return error == EMFILE || error == ENFILE || error == ENOMEM;
}

}  // namespace lend::soft
