// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes JSON. Source: RFC 8259.
#pragma once

#include <lend/doctor/examine.hpp>

#include <span>
#include <string>
#include <string_view>

namespace lend::tools {

/// `text` as a JSON string, with its quotes. Bytes that are no UTF-8 become U+FFFD.
[[nodiscard]] std::string json_of(std::string_view text);

/// An object of all findings; lib/guide/doctor.md has its fields. Ends with a line break.
[[nodiscard]] std::string json_of(std::span<Finding const> findings);

}  // namespace lend::tools
