// SPDX-License-Identifier: MIT OR Apache-2.0
// A file descriptor with one owner. One thread at a time.
#pragma once

#include <unistd.h>

#include <utility>

namespace lend::base {

/// Closes its descriptor; -1 is none.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) noexcept : fd_{fd} {}
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
