// SPDX-License-Identifier: MIT OR Apache-2.0
// The output of one rank, each line with a tag. One thread.
#pragma once

#include <run/output.hpp>

#include <string>
#include <string_view>
#include <utility>

namespace lend::run {

class TaggedLines {
 public:
  TaggedLines(Output& output, std::string tag) noexcept : output_{&output}, tag_{std::move(tag)} {}

  [[nodiscard]] Output const& output() const noexcept { return *output_; }
  /// Passes on the lines that are complete now.
  void add(std::string_view bytes);
  /// Passes on what is left, and ends that line.
  void end();

 private:
  Output* output_;
  std::string tag_;
  std::string line_{};  // what has come of it
};

}  // namespace lend::run
