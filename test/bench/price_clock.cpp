// SPDX-License-Identifier: MIT OR Apache-2.0
// A kernel that trusts the CPU's counter: else lend reads the clock by a call, which takes some 40
// instructions more than a band has, on machines whose kernel does not.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <string_view>

// Instead of libc's, for liblend.so, too.
// NOLINTNEXTLINE(cert-dcl50-cpp): as open(2) is declared
extern "C" int open(char const* path, int flags, ...) {
  if (std::string_view{path}.ends_with("/available_clocksource")) {
    int const file = ::memfd_create("available_clocksource", MFD_CLOEXEC);
    return ::pwrite(file, "tsc\n", 4, 0) == 4 ? file : -1;
  }
  va_list more;
  va_start(more, flags);
  auto const mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : mode_t{};
  va_end(more);
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
