// SPDX-License-Identifier: MIT OR Apache-2.0
// How text looks on a terminal: its width, and colour. Any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lend::command {

/// How a line is meant. On a terminal it has a colour.
enum class Tone : std::uint8_t { plain, strong, good, warning, bad };

/// How the standard output shows text.
struct Look {
  std::size_t columns = 80;
  bool colour = false;
};
/// With colour where it is a terminal that is not "dumb", unless NO_COLOR is set and not empty.
/// Source: https://no-color.org
[[nodiscard]] Look look_of_output() noexcept;
/// `text` in the colour of `tone`, or as it is.
[[nodiscard]] std::string toned(Look look, Tone tone, std::string_view text);

/// Of the standard output; where it is none, COLUMNS, or 80. At least 40, for words beside margins.
[[nodiscard]] std::size_t columns_of_terminal() noexcept;

/// `text` behind `head`, in lines of at most `columns` characters that are broken at spaces; those
/// behind the first begin with `indent` spaces. A word that is longer than a line is not broken.
/// Shape:   `head` may have line breaks. The result ends with one.
[[nodiscard]] std::string wrapped(std::string_view head, std::string_view text, std::size_t indent,
                                  std::size_t columns);

/// How far long work is: from its third second on a line of the standard error, where that is a
/// terminal, which its end removes. Nothing else writes there meanwhile. One thread.
class Progress {
 public:
  explicit Progress(int fd = 2, std::chrono::nanoseconds patience = std::chrono::seconds{2});
  Progress(Progress const&) = delete;
  Progress& operator=(Progress const&) = delete;
  ~Progress() { clear(); }

  void show(std::string_view what);
  /// Before something else is written there.
  void clear() noexcept;

 private:
  int fd_;
  std::chrono::steady_clock::time_point shows_at_;
  bool is_terminal_, has_shown_ = false;
};

}  // namespace lend::command
