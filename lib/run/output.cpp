// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes that do not wait, by a descriptor whose writes may.
#include <run/output.hpp>

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace lend::run {

void Output::add(std::string_view lines) {
  kept_ += lines;
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
    written_ += written < 0 ? kept_.size() : static_cast<std::size_t>(written);
    if (written_ < kept_.size()) continue;
    kept_.clear();
    written_ = 0;
  }
}

}  // namespace lend::run
