// SPDX-License-Identifier: MIT OR Apache-2.0
// A stream of lend-run's own, to which the lines of all ranks go. One thread.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace lend::run {

/// It keeps what its reader does not take yet, so that lend-run never waits in a write.
class Output {
 public:
  /// `open_line` is shared by the outputs that go to the same file.
  Output(int target, std::shared_ptr<int> open_line) noexcept;

  /// The descriptor. It may be another process's, too, so it stays one whose writes wait. -1: no
  /// process can read it, and all is dropped.
  [[nodiscard]] int target() const noexcept { return target_; }
  /// Its reader has not taken all yet. poll(2) says when it takes more.
  [[nodiscard]] bool is_behind() const noexcept { return !kept_.empty(); }
  [[nodiscard]] std::size_t unwritten() const noexcept { return kept_.size() - written_; }
  /// `writer` wrote last, and no line break. No other number means the same writer.
  [[nodiscard]] bool has_open_line_of(int writer) const noexcept { return *open_line_ == writer; }

  /// Begins another line if the open one is another writer's.
  void add(int writer, std::string_view text);
  /// Writes what the reader takes now. What no process reads any more is dropped.
  void write();
  /// Why output was lost, once; 0 if none was. A reader that went away is no loss.
  [[nodiscard]] int take_failure() noexcept { return std::exchange(failure_, 0); }

 private:
  static constexpr int no_writer = -1;
  friend std::array<Output, 2> open_outputs();

  int target_;
  bool is_terminal_;
  std::shared_ptr<int> open_line_;
  int failure_ = 0;
  std::string kept_{};
  std::size_t written_ = 0;  // of kept_
};

using Outputs = std::array<Output, 2>;  // standard output and standard error
[[nodiscard]] Outputs open_outputs();

}  // namespace lend::run
