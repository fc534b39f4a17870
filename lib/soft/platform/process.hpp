// SPDX-License-Identifier: MIT OR Apache-2.0
// Whether another process is alive, by which of its threads it is reached, and what keeps this one
// from it. Any thread.
//
// A process whose main thread has ended continues in its others; /proc/PID and
// process_vm_readv(PID) then find neither files nor memory, while those of another thread do.
#pragma once

#include <base/unique_fd.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace lend::soft {

/// The namespaces in which pids and start times are comparable.
struct Namespaces {
  std::uint64_t pid = 0;
  std::uint64_t time = 0;

  bool operator==(Namespaces const&) const = default;
};
/// Those of this process. `pid` is 0, with errno, if they cannot be determined: ENXIO if /proc
/// belongs to another pid namespace.
/// Source: namespaces(7), time_namespaces(7), proc(5).
[[nodiscard]] Namespaces own_namespaces() noexcept;

enum class Presence : std::uint8_t {
  gone,     // for good
  here,     // this process, not another with its number
  unknown,  // it could not be checked; errno says why. Never treat it as gone
};

/// The state of process `pid` that started at `start_time`. It is gone once it has no memory.
[[nodiscard]] Presence presence_of(int pid, std::uint64_t start_time) noexcept;

/// When process `pid` started, in clock ticks since boot. 0 with errno: ESRCH if there is none,
/// another if it could not be checked.
[[nodiscard]] std::uint64_t start_time_of(int pid) noexcept;

/// A thread of process `pid` that has its memory and files: `pid`, unless the main thread ended. 0
/// with errno: ESRCH if there is none, another if it could not be checked.
[[nodiscard]] int living_thread_of(int pid) noexcept;

/// Opens the file that process `pid` has open as `fd`. Empty with errno.
[[nodiscard]] base::UniqueFd open_file_of(int pid, int fd, int flags) noexcept;

/// Writes to `text` what keeps this process from the files and memory of process `pid`, as a clause
/// about it. Source: kernel kernel/ptrace.c, __ptrace_may_access(), and security/commoncap.c,
/// cap_ptrace_access_check().
void tell_obstacle(int pid, char* text, std::size_t size) noexcept;

/// Whether a call failed because this process or host lacks resources, which says nothing about the
/// process in question.
[[nodiscard]] inline bool is_shortage(int error) noexcept {
  return error == EMFILE || error == ENFILE || error == ENOMEM;
}

}  // namespace lend::soft
