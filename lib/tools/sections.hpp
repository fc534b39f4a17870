// SPDX-License-Identifier: MIT OR Apache-2.0
// The sections of lib/guide/failures.md, which is compiled in.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace lend::tools {

struct Section {
  std::string_view chapter{};             ///< the heading above it: "Statuses of completions"
  std::vector<std::string_view> names{};  ///< "12", "retry_exceeded", "IBV_WC_RETRY_EXC_ERR"
  std::string_view text{};                ///< below its heading, from its first line to its last
};

/// In the page's order.
[[nodiscard]] std::vector<Section> sections();
[[nodiscard]] std::optional<Section> section_of(std::string_view name);

}  // namespace lend::tools
