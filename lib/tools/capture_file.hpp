// SPDX-License-Identifier: MIT OR Apache-2.0
// The file of a capture. One thread.
#pragma once

#include <lend/base/result.hpp>

#include <base/unique_fd.hpp>

#include <string>
#include <string_view>

namespace lend::tools {

/// A file that was not there before, which its user alone may read.
class NewFile {
 public:
  /// Errors:  invalid_argument  it is there, or cannot be made; the message says why.
  [[nodiscard]] static Result<NewFile> create(std::string_view path);
  /// Errors:  as Error::from_errno(). Then it is removed.
  [[nodiscard]] Result<void> write(std::string_view text) const;

 private:
  NewFile(std::string path, base::UniqueFd file) noexcept
      : path_{std::move(path)}, file_{std::move(file)} {}

  std::string path_;
  base::UniqueFd file_;
};

/// Up to 8 MiB of a file, and one byte more of a longer one.
/// Errors:  invalid_argument  it cannot be read.
[[nodiscard]] Result<std::string> text_in_file(std::string_view path);

}  // namespace lend::tools
