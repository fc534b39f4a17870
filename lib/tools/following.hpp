// SPDX-License-Identifier: MIT OR Apache-2.0
// Tells the events of recordings while their processes write them. One thread.
#pragma once

#include <lend/base/result.hpp>

#include <tools/recording.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lend::tools {

class Follower {
 public:
  /// Of files, and of directories, which may get their recordings later.
  explicit Follower(std::span<std::string const> paths) : paths_{paths.begin(), paths.end()} {}

  /// One line for each event since the last look, by time.
  /// Errors:  those of read_recording(); a file that was removed is followed no more.
  [[nodiscard]] Result<std::string> look();
  /// Whether the last look was the last one: all processes that record had ended before, or all
  /// files were removed.
  [[nodiscard]] bool is_over() const noexcept { return is_over_; }

 private:
  struct Followed {
    std::string path;
    std::uint64_t told = 0;  // events
  };
  [[nodiscard]] Result<void> find_new();
  [[nodiscard]] Result<void> read_all();
  /// Times are on the clock of the first recording: those before it were removed.
  void keep_first(std::vector<Recording> const& before, std::size_t now_first);

  std::vector<std::string> paths_;
  std::vector<Followed> files_{};        // in the order in which they came
  std::vector<Recording> recordings_{};  // theirs, as they were at the last look
  std::optional<double> first_{};        // when the first event of all was, as Timeline::began
  bool is_over_ = false;
};

/// Whether the process of this recording runs, as far as this host knows.
[[nodiscard]] bool is_running(observe::RecordingHeader const& header);

}  // namespace lend::tools
