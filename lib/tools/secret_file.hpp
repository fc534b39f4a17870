// SPDX-License-Identifier: MIT OR Apache-2.0
// The secret that both sides of an exchange have in a file.
#pragma once

#include <lend/base/result.hpp>

#include <string>
#include <string_view>

namespace lend::tools {

/// All bytes of the file; empty for an empty path.
/// Errors:  invalid_argument  it is shorter or longer than a secret can be.
///          not_found, denied, system_failed  as open(2) and read(2) report.
[[nodiscard]] Result<std::string> secret_in(std::string_view path);

}  // namespace lend::tools
