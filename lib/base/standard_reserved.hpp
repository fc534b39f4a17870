// SPDX-License-Identifier: MIT OR Apache-2.0
// The numbers 0 to 2, kept from files that others open. Of two threads at once, the first that ends
// may leave the other without.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace lend::base {

/// While it lives, what is opened lies above 2, for calls of other libraries whose descriptors
/// cannot be moved. A closed number is taken by /dev/null, and behaves as if closed: it cannot be
/// written, or in the case of 0 read. Leaves errno as it is.
class StandardReserved {
 public:
  StandardReserved() noexcept {
    int const why = errno;
    for (int number = 0; number <= STDERR_FILENO; ++number) {
      if (::fcntl(number, F_GETFD) >= 0) continue;
      int const direction = number == STDIN_FILENO ? O_WRONLY : O_RDONLY;
      int const taken = ::open("/dev/null", direction | O_CLOEXEC);
      if (taken == number) is_taken_[static_cast<std::size_t>(number)] = true;
      if (taken >= 0 && taken != number) ::close(taken);  // another thread was sooner
    }
    errno = why;
  }
  StandardReserved(StandardReserved const&) = delete;
  StandardReserved& operator=(StandardReserved const&) = delete;
  ~StandardReserved() {
    for (int number = 0; number <= STDERR_FILENO; ++number)
      if (is_taken_[static_cast<std::size_t>(number)] && is_null(number)) ::close(number);
  }

 private:
  /// Another thread may have put a file of its own there.
  static bool is_null(int number) noexcept {
    struct stat found {};
    auto const null_device = makedev(1, 3);  // Source: null(4)
    return ::fstat(number, &found) == 0 && S_ISCHR(found.st_mode) && found.st_rdev == null_device;
  }

  std::array<bool, STDERR_FILENO + 1> is_taken_{};
};

}  // namespace lend::base
