// SPDX-License-Identifier: MIT OR Apache-2.0
// The soft device's file, which there is none of: UCX takes only devices that have one which it may
// open, and then opens none. Any thread, and handlers of signals.
//
// Source: UCX 1.13 src/uct/ib/base/ib_device.c, uct_ib_device_is_accessible(): stat() and access().
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string_view>

namespace {

/// In place of the soft device's file one that any user may open.
char const* file_for(char const* path) noexcept {
  constexpr std::string_view ours = "/dev/infiniband/soft0";
  return path != nullptr && path == ours ? "/dev/null" : path;
}

}  // namespace

// Declared again: in glibc no path is null, for which the kernel answers EFAULT. The functions
// called here are those that others, as fakeroot, may have put before the ones of glibc.
extern "C" {
int access_of(char const* path, int mode) noexcept __asm__("access");
int stat_of(char const* path, struct stat* status) noexcept __asm__("stat");
int xstat_of(int version, char const* path, struct stat* status) noexcept __asm__("__xstat");

int access_of(char const* path, int mode) noexcept {
  return ::faccessat(AT_FDCWD, file_for(path), mode, 0);
}

int stat_of(char const* path, struct stat* status) noexcept {
  return ::fstatat(AT_FDCWD, file_for(path), status, 0);
}

/// stat() of programs that were linked with a glibc before 2.33.
int xstat_of(int, char const* path, struct stat* status) noexcept {
  return stat_of(path, status);
}
}
