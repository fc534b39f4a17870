// SPDX-License-Identifier: MIT OR Apache-2.0
// How text looks on a terminal: its width, and colour. Any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lend::command {

/// Of the standard output; 80 where it is none. At least 40, so that words fit beside a margin.
[[nodiscard]] std::size_t columns_of_terminal() noexcept;

/// `text` behind `head`, in lines of at most `columns` characters that are broken at spaces; those
/// behind the first begin with `indent` spaces. A word that is longer than a line is not broken.
/// Shape:   `head` may have line breaks. The result ends with one.
[[nodiscard]] std::string wrapped(std::string_view head, std::string_view text, std::size_t indent,
                                  std::size_t columns);

}  // namespace lend::command
