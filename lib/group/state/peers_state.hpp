// SPDX-License-Identifier: MIT OR Apache-2.0
// The channels of a Peers. The thread of the group.
#pragma once

#include <group/state/group_state.hpp>
#include <lend/channel/channel.hpp>
#include <lend/channel/prepared_channel.hpp>
#include <lend/channel/receive_pool.hpp>
#include <lend/group/peers.hpp>
#include <lend/group/team.hpp>
#include <lend/verbs/memory_region.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace lend::group {

class PeersState {
 public:
  PeersState(std::shared_ptr<GroupState> group, Team team) noexcept;
  PeersState(PeersState const&) = delete;
  PeersState& operator=(PeersState const&) = delete;
  ~PeersState();

  /// Those of the group that `ranks` of `members` are, without no_rank.
  /// Errors:  invalid_argument  no such rank, this one, or one twice.
  [[nodiscard]] Result<void> name(std::span<std::uint32_t const> ranks,
                                  std::span<std::uint32_t const> members);
  /// Errors:  those of prepare_channel(); with shared receives those of ReceivePool::create().
  [[nodiscard]] Result<void> prepare(PeerOptions const& options);
  [[nodiscard]] std::vector<PreparedChannel>& prepared() noexcept { return prepared_; }
  /// Connects one that was prepared, in their order.
  [[nodiscard]] Result<void> connect(Endpoint const& peer);

  [[nodiscard]] GroupState& group() const noexcept { return *group_; }
  /// That they were connected in.
  [[nodiscard]] Team& team() noexcept { return team_; }
  [[nodiscard]] std::span<std::uint32_t const> ranks() const noexcept { return ranks_; }
  [[nodiscard]] std::span<Channel> channels() noexcept { return channels_; }
  /// Null: there is no such peer.
  [[nodiscard]] Channel* find(std::uint32_t rank) noexcept {
    auto const it = std::ranges::lower_bound(ranks_, rank);
    auto const place = static_cast<std::size_t>(it - ranks_.begin());
    if (place >= channels_.size() || *it != rank) return nullptr;  // or not connected yet
    return &channels_[place];
  }
  [[nodiscard]] ReceivePool* pool() noexcept { return pool_ ? &*pool_ : nullptr; }
  [[nodiscard]] Error no_such_peer(std::uint32_t rank) const;

 private:
  std::shared_ptr<GroupState> group_;
  Team team_;
  std::uint64_t first_tag_ = 0;
  std::vector<std::uint32_t> ranks_{};       // they ascend
  std::optional<MemoryRegion> shared_{};     // outlives the pool
  std::optional<ReceivePool> pool_{};        // outlives the channels
  std::vector<PreparedChannel> prepared_{};  // of those that are not connected yet
  std::vector<Channel> channels_{};          // by the order of ranks_
};

}  // namespace lend::group
