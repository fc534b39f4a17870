// SPDX-License-Identifier: MIT OR Apache-2.0
// Findings of the doctor and pages, as people read them.
#pragma once

#include <lend/doctor/examine.hpp>

#include <command/terminal.hpp>

#include <span>
#include <string>
#include <string_view>

namespace lend::tools {

/// The last finding, which is the conclusion; then failures, warnings, what is good, and a line of
/// what was skipped. `verbose`: as many lines as were skipped.
[[nodiscard]] std::string report_of(std::span<Finding const> findings, command::Look look,
                                    bool verbose);

/// Paragraphs and quotations of Markdown as plain text: wrapped, without its marks. A line that
/// ends with a backslash is one of its own.
[[nodiscard]] std::string plain_text_of(std::string_view markdown, std::size_t columns);

}  // namespace lend::tools
