// SPDX-License-Identifier: MIT OR Apache-2.0
// The first host of a list. Any thread.
#include <base/host_name.hpp>
#include <launch/host_list.hpp>

#include <algorithm>

namespace lend::launch {

namespace {

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

Error no_host_list(std::string_view clause) {
  return {Errc::invalid_argument, "which is no list of hosts: " + std::string{clause}};
}

}  // namespace

Result<std::string> first_host(std::string_view list) {
  std::string host;
  while (!list.empty() && list.front() != ',') {
    if (list.front() != '[') {
      host += list.front();
      list.remove_prefix(1);
      continue;
    }
    auto const end = list.find(']');
    if (end == std::string_view::npos) return no_host_list("a [ has no ]");
    auto const numbers = list.substr(1, end - 1);
    auto const first = numbers.substr(0, numbers.find_first_of(",-"));
    if (first.empty() || !std::ranges::all_of(first, is_digit))
      return no_host_list("a [ is not followed by a number");
    host += first;
    list.remove_prefix(end + 1);
  }
  if (host.empty()) return no_host_list("it begins with no name");
  if (host.size() > base::host_length_max) return no_host_list("a name has more than 253 bytes");
  if (!base::has_host_characters(host) || host.find(':') != std::string::npos)
    return no_host_list("a name has other characters than names of hosts");
  return host;
}

}  // namespace lend::launch
