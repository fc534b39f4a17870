// SPDX-License-Identifier: MIT OR Apache-2.0
// The files of a host, below a root that may be a captured tree, and its devices.
#pragma once

#include <lend/open_device.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lend::doctor {

struct Host {
  std::string root{};  ///< before every path; empty: this host
  Result<std::vector<Device>> devices{std::vector<Device>{}};
  std::function<Result<Context>(DeviceChoice const&)> open{};
  std::string libibverbs_obstacle{};  ///< why libibverbs cannot be loaded; empty: it can

  /// The first 64 KiB of a file, without white space at its end. None: it could not be read.
  [[nodiscard]] std::optional<std::string> read(std::string const& path) const;
  /// The names in a folder, sorted; empty if there is none.
  [[nodiscard]] std::vector<std::string> entries(std::string const& folder) const;
  [[nodiscard]] bool exists(std::string const& path) const noexcept;
  /// 0, or the errno of opening it for reading and writing, as libibverbs does.
  [[nodiscard]] int error_of_opening(std::string const& path) const noexcept;
};

/// The rest of the line that begins with `name`, without white space around it: of /proc files.
[[nodiscard]] std::optional<std::string> field_of(std::string_view text, std::string_view name);
/// The number at the head of a text, in base 10 or, after "0x", 16.
[[nodiscard]] std::optional<std::uint64_t> number_of(std::string_view text, int base = 10) noexcept;
/// The numbers of a list such as "0-3,8". Source: Linux Documentation/admin-guide/cputopology.rst.
[[nodiscard]] std::vector<std::uint64_t> numbers_of_list(std::string_view list);
/// "64 MiB", in the largest unit of which there are at least two.
[[nodiscard]] std::string text_of_bytes(std::uint64_t bytes);

}  // namespace lend::doctor
