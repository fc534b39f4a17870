// SPDX-License-Identifier: MIT OR Apache-2.0
// An actor's own stack, and switching between it and the walk.
//
// ucontext makes a fibre; jumps, which leave the signal mask alone, switch: a system call for each
// switch would be half of all time.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>
#include <memory>

namespace lend::interleave {

class Fibre {
 public:
  /// Ready to run `entry`, which must not return, from its beginning.
  void begin_at(void (*entry)()) {
    if (!stack_) stack_ = std::make_unique_for_overwrite<std::byte[]>(stack_bytes);
    has_begun_ = false;
    ::getcontext(&context_);
    context_.uc_stack.ss_sp = stack_.get();
    context_.uc_stack.ss_size = stack_bytes;
    context_.uc_link = nullptr;
    ::makecontext(&context_, entry, 0);
  }
  /// Runs it until it stops.
  void go_on() {
    if (_setjmp(caller_) != 0) return;
    if (has_begun_) _longjmp(place_, 1);
    has_begun_ = true;
    ::setcontext(&context_);
  }
  /// On the fibre: back to who called go_on().
  void stop() {
    if (_setjmp(place_) == 0) _longjmp(caller_, 1);
  }

 private:
  static constexpr std::size_t stack_bytes = 128 << 10;

  ucontext_t context_;
  jmp_buf place_;
  jmp_buf caller_;
  bool has_begun_ = false;
  std::unique_ptr<std::byte[]> stack_;
};

}  // namespace lend::interleave
