// SPDX-License-Identifier: MIT OR Apache-2.0
// A file descriptor with one owner. One thread at a time.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace lend::base {

/// The same file by a number above 2: programs that have closed 0 to 2 still print there. Takes
/// `fd`. -1 with errno if there is no other number, or if `fd` is negative.
[[nodiscard]] inline int above_standard(int fd) noexcept {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  int const moved = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  int const why = errno;
  ::close(fd);
  errno = why;
  return moved;
}

/// Closes its descriptor, which lies above 2; -1 is none.
class UniqueFd {
 public:
  UniqueFd() = default;
  /// Takes `fd`, which may get another number. Empty with errno as above_standard().
  explicit UniqueFd(int fd) noexcept : fd_{above_standard(fd)} {}
  UniqueFd(UniqueFd&& other) noexcept : fd_{std::exchange(other.fd_, -1)} {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    UniqueFd old{std::exchange(fd_, std::exchange(other.fd_, -1))};
    return *this;
  }
  ~UniqueFd() {
    if (fd_ >= 0) ::close(fd_);  // Linux frees the descriptor even when close reports an error.
  }

  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
  [[nodiscard]] explicit operator bool() const noexcept { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

}  // namespace lend::base
