// SPDX-License-Identifier: MIT OR Apache-2.0
#include "wake_pipe.hpp"

#include "process.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <mutex>

namespace lend::soft {
namespace {

/// A description of the same pipe that never blocks. It reads too, so that writing never raises
/// SIGPIPE, even when the other process has died. Source: fifo(7), proc(5).
UniqueFd reopen(UniqueFd const& pipe) noexcept {
  char path[64];
  // Of this thread: the main one may have ended, and with it /proc/self/fd.
  std::snprintf(path, sizeof path, "/proc/thread-self/fd/%d", pipe.get());
  return UniqueFd{::open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC)};
}

/// True, too, when the pipe is full: then its owner has tokens to take, and looks everywhere.
bool write_token(int file) noexcept {
  char const token = 1;
  ssize_t written = 0;
  do written = ::write(file, &token, 1);
  while (written < 0 && errno == EINTR);
  return written == 1 || errno == EAGAIN;
}

}  // namespace

WakePipe WakePipe::make() noexcept {
  WakePipe made;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return made;
  made.end_ = UniqueFd{ends[0]};
  UniqueFd const writing{ends[1]};
  struct stat status {};
  if (::fstat(ends[0], &status) != 0) return made;
  made.inode_ = status.st_ino;
  made.own_ = reopen(made.end_);
  return made;
}

bool WakePipe::take() const noexcept {
  char token = 0;
  return ::read(end_.get(), &token, 1) == 1;
}

void WakePipe::take_back() const noexcept {
  char token = 0;
  (void)!::read(own_.get(), &token, 1);
}

bool WakePipe::ring() const noexcept {
  return write_token(own_.get());
}

void WakePipe::publish(SharedWake& where) const noexcept {
  where.fd.set(end_.get());
  where.inode.set(inode_);
}

Wakers::Known* Wakers::find(SharedWake const& where) noexcept {
  auto const inode = where.inode.get();
  if (inode == 0) return nullptr;
  for (auto& known : known_)
    if (known.inode == inode) return &known;
  // Looked at before it is opened: the number may by now be any file's, and opening a terminal or
  // a tape does things.
  auto const named = open_file_of(pid_, where.fd.get(), O_PATH | O_CLOEXEC);
  if (!named) return nullptr;
  struct stat status {};
  if (::fstat(named.get(), &status) != 0 || !S_ISFIFO(status.st_mode) || status.st_ino != inode) {
    errno = ESRCH;
    return nullptr;
  }
  auto file = reopen(named);
  if (!file) return nullptr;
  auto& known = known_[next_++ % known_max];
  known.inode = inode;
  known.file = std::move(file);
  return &known;
}

bool Wakers::wake(SharedWake const& where) noexcept {
  std::lock_guard const guard{lock_};
  auto const* const known = find(where);
  return known != nullptr && write_token(known->file.get());
}

int Wakers::prepare(SharedWake const& where) noexcept {
  std::lock_guard const guard{lock_};
  errno = 0;
  return find(where) != nullptr ? 0 : errno;
}

}  // namespace lend::soft
