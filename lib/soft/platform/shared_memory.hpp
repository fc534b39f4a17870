// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory that has a descriptor, so that peers can map it. Values with one owner; one thread.
#pragma once

#include <base/unique_fd.hpp>
#include <lend/base/allocation.hpp>

#include <sys/mman.h>

#include <cstddef>
#include <utility>

namespace lend::soft {

/// A mapping with one owner.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept
      : base_{std::exchange(other.base_, nullptr)}, length_{std::exchange(other.length_, 0)} {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(length_, other.length_);
    return *this;
  }
  ~Mapping() {
    if (base_ != nullptr) ::munmap(base_, length_);
  }

  /// The whole of `fd`, shared, readable and writable. Empty with errno, as map_pages().
  [[nodiscard]] static Mapping of(int fd, std::size_t length, Pages pages = Pages::normal) noexcept;

  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] std::size_t length() const noexcept { return length_; }
  [[nodiscard]] explicit operator bool() const noexcept { return base_ != nullptr; }

 private:
  std::byte* base_ = nullptr;
  std::size_t length_ = 0;
};

/// A memfd of `length` bytes that can never shrink, so that a peer's access never faults. No page
/// of it exists until it is touched. `length` is whole `pages`. Empty with errno.
[[nodiscard]] base::UniqueFd make_memory_file(char const* name, std::size_t length,
                                              Pages pages = Pages::normal) noexcept;

/// Opens descriptor `fd` of process `pid`, if that is a memory file of at least `length` bytes that
/// can never shrink. Empty with errno.
[[nodiscard]] base::UniqueFd open_memory_file_of(int pid, int fd, std::size_t length) noexcept;

/// Returns the pages of a range to the kernel, whichever process maps them. They read as zeros
/// afterwards. False: they stay until the file is gone.
bool drop_pages(int fd, std::size_t offset, std::size_t length) noexcept;
/// The same for a range that is used again: its bytes are zeros afterwards in any case. The file is
/// mapped at `mapped`.
void clear_pages(int fd, std::byte* mapped, std::size_t offset, std::size_t length) noexcept;

}  // namespace lend::soft
