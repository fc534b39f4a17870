// SPDX-License-Identifier: MIT OR Apache-2.0
// A directory for one test. Any thread.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "support/catch.hpp"

namespace lend::test {

/// A new, empty directory, removed with all that is in it.
class NewDirectory {
 public:
  NewDirectory() { REQUIRE(::mkdtemp(path_.data()) != nullptr); }
  NewDirectory(NewDirectory const&) = delete;
  NewDirectory& operator=(NewDirectory const&) = delete;
  ~NewDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] std::string const& path() const noexcept { return path_; }

 private:
  std::string path_ = std::filesystem::temp_directory_path() / "lend-test-XXXXXX";
};

}  // namespace lend::test
