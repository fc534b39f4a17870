// SPDX-License-Identifier: MIT OR Apache-2.0
// A directory of the user's, in which lend keeps files that no other user may change. Any thread.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>

#include <base/unique_fd.hpp>

#include <string>
#include <string_view>

namespace lend::base {

/// Opens it, and makes it if it is missing. `what` is to be kept there: "recordings".
/// Errors:  denied     it is another user's, others may write to it, or it is a symbolic link or no
///                     directory.
///          not_found  the directory above it is missing.
///          else       as mkdir(2) and open(2) fail.
[[nodiscard]] LEND_EXPORT Result<UniqueFd> open_own_directory(std::string const& path,
                                                              std::string_view what);
/// Why open_own_directory() would fail, as far as that is known without making anything, or why
/// files there cannot have locks, if they need some. Empty: neither.
[[nodiscard]] LEND_EXPORT std::string defect_of_own_directory(std::string const& path,
                                                              std::string_view what,
                                                              bool needs_locks);

}  // namespace lend::base
