// SPDX-License-Identifier: MIT OR Apache-2.0
// The texts of /proc and /sys. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lend::doctor {

inline constexpr std::string_view white = " \t\r\n";

/// The rest of the line that begins with `name`, without white space around it: of /proc files.
[[nodiscard]] std::optional<std::string> field_of(std::string_view text, std::string_view name);
/// The number at the head of a text, in base 10 or, after "0x", 16.
[[nodiscard]] std::optional<std::uint64_t> number_of(std::string_view text, int base = 10) noexcept;
/// The numbers of a list such as "0-3,8". Source: Linux Documentation/admin-guide/cputopology.rst.
[[nodiscard]] std::vector<std::uint64_t> numbers_of_list(std::string_view list);
/// "64 MiB", in the largest unit of which there are at least two.
[[nodiscard]] std::string text_of_bytes(std::uint64_t bytes);

}  // namespace lend::doctor
