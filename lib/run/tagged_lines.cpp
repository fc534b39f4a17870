// SPDX-License-Identifier: MIT OR Apache-2.0
// Whole lines in one write, so that those of several ranks do not mix.
#include <run/tagged_lines.hpp>

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace lend::run {

namespace {

// A longer line is written in parts.
constexpr std::size_t line_max = 65'536;

/// Output that no process reads any more is dropped.
void write_all(int target, std::string_view bytes) {
  while (!bytes.empty()) {
    auto const written = ::write(target, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {  // as the parent process made it
      pollfd room{target, POLLOUT, 0};
      ::poll(&room, 1, -1);
      continue;
    }
    if (written <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

void TaggedLines::add(std::string_view bytes) {
  std::string out;
  for (auto end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
    out += tag_ + line_;
    out += bytes.substr(0, end + 1);
    line_.clear();
    bytes.remove_prefix(end + 1);
  }
  line_ += bytes;
  write_all(target_, out);
  if (line_.size() > line_max) end();
}

void TaggedLines::end() {
  if (!line_.empty()) write_all(target_, tag_ + line_ + "\n");
  line_.clear();
}

}  // namespace lend::run
