// SPDX-License-Identifier: MIT OR Apache-2.0
// The ports of two processes, as each says of itself. Values; any thread.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/doctor/pair_connector.hpp>
#include <lend/verbs/context.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lend::doctor {

using Words = std::vector<std::string>;

/// What stands for the link layer where only rdma_cm connects. The addresses are those of IP then.
inline constexpr std::string_view iwarp = "iWARP";

struct PairPort {
  struct Address {
    std::uint32_t index = 0;     ///< in the GID table; 0 on iWARP
    std::string type{}, text{};  ///< "RoCE v2", "10.0.0.1"; on iWARP "IPv4" or "IPv6"
  };

  std::string device{};
  std::uint8_t number = 1;
  std::string kind{}, link_layer{};
  std::uint32_t mtu_bytes = 0;
  std::vector<Address> addresses{};  ///< best first

  /// "mlx5_0/1"
  [[nodiscard]] std::string name() const { return device + '/' + std::to_string(number); }
  [[nodiscard]] bool is_iwarp() const noexcept { return link_layer == iwarp; }
};

/// A port, and what of it a connection takes.
struct Way {
  std::string device{};
  std::uint8_t number = 1;
  std::optional<std::uint32_t> gid_index{};
  std::uint32_t mtu_bytes = 0;
  std::string host{};  ///< its IP address, where rdma_cm connects it; else empty

  [[nodiscard]] Words words() const;
  /// Shape:   five words from `at` on.
  /// Errors:  incompatible_peer.
  [[nodiscard]] static Result<Way> in(Words const& words, std::size_t at);
};

/// The devices that this process may use, each opened once: a planned fault counts on.
class OpenPorts {
 public:
  /// Those of active ports, 64 at most; by LEND_DEVICE only one. What does not open is left out.
  /// Borrows: the connector for iWARP, if there is one.
  [[nodiscard]] static Result<OpenPorts> open(PairConnector const* by_cm = nullptr);
  [[nodiscard]] std::vector<PairPort> const& ports() const noexcept { return ports_; }
  /// Errors:  not_found  there is no such port.
  [[nodiscard]] Result<Context> at(std::string const& device, std::uint8_t number) const;
  /// Errors:  unsupported  there is none.
  [[nodiscard]] Result<PairConnector const*> by_cm() const;
  /// Why ports of iWARP cannot be tried; empty: they can, or there are none.
  [[nodiscard]] std::string cm_obstacle() const;

 private:
  void add(Context const& context);
  PairConnector const* by_cm_ = nullptr;
  std::vector<PairPort> ports_{};
  std::vector<Context> contexts_{};  // as ports_
};

/// IPv4 first; empty: none.
[[nodiscard]] LEND_EXPORT std::vector<PairPort::Address> addresses_of_iwarp(Context const& context);

[[nodiscard]] Words words_of(std::vector<PairPort> const& ports);
/// Errors:  incompatible_peer  that are none, more than 64 ports, names of more than 64 bytes, or
///                             addresses of iWARP that are none of IP.
[[nodiscard]] Result<std::vector<PairPort>> ports_in(Words const& words);

/// A number of a peer's.
/// Errors:  incompatible_peer  it is none, or above `most`.
[[nodiscard]] Result<std::uint64_t> number_from(std::string const& word, std::uint64_t most);

}  // namespace lend::doctor
