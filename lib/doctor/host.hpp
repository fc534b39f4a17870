// SPDX-License-Identifier: MIT OR Apache-2.0
// The files of a host, below a root that may be a captured tree, and its devices.
#pragma once

#include <lend/open_device.hpp>

#include <doctor/record.hpp>
#include <doctor/texts.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lend::doctor {

/// How memory that devices use is safe from fork(). Source: ibv_is_fork_initialized(3).
enum class ForkSafety : std::uint8_t { none = 0, by_program = 1, by_kernel = 2 };

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
  std::optional<ForkSafety> forks{};  ///< none: not known
  std::function<void()> pause{};      ///< lets time pass; empty: none passes

  /// The first 64 KiB of a file, without white space at its end. None: it could not be read.
  [[nodiscard]] std::optional<std::string> read(std::string const& path) const;
  /// The same after waits().
  [[nodiscard]] std::optional<std::string> read_again(std::string const& path) const;
  /// Lets time pass. False: it does not, and no file is another one now.
  [[nodiscard]] bool waits() const;
  /// The names in a folder, sorted; empty if there is none.
  [[nodiscard]] std::vector<std::string> entries(std::string const& folder) const;
  [[nodiscard]] bool exists(std::string const& path) const;
  /// 0, or the errno of opening it for reading and writing, as libibverbs does.
  [[nodiscard]] int error_of_opening(std::string const& path) const;
  /// Of the environment; none: it is unset or empty.
  [[nodiscard]] std::optional<std::string> variable(std::string const& name) const;
  struct OwnVariable {
    std::string name{};
    std::string defect{};  ///< empty: lend has such a variable, and its value is one
  };
  /// Those that are set and whose names begin as lend's do; not their values, which may have
  /// addresses, unless they are none.
  [[nodiscard]] std::vector<OwnVariable> own_variables() const;
  /// The names of `devices`. Errors: the message alone is that of `devices`.
  [[nodiscard]] Result<std::vector<std::string>> device_names() const;
  /// By `open`. Errors: the message alone is that of `open`.
  [[nodiscard]] Result<Opened> opened(DeviceChoice const& choice) const;
  [[nodiscard]] std::string obstacle_of_libibverbs() const;
  [[nodiscard]] std::optional<ForkSafety> fork_safety() const;
  /// Whether LIDs are not sufficient in the subnet of this port, which only its device tells.
  [[nodiscard]] bool needs_global_route(std::string const& device, std::uint8_t port) const;
  /// The traffic classes that the driver gives packets of a port: "Global tclass=106" to all, or
  /// "tclass=26" to those of some addresses, which are left out. None: no such file can be read.
  /// Source: mlx5_ib of MLNX_OFED, traffic_class_show().
  [[nodiscard]] std::optional<std::vector<std::string>> driver_classes(
      std::string const& file) const;
  /// The interfaces that have a network of IPv4 in common with this one, which is the first; not
  /// the networks. Empty: it has none in the main table of routes. None: that cannot be read.
  /// Source: Linux net/ipv4/fib_trie.c, fib_route_seq_show().
  [[nodiscard]] std::optional<std::vector<std::string>> interfaces_beside(
      std::string const& interface) const;
  /// Anything else: what `ask` returns. `question` is one or more words, the first of which is none
  /// of another function's.
  [[nodiscard]] Answer answer(std::string const& question,
                              std::function<Answer()> const& ask) const;
};

}  // namespace lend::doctor
