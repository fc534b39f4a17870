// SPDX-License-Identifier: MIT OR Apache-2.0
// The output of one rank, each line with a tag. One thread.
#pragma once

#include <string>
#include <string_view>

namespace lend::run {

class TaggedLines {
 public:
  /// To the descriptor `target`.
  TaggedLines(int target, std::string tag) noexcept : target_{target}, tag_{std::move(tag)} {}

  /// Writes the lines that are complete now.
  void add(std::string_view bytes);
  /// Writes what is left, and ends that line.
  void end();

 private:
  int target_;
  std::string tag_;
  std::string line_{};  // what has come of it
};

}  // namespace lend::run
