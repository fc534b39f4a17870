// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes that do not wait, by a descriptor whose writes may.
#include <run/output.hpp>

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace lend::run {

namespace {

bool are_same_file(int one, int other) noexcept {
  struct stat first {
  }, second{};
  return ::fstat(one, &first) == 0 && ::fstat(other, &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

}  // namespace

Output::Output(int target, std::shared_ptr<int> open_line) noexcept
    : target_{target}, is_terminal_{::isatty(target) != 0}, open_line_{std::move(open_line)} {
  int const flags = ::fcntl(target, F_GETFL);
  if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) target_ = -1;
}

Outputs open_outputs() {
  auto first = std::make_shared<int>(Output::no_writer);
  auto second = are_same_file(STDOUT_FILENO, STDERR_FILENO)
                    ? first
                    : std::make_shared<int>(Output::no_writer);
  return {Output{STDOUT_FILENO, std::move(first)}, Output{STDERR_FILENO, std::move(second)}};
}

void Output::add(int writer, std::string_view text) {
  if (text.empty() || target_ < 0) return;
  if (*open_line_ != no_writer && *open_line_ != writer) kept_ += '\n';
  kept_ += text;
  *open_line_ = text.back() == '\n' ? no_writer : writer;
  write();
}

/// A pipe that poll(2) says to be writable takes PIPE_BUF bytes at once, a terminal some.
/// Source: pipe(7), "PIPE_BUF"; Linux fs/pipe.c, pipe_poll(): a free page.
void Output::write() {
  while (is_behind()) {
    pollfd room{target_, POLLOUT, 0};
    if (::poll(&room, 1, 0) <= 0) return;
    auto const part = std::min<std::size_t>(kept_.size() - written_, PIPE_BUF);
    auto const written = ::write(target_, kept_.data() + written_, part);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) return;  // another process took the room
    // A reader, or the terminal, that went away is no loss.
    bool const is_gone = errno == EPIPE || errno == ECONNRESET || (is_terminal_ && errno == EIO);
    if (written < 0 && !is_gone) failure_ = errno;
    written_ += written < 0 ? kept_.size() : static_cast<std::size_t>(written);
    if (written_ < kept_.size()) continue;
    kept_.clear();
    written_ = 0;
  }
}

}  // namespace lend::run
