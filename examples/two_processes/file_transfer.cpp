// SPDX-License-Identifier: MIT OR Apache-2.0
// Chunk by chunk, with a checksum beside it that both sides compare at the end. One thread.
#include "file_transfer.hpp"

#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace {

constexpr std::size_t chunk_bytes = 64 * kilobyte;

/// FNV-1a, over words of 8 bytes instead of single ones so that it is no brake.
class Checksum {
 public:
  void add(std::span<std::byte const> bytes) {
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), sizeof(std::uint64_t)))) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data(), std::min(bytes.size(), sizeof word));
      value_ = (value_ ^ word) * 0x100'0000'01b3;  // the 64-bit prime of FNV
    }
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }
  [[nodiscard]] std::string text() const {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(value_));
    return digits;
  }

 private:
  std::uint64_t value_ = 0xcbf2'9ce4'8422'2325;  // the 64-bit offset basis of FNV
};

/// A bar on standard error, where that is a terminal.
class ProgressBar {
 public:
  explicit ProgressBar(std::uint64_t total) : total_{total} {}
  ~ProgressBar() {
    if (drawn_ >= 0) std::fputs("\r\033[K", stderr);
  }

  void advance(std::size_t bytes) {
    done_ += bytes;
    auto const percent = int(double(done_) * 100 / double(total_));
    if (!visible_ || percent == drawn_) return;
    drawn_ = percent;
    static constexpr char full[] = "##################################################";
    std::fprintf(stderr, "\r  [%-50.*s] %3d %%", percent / 2, full, percent);
  }

 private:
  bool const visible_ = isatty(STDERR_FILENO) != 0;
  std::uint64_t const total_;
  std::uint64_t done_ = 0;
  int drawn_ = -1;  // percent
};

}  // namespace

lend::Result<SourceFile> SourceFile::open(std::string const& path) {
  auto const refuse = [&](lend::Errc code, std::string const& why) {
    return lend::Error{code, "cannot send " + path + ": " + why};
  };
  std::error_code wrong;
  auto const status = std::filesystem::status(path, wrong);
  if (!std::filesystem::exists(status)) return refuse(lend::Errc::not_found, wrong.message());
  if (!std::filesystem::is_regular_file(status))
    return refuse(lend::Errc::invalid_argument, "it is not a regular file");
  SourceFile file;
  file.path_ = path;
  file.size_ = std::filesystem::file_size(path, wrong);
  if (wrong) return refuse(lend::Errc::system_failed, wrong.message());
  file.stream_.open(path, std::ios::binary);
  if (!file.stream_) return refuse(lend::Errc::denied, std::strerror(errno));
  if (file.size_ == 0) return refuse(lend::Errc::invalid_argument, "it is empty");
  return file;
}

lend::Result<void> SourceFile::read(std::span<std::byte> target) {
  stream_.read(reinterpret_cast<char*>(target.data()), std::streamsize(target.size()));
  if (stream_) return lend::success();
  auto const why = stream_.eof() ? "it has become shorter" : std::strerror(errno);
  return lend::Error{lend::Errc::system_failed, "cannot read on in " + path_ + ": " + why};
}

lend::Result<Delivery> send_file(Line& line, SourceFile& file) {
  auto const started = std::chrono::steady_clock::now();
  Checksum checksum;
  {
    ProgressBar bar{file.size()};
    LEND_TRYV(say(line, "file " + std::to_string(file.size())));
    LEND_TRYV(send_stream(line, Stream{file.size(), chunk_bytes},
                          [&](std::span<std::byte> message) -> lend::Result<void> {
                            LEND_TRYV(file.read(message));
                            checksum.add(message);
                            bar.advance(message.size());
                            return lend::success();
                          }));
  }
  LEND_TRYV(say(line, checksum.text()));
  LEND_TRY(seen, hear(line));
  if (seen != checksum.text())
    return lend::Error{lend::Errc::system_failed, "the peer received other bytes: checksum " +
                                                      seen + " instead of " + checksum.text()};
  return Delivery{checksum.value(), std::chrono::steady_clock::now() - started};
}

lend::Result<void> receive_file(Line& line, std::uint64_t bytes) {
  Checksum checksum;
  LEND_TRYV(receive_stream(line, Stream{bytes, chunk_bytes},
                           [&](std::span<std::byte const> message) { checksum.add(message); }));
  LEND_TRY(expected, hear(line));
  LEND_TRYV(say(line, checksum.text()));
  if (expected != checksum.text())
    return lend::Error{lend::Errc::system_failed, "other bytes were received than sent: checksum " +
                                                      checksum.text() + " instead of " + expected};
  std::printf("received %s, checksum %s as sent\n", readable_bytes(bytes).c_str(),
              checksum.text().c_str());
  return lend::success();
}

std::string readable_bytes(std::uint64_t bytes) {
  static constexpr std::array units{"B", "kB", "MB", "GB", "TB"};
  auto value = double(bytes);
  std::size_t unit = 0;
  for (; value >= 1000 && unit + 1 < units.size(); ++unit) value /= 1000;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
  return text;
}
