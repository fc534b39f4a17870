// SPDX-License-Identifier: MIT OR Apache-2.0
// The sections of lib/guide/failures.md, which is compiled in.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace lend::tools {

/// The text below the heading that has `name`, from its first line to its last.
[[nodiscard]] std::optional<std::string_view> section_of(std::string_view name);
/// All names in headings, in the page's order: "12", "retry_exceeded", "memlock".
[[nodiscard]] std::vector<std::string_view> section_names();

}  // namespace lend::tools
