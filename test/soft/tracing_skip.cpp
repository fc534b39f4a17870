// SPDX-License-Identifier: MIT OR Apache-2.0
// Before main(): where a process may not trace its child, the program exits 77 and says why.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tracing.hpp"

namespace {

bool may_trace() {
  auto const child = ::fork();
  if (child < 0) return false;
  if (child == 0) ::_exit(lend::test::let_parent_trace() ? 0 : 1);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return false;
  return status == 0;
}

[[maybe_unused]] bool const skipped = [] {
  if (may_trace()) return false;
  std::puts("this host does not let a process trace its child (ptrace)");
  std::fflush(stdout);
  std::_Exit(77);
}();

}  // namespace
