// SPDX-License-Identifier: MIT OR Apache-2.0
// Any thread.
#include <base/first_line.hpp>
#include <base/unique_fd.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <string_view>

namespace lend {

std::string base::first_line_of(std::string const& path) {
  UniqueFd const file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  std::array<char, 4096> text;
  auto const length = file ? ::read(file.get(), text.data(), text.size()) : -1;
  if (length <= 0) return {};
  std::string_view const all{text.data(), static_cast<std::size_t>(length)};
  return std::string{all.substr(0, all.find('\n'))};
}

}  // namespace lend
