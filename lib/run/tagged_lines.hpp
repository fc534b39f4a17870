// SPDX-License-Identifier: MIT OR Apache-2.0
// One stream of a rank's output, each line with a tag. One thread.
#pragma once

#include <run/output.hpp>

#include <lend/base/deadline.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace lend::run {

/// Passes on whole lines at once, so that those of several ranks do not mix, and what has no line
/// break a little later: a prompt, a bar that is drawn again after a carriage return.
class TaggedLines {
 public:
  /// No other stream has this `writer`.
  TaggedLines(Output& output, std::string tag, int writer) noexcept
      : output_{&output}, tag_{std::move(tag)}, writer_{writer} {}

  [[nodiscard]] Output const& output() const noexcept { return *output_; }
  /// Passes on the lines that are complete now.
  void add(std::string_view bytes);
  /// When show_part() has something to pass on.
  [[nodiscard]] Deadline shows_at() const noexcept;
  /// Passes on a part of a line whose time has come, if nothing more of it has come.
  void show_part();
  /// Passes on what is left, and ends that line.
  void end();

 private:
  enum class At { start, returned, inside };  // of a line
  void show(std::string_view text);

  Output* output_;
  std::string tag_;
  int writer_;
  At at_ = At::start;
  std::string line_{};  // what has come of it and was not passed on
  Deadline shows_at_ = Deadline::never();
  std::size_t since_part_ = 0;  // bytes that have come since a part was passed on
};

}  // namespace lend::run
