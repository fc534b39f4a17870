// SPDX-License-Identifier: MIT OR Apache-2.0
// JSON of the program `lend`: values in the order in which they were added.
#pragma once

#include <lend/doctor/examine.hpp>

#include <nlohmann/json.hpp>

#include <span>
#include <string>

namespace lend::tools {

using Json = nlohmann::ordered_json;

/// On one line. Bytes that are no UTF-8 become U+FFFD.
[[nodiscard]] std::string text_of(Json const& value);

/// An object whose last member, `rows`, has one value a line. Ends with a line break.
[[nodiscard]] std::string text_of(Json const& head, char const* rows, std::span<Json const> values);

/// An object of all findings; lib/guide/doctor.md has its fields. Ends with a line break.
[[nodiscard]] std::string json_of(std::span<Finding const> findings);

}  // namespace lend::tools
