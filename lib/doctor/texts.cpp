// SPDX-License-Identifier: MIT OR Apache-2.0
// Lines, numbers and lists of the kernel's.
#include <doctor/texts.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

namespace lend::doctor {

namespace {

constexpr std::uint64_t list_numbers_max = 65'536;  // more than Linux's CPUs; bounds a damaged list

std::string_view trimmed(std::string_view text) noexcept {
  auto const begin = std::min(text.find_first_not_of(white), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(white) + 1);
}

}  // namespace

std::optional<std::string> field_of(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    auto const line = text.substr(0, text.find('\n'));
    if (line.starts_with(name)) return std::string{trimmed(line.substr(name.size()))};
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return std::nullopt;
}

std::optional<std::uint64_t> number_of(std::string_view text, int base) noexcept {
  if (base == 16 && text.starts_with("0x")) text.remove_prefix(2);
  std::uint64_t value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc{} ? std::optional{value} : std::nullopt;
}

std::vector<std::uint64_t> numbers_of_list(std::string_view list) {
  std::vector<std::uint64_t> numbers;
  while (!list.empty()) {
    auto const part = list.substr(0, list.find(','));
    list.remove_prefix(std::min(part.size() + 1, list.size()));
    auto const first = number_of(part);
    auto const dash = part.find('-');
    auto const last = dash == part.npos ? first : number_of(part.substr(dash + 1));
    if (!first || !last) continue;
    auto const end = std::min(*last, list_numbers_max);
    for (auto number = *first; number <= end; ++number) numbers.push_back(number);
  }
  return numbers;
}

std::string text_of_bytes(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 4> units{" bytes", " KiB", " MiB", " GiB"};
  std::size_t unit = 0;
  for (; unit + 1 < units.size() && bytes >= 2 * 1024; ++unit) bytes /= 1024;
  return std::to_string(bytes) + std::string{units[unit]};
}

}  // namespace lend::doctor
