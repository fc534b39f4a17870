// SPDX-License-Identifier: MIT OR Apache-2.0
// Walking a child on, instruction by instruction. The thread that forked it. Source: ptrace(2).
#pragma once

#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "support/catch.hpp"

namespace lend::test {

/// In the child: from now on its parent walks it, from the next breakpoint() on.
[[nodiscard]] inline bool let_parent_trace() {
  return ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0;
}
inline void breakpoint() {
  ::raise(SIGTRAP);
}

/// Waits for the child's next stop. False when it has ended.
inline bool stops(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, WUNTRACED) < 0)
    if (errno != EINTR) return false;
  if (WIFSTOPPED(status)) return true;
  FAIL("the child ended by itself: " << (WIFEXITED(status) ? WEXITSTATUS(status) : -1));
  return false;
}
/// One step: PTRACE_SINGLESTEP, or PTRACE_SYSCALL, which stops at entry and at exit.
template <class How>
bool step(pid_t child, How how) {
  return ::ptrace(how, child, nullptr, nullptr) == 0 && stops(child);
}

}  // namespace lend::test
