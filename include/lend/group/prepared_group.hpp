// SPDX-License-Identifier: MIT OR Apache-2.0
// A group before its ranks are connected. One thread at a time.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/result.hpp>
#include <lend/channel/builder.hpp>
#include <lend/group/group.hpp>
#include <lend/group/group_options.hpp>
#include <lend/group/rank_card.hpp>
#include <lend/verbs/protection_domain.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>

namespace lend {

/// A group before its ranks are connected.
///
/// For ranks that do not meet at a desk, as in Group::join(). Each prepares, gives cards()[i]
/// to rank i by any means (an all-to-all of MPI, files), and connects with what it got:
///
///     LEND_TRY(prepared, PreparedGroup::prepare(domain, rank, size));
///     // exchange: theirs[i] = what rank i has for this one
///     LEND_TRY(group, std::move(prepared).handshake(theirs));
class LEND_EXPORT PreparedGroup {
 public:
  /// Prepares a channel for each link, its receives posted: a message never finds none.
  /// Shape:   see GroupOptions. One rank alone is a group, too.
  /// Errors:  those of prepare_channel() and ProtectionDomain::allocate(), and
  ///          invalid_argument  a rank that is not below the size, or options out of range.
  ///          unsupported       an iWARP device without a GroupOptions::connector.
  ///          Those of the connector.
  [[nodiscard]] static Result<PreparedGroup> prepare(ProtectionDomain const& domain,
                                                     std::uint32_t rank, std::uint32_t size,
                                                     GroupOptions const& options = {});
  PreparedGroup(PreparedGroup&&) noexcept;
  PreparedGroup& operator=(PreparedGroup&&) noexcept;
  ~PreparedGroup();

  /// By rank; the own one and those of ranks without a link are empty, as RankCard{}.
  [[nodiscard]] std::span<RankCard const> cards() const noexcept LEND_LIFETIMEBOUND;

  /// Connects the channels: theirs[i] is what rank i has for this one; the own one and those
  /// without a link are not read.
  /// Local, as PreparedChannel::handshake(): only iWARP devices wait until the others connect, too,
  /// up to the deadline. Consumes this object, also when it fails, unless nothing happened.
  /// Errors:  those of PreparedChannel::handshake(), and
  ///          invalid_argument   not as many cards as ranks; nothing happened.
  ///          incompatible_peer  a rank with other GroupOptions, named; nothing happened.
  ///          timed_out, cancelled  names ranks that are not connected yet; others are named that
  ///                            GroupOptions::connector could not connect, with its errors.
  [[nodiscard]] Result<Group> handshake(std::span<RankCard const> theirs,
                                        Deadline deadline = within(std::chrono::seconds{30})) &&;

 private:
  friend class Group;
  explicit PreparedGroup(std::shared_ptr<group::GroupState> state) noexcept;
  std::shared_ptr<group::GroupState> state_;
};

}  // namespace lend
