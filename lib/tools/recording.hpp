// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads recordings, which may be of a process that still runs, or no recordings at all. Values.
#pragma once

#include <lend/base/result.hpp>

#include <observe/recording_format.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lend::tools {

/// What one file has. All of it is in its range, and its strings end.
struct Recording {
  observe::RecordingHeader header{};
  std::vector<observe::Event> events{};  ///< in order
  std::uint64_t lost = 0;                ///< earlier ones, which these replaced

  /// "file.cpp:12", or empty.
  [[nodiscard]] std::string source_of(observe::Event const& event) const;
};

/// Errors:  incompatible_peer  no recording, one of another version, or a damaged one; the message
///                             says what is wrong.
///          else               as open(2) and pread(2) fail.
[[nodiscard]] Result<Recording> read_recording(std::string const& path);
/// `path`, or if that is a directory all files in it whose names end so, by name.
/// Errors:  as opendir(3) and readdir(3) fail.
[[nodiscard]] Result<std::vector<std::string>> files_of(std::string const& path,
                                                        std::string_view ending = ".lend");
/// The recordings of files, and of all files of directories whose names end in ".lend", by name.
/// Errors:  those of read_recording(), of the first, and
///          not_found  a directory has none.
[[nodiscard]] Result<std::vector<Recording>> read_recordings(std::span<std::string const> paths);

}  // namespace lend::tools
