// SPDX-License-Identifier: MIT OR Apache-2.0
// memfds, their seals, and how a peer reaches them through /proc.
#include <soft/platform/shared_memory.hpp>

#include <soft/platform/process.hpp>

#include <base/paging.hpp>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace lend::soft {

using base::UniqueFd;

namespace {

// Source: fcntl(2), memfd_create(2). Seals count only when no further one can take their place.
constexpr int size_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

/// Beyond the limit ftruncate(2) fails, but only after SIGXFSZ, which ends a program that expects
/// none. Source: setrlimit(2).
bool set_length(int fd, std::size_t length) noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && length > limit.rlim_cur) {
    errno = EFBIG;
    return false;
  }
  return ::ftruncate(fd, static_cast<off_t>(length)) == 0;
}

}  // namespace

Mapping Mapping::of(int fd, std::size_t length, Pages pages) noexcept {
  Mapping mapping;
  if (fd < 0) {  // map_pages() would map private memory
    errno = EBADF;
    return mapping;
  }
  void* const base = base::map_pages(fd, length, pages);
  if (base == nullptr) return mapping;
  mapping.base_ = static_cast<std::byte*>(base);
  mapping.length_ = length;
  return mapping;
}

UniqueFd make_memory_file(char const* name, std::size_t length, Pages pages) noexcept {
  unsigned const huge = base::is_reserved(pages) ? MFD_HUGETLB | base::size_flag(pages) : 0u;
  UniqueFd file{::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | huge)};
  if (!file) {
    // Source: memfd_create(2); Linux fs/hugetlbfs/inode.c, hugetlb_file_setup().
    if (huge != 0 && (errno == EINVAL || errno == ENODEV || errno == ENOSYS)) errno = EOPNOTSUPP;
    return file;
  }
  if (!set_length(file.get(), length) || ::fcntl(file.get(), F_ADD_SEALS, size_seals) != 0) {
    auto const why = errno;
    file = UniqueFd{};
    errno = why;
  }
  return file;
}

UniqueFd open_memory_file_of(int pid, int fd, std::size_t length) noexcept {
  // O_NONBLOCK: the number may by now belong to a pipe, and opening that must not wait.
  auto file = open_file_of(pid, fd, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (!file) return file;
  struct stat status {};
  auto const seals = ::fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(file.get(), &status) != 0 ||
      static_cast<std::size_t>(status.st_size) < length) {
    file = UniqueFd{};
    errno = EBADF;
  }
  return file;
}

bool drop_pages(int fd, std::size_t offset, std::size_t length) noexcept {
  return ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                     static_cast<off_t>(length)) == 0;
}

void clear_pages(int fd, std::byte* mapped, std::size_t offset, std::size_t length) noexcept {
  // Sandboxes refuse what they do not know.
  if (!drop_pages(fd, offset, length)) std::memset(mapped + offset, 0, length);
}

}  // namespace lend::soft
