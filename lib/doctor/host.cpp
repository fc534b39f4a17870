// SPDX-License-Identifier: MIT OR Apache-2.0
// Reading the files of a host.
#include <base/unique_fd.hpp>
#include <doctor/host.hpp>

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

namespace lend::doctor {

namespace {

constexpr std::size_t file_bytes_max = 64 * 1024;
constexpr std::uint64_t list_numbers_max = 65'536;  // more than Linux's CPUs; bounds a damaged list
constexpr std::string_view white = " \t\r\n";

std::string_view trimmed(std::string_view text) noexcept {
  auto const begin = std::min(text.find_first_not_of(white), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(white) + 1);
}

}  // namespace

std::optional<std::string> Host::read(std::string const& path) const {
  base::UniqueFd const file{::open((root + path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (!file) return std::nullopt;
  std::string text;
  char buffer[4096];
  while (text.size() < file_bytes_max) {
    auto const got = ::read(file.get(), buffer, sizeof buffer);
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  text.erase(text.find_last_not_of(white) + 1);
  return text;
}

std::vector<std::string> Host::entries(std::string const& folder) const {
  std::vector<std::string> names;
  DIR* const opened = ::opendir((root + folder).c_str());
  if (opened == nullptr) return names;
  while (dirent const* const entry = ::readdir(opened))
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  ::closedir(opened);
  std::ranges::sort(names);
  return names;
}

bool Host::exists(std::string const& path) const noexcept {
  return ::access((root + path).c_str(), F_OK) == 0;
}

int Host::error_of_opening(std::string const& path) const noexcept {
  base::UniqueFd const file{::open((root + path).c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK)};
  return file ? 0 : errno;
}

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
