// SPDX-License-Identifier: MIT OR Apache-2.0
// The processes of a group in a file: where each runs, and so where they meet. Values; any thread.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/result.hpp>
#include <lend/launch/seat.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lend {

/// One process of a Roster.
struct RosterEntry {
  std::uint32_t rank = 0;
  std::string host{};      ///< a name or address
  std::uint16_t port = 0;  ///< of its own; that of rank 0 is the desk's
  std::string device{};    ///< for open_device(); empty: any
  std::string comment{};
};

/// Which processes are a group, in the order of ranks. There is one for each of 0 to size() - 1.
///
///     {"hosts": [{"rankid": 0, "hostname": "node1", "port": 18515, "ibdev": "mlx5_0"},
///                {"rankid": 1, "hostname": "node2", "port": 18515, "ibdev": "mlx5_1"}]}
///
///     LEND_TRY(roster, Roster::from_file("roster.json"));
///     LEND_TRY(seat, roster.seat(rank));
///
/// The ranks meet at rank 0's host and port. The file has no secret: set Seat::secret.
class LEND_EXPORT Roster {
 public:
  static constexpr std::size_t json_bytes_max = 16u << 20;

  /// From entries in any order.
  /// Errors:  invalid_argument  none, a rank twice or missing, more than 65,536, no host, or one
  ///                            that is no name; port 0. The message names rank and reason.
  [[nodiscard]] static Result<Roster> of(std::vector<RosterEntry> entries);
  /// An object with an array "hosts" of objects with "rankid", "hostname", "port", and, if wanted,
  /// "ibdev" and "comment", in any order. Other keys are ignored.
  /// Errors:  those of of(), and
  ///          invalid_argument  no JSON, with line and column; more than json_bytes_max; a key that
  ///                            is missing or doubled; a value of another type or out of range.
  ///          unsupported       lend was built without nlohmann's JSON (-Drosters=enabled).
  [[nodiscard]] static Result<Roster> from_json(std::string_view text);
  /// Errors:  those of from_json(), and
  ///          invalid_argument  no regular file.
  ///          not_found, denied, system_failed  as open(2) and read(2) report.
  [[nodiscard]] static Result<Roster> from_file(std::string const& path);

  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(entries_.size());
  }
  /// By rank.
  [[nodiscard]] std::span<RosterEntry const> entries() const& noexcept LEND_LIFETIMEBOUND {
    return entries_;
  }
  std::span<RosterEntry const> entries() const&& = delete;

  /// The first `size` ranks.
  /// Errors:  invalid_argument  there are fewer, or `size` is 0.
  [[nodiscard]] Result<Roster> first(std::uint32_t size) const;
  /// The place of a rank, for Group::join().
  /// Errors:  invalid_argument  there is no such rank.
  [[nodiscard]] Result<Seat> seat(std::uint32_t rank) const;

 private:
  explicit Roster(std::vector<RosterEntry> entries) noexcept : entries_{std::move(entries)} {}
  std::vector<RosterEntry> entries_;
};

}  // namespace lend
