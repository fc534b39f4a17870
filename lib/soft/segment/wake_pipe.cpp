// SPDX-License-Identifier: MIT OR Apache-2.0
// Opening pipes of our own and of peers, and dropping tokens. Any thread.
#include <soft/segment/wake_pipe.hpp>

#include <soft/platform/process.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <mutex>
#include <new>
#include <utility>

namespace lend::soft {

using base::UniqueFd;

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
  if (!made.end_) return made;
  struct stat status {};
  if (::fstat(made.end_.get(), &status) != 0) return made;
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

WakePipes::Known* WakePipes::find(SharedWake const& where) noexcept {
  auto const inode = where.inode.get();
  errno = ESRCH;
  if (inode == 0) return nullptr;
  if (auto const found = known_.find(inode); found != known_.end()) return &found->second;
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
  return file ? remember(inode, std::move(file)) : nullptr;
}

WakePipes::Known* WakePipes::remember(std::uint64_t inode, UniqueFd file) noexcept try {
  auto& known = known_[inode];
  known.file = std::move(file);
  auto& place = lately_[next_++ % lately_max];
  if (auto const old = known_.find(place);
      place != inode && old != known_.end() && old->second.holds == 0)
    known_.erase(old);
  place = inode;
  return &known;
} catch (std::bad_alloc const&) {
  errno = ENOMEM;
  return nullptr;
}

Rung WakePipes::wake(SharedWake const& where) noexcept {
  std::lock_guard const guard{lock_};
  auto const* const known = find(where);
  if (known != nullptr) return write_token(known->file.get()) ? Rung::yes : Rung::gone;
  return is_shortage(errno) ? Rung::unable : Rung::gone;
}

int WakePipes::hold(SharedWake const& where, std::uint64_t& inode) noexcept {
  std::lock_guard const guard{lock_};
  auto* const known = find(where);
  inode = known != nullptr ? where.inode.get() : 0;
  if (known == nullptr) return is_shortage(errno) ? errno : 0;
  ++known->holds;
  return 0;
}

void WakePipes::let_go(std::uint64_t inode) noexcept {
  std::lock_guard const guard{lock_};
  auto const found = known_.find(inode);
  if (found != known_.end() && --found->second.holds == 0) known_.erase(found);
}

int HeldWakePipes::hold(WakePipes& wake_pipes, Segment& segment,
                        SharedQueuePair const& target) noexcept {
  let_go();
  wake_pipes_ = &wake_pipes;
  auto const receives = target.completion_queue.get();
  auto const sends = target.send_completion_queue.get();
  if (std::max(receives, sends) >= completion_queues_max) return 0;  // its owner wrote nonsense
  auto const& queues = segment.completion_queues;
  SharedWake const* const all[] = {&queues[receives].wake, &queues[sends].wake,
                                   &segment.header.async};
  for (std::size_t i = 0; i < std::size(all); ++i)
    if (auto const error = wake_pipes.hold(*all[i], inodes_[i]); error != 0) {
      let_go();
      return error;
    }
  return 0;
}

void HeldWakePipes::let_go() noexcept {
  for (auto& inode : inodes_)
    if (auto const held = std::exchange(inode, 0); held != 0) wake_pipes_->let_go(held);
}

}  // namespace lend::soft
