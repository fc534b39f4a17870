// SPDX-License-Identifier: MIT OR Apache-2.0
// What a forked child may do with the verbs objects of its parent: nothing. Any thread.
//
// A child inherits the parent's descriptors, and through them the same objects in the kernel: a
// queue pair that the child destroys is gone for the parent, a completion that it polls is lost to
// the parent. So in a child every post, poll and control call on what the parent opened fails with
// ENODEV, and destroying leaves the kernel's object as it is. The child may open devices of its
// own.
//
// A child of fork(3), which runs the handlers of pthread_atfork(3). One of _Fork(3) or clone(2) is
// not noticed: until it calls execve(2) it may call async-signal-safe functions only, and none of
// lend's is.
// Source: pthread_atfork(3), signal-safety(7); Linux drivers/infiniband/core/uverbs_main.c and
// rdma_core.c, where objects belong to the open file, whichever process holds its descriptor.
//
// What is exported here is for liblend-cm.so, which is of the same build: no program calls it.
#pragma once

#include <lend/base/export.hpp>
#include <verbs/device/provider.hpp>

#include <cstdint>

namespace lend::verbs {

/// Whether forks are noticed, as they are from the start of the process. 0, or the errno of
/// pthread_atfork(3).
[[nodiscard]] LEND_EXPORT int notice_forks() noexcept;

/// Changes with each fork that lies between two processes: what was made under another number is
/// the parent's.
[[nodiscard]] LEND_EXPORT std::uint32_t fork_generation() noexcept;

/// In place of the provider of what the parent opened.
[[nodiscard]] LEND_EXPORT Provider const& inherited_provider() noexcept;

/// Whether the object that holds this was made by a parent of the process that asks.
class Inheritance {
 public:
  [[nodiscard]] bool is_inherited() const noexcept { return made_under_ != fork_generation(); }

 private:
  std::uint32_t made_under_ = fork_generation();
};

/// An open device, whose posts and polls a fork makes fail in the child.
///
/// They go through ibv_context::ops. The handler replaces those pointers in the child's copy, so
/// that neither a post nor a poll has to ask which process it is in.
class ForkedDataPath {
 public:
  explicit ForkedDataPath(ibv_context& context) noexcept;
  ForkedDataPath(ForkedDataPath const&) = delete;
  ForkedDataPath& operator=(ForkedDataPath const&) = delete;
  ~ForkedDataPath();

 private:
  static void refuse_all() noexcept;
  friend int register_fork_handlers() noexcept;

  ibv_context& context_;
  // A ring of all of them.
  ForkedDataPath* next_;
  ForkedDataPath* previous_;
};

}  // namespace lend::verbs
