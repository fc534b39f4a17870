// SPDX-License-Identifier: MIT OR Apache-2.0
// Waking a process that sleeps in poll(2) or read(2): a pipe of its own, into which those who know
// its number drop single bytes. Any thread.
//
// A pipe and no eventfd, since only a pipe can be opened through /proc/PID/fd. A token carries
// nothing, so that nothing in it can be a lie.
#pragma once

#include "layout.hpp"
#include "private_lock.hpp"

#include <base/unique_fd.hpp>

#include <cstdint>

namespace lend::soft {

/// The sleeper's end.
class WakePipe {
 public:
  /// Empty with errno.
  [[nodiscard]] static WakePipe make() noexcept;

  /// Becomes readable with each token. It blocks unless the program sets O_NONBLOCK.
  [[nodiscard]] int fd() const noexcept { return end_.get(); }
  /// Waits for a token and takes it, as fd()'s O_NONBLOCK says. False with errno.
  [[nodiscard]] bool take() const noexcept;
  /// Takes a token if there is one.
  void take_back() const noexcept;
  /// Adds one, or leaves it when there are more than enough. False with errno.
  [[nodiscard]] bool ring() const noexcept;
  /// Tells peers where it is.
  void publish(SharedWake& where) const noexcept;

  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(own_); }

 private:
  UniqueFd end_;
  UniqueFd own_;  // both directions, never blocks
  std::uint64_t inode_ = 0;
};

/// The other side: the pipes of one process, opened when first rung.
class Wakers {
 public:
  explicit Wakers(int pid = 0) noexcept : pid_{pid} {}
  void set_process(int pid) noexcept { pid_ = pid; }

  /// Adds a token, or leaves it when there are more than enough. Never blocks, and writes to
  /// nothing but the very pipe that was published. False when the process is gone or descriptors
  /// ran out.
  bool wake(SharedWake const& where) noexcept;
  /// Opens the pipe ahead of time. 0 or errno.
  [[nodiscard]] int prepare(SharedWake const& where) noexcept;

 private:
  struct Known {
    std::uint64_t inode = 0;
    UniqueFd file;
  };
  [[nodiscard]] Known* find(SharedWake const& where) noexcept;

  static constexpr unsigned known_max = 16;  // channels per process that stay open
  int pid_;
  PrivateLock lock_;
  unsigned next_ = 0;
  Known known_[known_max];
};

}  // namespace lend::soft
