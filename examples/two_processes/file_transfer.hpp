// SPDX-License-Identifier: MIT OR Apache-2.0
// A file goes to the peer, which checks that it came whole. Streamed: any size, the same memory.
#pragma once

#include "line.hpp"

#include <cstdint>
#include <fstream>
#include <string>

/// A regular file that has something in it, open for reading.
class SourceFile {
 public:
  /// Errors:  not_found, denied, invalid_argument  there is no such file, it may not be read, or
  ///          there is nothing in it to send; the message says which.
  [[nodiscard]] static lend::Result<SourceFile> open(std::string const& path);

  [[nodiscard]] std::string const& path() const { return path_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// Errors:  system_failed  it could not be read, or has become shorter.
  [[nodiscard]] lend::Result<void> read(std::span<std::byte> target);

 private:
  std::string path_;
  std::uint64_t size_ = 0;
  std::ifstream stream_;
};

/// What arrived, as the far side saw it, and how long it took.
struct Delivery {
  std::uint64_t checksum = 0;
  std::chrono::duration<double> took{};
};

/// Sends the file. Errors: those of the line and the file; system_failed when the checksums differ.
[[nodiscard]] lend::Result<Delivery> send_file(Line& line, SourceFile& file);

/// The far side of send_file(): receives `bytes` and says whether they are what was sent.
[[nodiscard]] lend::Result<void> receive_file(Line& line, std::uint64_t bytes);

/// "3.1 MB"
[[nodiscard]] std::string readable_bytes(std::uint64_t bytes);
