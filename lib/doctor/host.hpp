// SPDX-License-Identifier: MIT OR Apache-2.0
// The files of a host, below a root that may be a captured tree, and its devices.
#pragma once

#include <lend/open_device.hpp>

#include <doctor/record.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lend::doctor {

/// What checks want to know of a device that opened.
struct Opened {
  std::string name{};
  DeviceKind kind{};
  std::string port{};                       ///< its number
  bool endpoints = false, rdma_cm = false;  ///< as Capabilities
};

/// Checks learn all that they know by its functions, each of which asks through `record`: so what
/// was asked of one host can be answered again without it.
struct Host {
  std::string root{};  ///< before every path; empty: this host
  Result<std::vector<Device>> devices{std::vector<Device>{}};
  std::function<Result<Context>(DeviceChoice const&)> open{};
  std::string libibverbs_obstacle{};  ///< why libibverbs cannot be loaded; empty: it can
  std::shared_ptr<Record> record{};   ///< null: answers are neither noted nor given

  /// The first 64 KiB of a file, without white space at its end. None: it could not be read.
  [[nodiscard]] std::optional<std::string> read(std::string const& path) const;
  /// The names in a folder, sorted; empty if there is none.
  [[nodiscard]] std::vector<std::string> entries(std::string const& folder) const;
  [[nodiscard]] bool exists(std::string const& path) const;
  /// 0, or the errno of opening it for reading and writing, as libibverbs does.
  [[nodiscard]] int error_of_opening(std::string const& path) const;
  /// Of the environment; none: it is unset or empty.
  [[nodiscard]] std::optional<std::string> variable(std::string const& name) const;
  /// The names of `devices`. Errors: the message alone is that of `devices`.
  [[nodiscard]] Result<std::vector<std::string>> device_names() const;
  /// By `open`. Errors: the message alone is that of `open`.
  [[nodiscard]] Result<Opened> opened(DeviceChoice const& choice) const;
  [[nodiscard]] std::string obstacle_of_libibverbs() const;
  /// Anything else: what `ask` returns. `question` is one or more words, the first of which is none
  /// of another function's.
  [[nodiscard]] Answer answer(std::string const& question,
                              std::function<Answer()> const& ask) const;
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
