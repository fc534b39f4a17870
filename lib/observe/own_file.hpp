// SPDX-License-Identifier: MIT OR Apache-2.0
// Mapped files in a directory of the user's, which others read while this process writes. Any
// thread.
#pragma once

#include <lend/base/result.hpp>

#include <base/unique_fd.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace lend::observe {

/// What files of one kind have in common.
struct FileKind {
  std::string_view many;                ///< "recordings"
  std::string_view one;                 ///< "recording"
  std::string_view ending;              ///< of their names
  std::size_t bytes;                    ///< of each
  std::size_t with_space;               ///< the first of these: a store without space is a SIGBUS
  std::atomic<std::uint32_t>& numbers;  ///< how many this process has made
};

struct OwnFile {
  void* mapped;  ///< whole; the caller's to unmap
  base::UniqueFd file;
};

/// A new file "HOST-PID-N" in the directory `path`, which is made if it is missing.
/// `fill(file, N)` comes before the file has its name, so that no reader sees it half made. It does
/// not throw.
/// Errors:  those of `fill`.
///          denied         those of base::open_own_directory(), or it cannot be written.
///          not_found      the directory above it is missing.
///          exhausted      its file system is full, or RLIMIT_FSIZE forbids so many bytes.
[[nodiscard]] Result<OwnFile> make_own_file(
    std::string const& path, FileKind const& kind,
    std::function<Result<void>(OwnFile const&, std::uint32_t)> const& fill);

/// Of this host, as a part of file names.
[[nodiscard]] std::string host_name();

/// The end of `text`, which tells more of a path than its start.
template <std::size_t size>
void keep_end(std::array<char, size>& to, std::string_view text) noexcept {
  if (text.size() >= size) text.remove_prefix(text.size() - (size - 1));
  std::ranges::copy(text, to.begin());
}

}  // namespace lend::observe
