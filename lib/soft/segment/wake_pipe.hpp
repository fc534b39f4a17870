// SPDX-License-Identifier: MIT OR Apache-2.0
// Wakes a process that sleeps in poll(2) or read(2): a pipe of its own, into which peers that know
// its number write single bytes. Any thread.
//
// A pipe and no eventfd, because only a pipe can be opened through /proc/PID/fd. A token carries no
// data, so a hostile peer cannot forge any.
#pragma once

#include <soft/platform/private_lock.hpp>
#include <soft/segment/layout.hpp>

#include <base/unique_fd.hpp>

#include <cstdint>
#include <unordered_map>

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
  /// Adds one, unless there are more than enough. False with errno.
  [[nodiscard]] bool ring() const noexcept;
  /// Publishes its address for peers.
  void publish(SharedWake& where) const noexcept;

  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(own_); }

 private:
  base::UniqueFd end_;
  base::UniqueFd own_;  // both directions, never blocks
  std::uint64_t inode_ = 0;
};

/// The result for a token: `unable` if this process has no descriptor to write it, `gone` if the
/// pipe no longer exists because its process is gone or closed it.
enum class Rung { yes, unable, gone };

/// The senders' side: the pipes of one process, opened when first used or held.
class WakePipes {
 public:
  explicit WakePipes(int pid = 0) noexcept : pid_{pid} {}
  void set_process(int pid) noexcept { pid_ = pid; }

  /// Adds a token, unless there are more than enough. Never blocks, and writes only to the pipe
  /// that was published.
  Rung wake(SharedWake const& where) noexcept;
  /// Opens the pipe and holds it, so that wake() will not be unable, until let_go() was called as
  /// often with `inode`, which is 0 if there is no process to wake. 0 or errno.
  [[nodiscard]] int hold(SharedWake const& where, std::uint64_t& inode) noexcept;
  void let_go(std::uint64_t inode) noexcept;

 private:
  struct Known {
    base::UniqueFd file;
    std::uint32_t holds = 0;
  };
  /// Null with errno.
  [[nodiscard]] Known* find(SharedWake const& where) noexcept;
  [[nodiscard]] Known* remember(std::uint64_t inode, base::UniqueFd file) noexcept;

  static constexpr unsigned lately_max = 16;  // pipes that are not held and stay open
  int pid_;
  PrivateLock lock_;
  std::unordered_map<std::uint64_t, Known> known_;  // by inode
  unsigned next_ = 0;
  std::uint64_t lately_[lately_max] = {};
};

/// Holds all pipes by which the owner of a queue pair is woken.
class HeldWakePipes {
 public:
  HeldWakePipes() = default;
  HeldWakePipes(HeldWakePipes const&) = delete;
  HeldWakePipes& operator=(HeldWakePipes const&) = delete;
  ~HeldWakePipes() { let_go(); }

  /// 0, or errno if this process lacks descriptors or memory; then it holds none.
  [[nodiscard]] int hold(WakePipes&, Segment&, SharedQueuePair const&) noexcept;
  void let_go() noexcept;

 private:
  WakePipes* wake_pipes_ = nullptr;
  std::uint64_t inodes_[3] = {};
};

}  // namespace lend::soft
