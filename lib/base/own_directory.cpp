// SPDX-License-Identifier: MIT OR Apache-2.0
// Checks who may write into a directory.
#include <base/own_directory.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

namespace lend::base {

namespace {

Result<UniqueFd> open_existing(std::string const& path, std::string_view what) {
  std::string const kept{what};
  UniqueFd directory{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  if (!directory && (errno == ELOOP || errno == ENOTDIR))
    return Error{Errc::denied, path + " is a symbolic link, or no directory: " + kept +
                                   " go into a directory of your own"};
  if (!directory) return Error::from_errno("open of " + path + " for " + kept, errno);
  struct stat facts {};
  if (::fstat(directory.get(), &facts) != 0)
    return Error::from_errno("fstat of " + path + " for " + kept, errno);
  if (facts.st_uid != ::geteuid())
    return Error{Errc::denied,
                 path + " is another user's: " + kept + " go into a directory of your own"};
  if ((facts.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return Error{Errc::denied, path +
                                   " can be written by others: `chmod go-w` it, so that no other "
                                   "user changes the " +
                                   kept};
  return directory;
}

}  // namespace

Result<UniqueFd> open_own_directory(std::string const& path, std::string_view what) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return Error::from_errno("mkdir of " + path + " for " + std::string{what}, errno);
  return open_existing(path, what);
}

std::string defect_of_own_directory(std::string const& path, std::string_view what,
                                    bool needs_locks) {
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) == 0) {
    auto const opened = open_existing(path, what);
    if (opened.has_error()) return opened.error().message();
    if (needs_locks && ::flock(opened.value().get(), LOCK_SH | LOCK_NB) != 0 &&
        errno != EWOULDBLOCK)
      return path + " is on a file system without locks, which " + std::string{what} +
             " need (mount option flock of Lustre): take another, such as /dev/shm";
    return ::access(path.c_str(), W_OK) == 0 ? "" : path + " cannot be written";
  }
  auto above = std::filesystem::path{path};
  if (!above.has_filename()) above = above.parent_path();  // behind it is a slash
  above = above.parent_path();
  if (above.empty()) above = ".";
  if (::access(above.c_str(), W_OK | X_OK) == 0) return "";
  return "mkdir of " + path + " for " + std::string{what} +
         " would fail: " + Error::from_errno(above.string(), errno).message();
}

}  // namespace lend::base
