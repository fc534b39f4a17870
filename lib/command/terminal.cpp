// SPDX-License-Identifier: MIT OR Apache-2.0
// Width and wrapping.
#include <base/environment.hpp>
#include <command/terminal.hpp>

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <utility>

namespace lend::command {

namespace {

/// Characters of UTF-8: bytes that continue none.
std::size_t width_of(std::string_view text) noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }));
}

}  // namespace

std::size_t columns_of_terminal() noexcept {
  std::size_t columns = 80;
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col != 0) {
    columns = size.ws_col;
  } else {
    auto const said = base::variable("COLUMNS").text;
    std::from_chars(said.data(), said.data() + said.size(), columns);
  }
  return std::max<std::size_t>(columns, 40);
}

Look look_of_output() noexcept {
  bool const may_colour = ::isatty(STDOUT_FILENO) == 1 && base::variable("NO_COLOR").text.empty() &&
                          base::variable("TERM").text != "dumb";
  return {columns_of_terminal(), may_colour};
}

std::string toned(Look look, Tone tone, std::string_view text) {
  // Source: ECMA-48, select graphic rendition.
  constexpr auto codes = std::to_array<std::string_view>({"", "1", "32", "33", "31"});
  auto const code = codes[static_cast<std::size_t>(tone)];
  if (!look.colour || code.empty()) return std::string{text};
  return "\x1b[" + std::string{code} + 'm' + std::string{text} + "\x1b[0m";
}

std::string wrapped(std::string_view head, std::string_view text, std::size_t indent,
                    std::size_t columns) {
  std::string all{head};
  auto used = width_of(head.substr(head.rfind('\n') + 1));
  bool at_begin = true;  // of a line, behind what it begins with
  while (!text.empty()) {
    auto const end = std::min(text.find(' '), text.size());
    auto const word = text.substr(0, end);
    auto const width = width_of(word);
    if (!at_begin && used + 1 + width > columns) {
      (all += '\n').append(indent, ' ');
      used = indent;
      at_begin = true;
    }
    if (!at_begin) all += ' ', ++used;
    all += word;
    used += width;
    at_begin = false;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return all += '\n';
}

Progress::Progress(int fd, std::chrono::nanoseconds patience)
    : fd_{fd},
      shows_at_{std::chrono::steady_clock::now() + patience},
      is_terminal_{::isatty(fd) == 1} {}

void Progress::show(std::string_view what) {
  if (!is_terminal_ || std::chrono::steady_clock::now() < shows_at_) return;
  has_shown_ = true;
  // Source: ECMA-48, erase in line.
  ::dprintf(fd_, "\r\x1b[K%.*s", static_cast<int>(what.size()), what.data());
}

void Progress::clear() noexcept {
  if (std::exchange(has_shown_, false)) ::dprintf(fd_, "\r\x1b[K");
}

}  // namespace lend::command
