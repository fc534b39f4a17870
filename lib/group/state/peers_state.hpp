// SPDX-License-Identifier: MIT OR Apache-2.0
// The channels of a Peers. The thread of the group.
#pragma once

#include <group/link/peer_words.hpp>
#include <group/state/group_state.hpp>
#include <group/state/peer_linking.hpp>
#include <lend/channel/channel.hpp>
#include <lend/channel/prepared_channel.hpp>
#include <lend/channel/receive_pool.hpp>
#include <lend/group/peers.hpp>
#include <lend/group/team.hpp>
#include <lend/verbs/memory_region.hpp>

#include <algorithm>
#include <cstddef>
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
  /// Also again, after an attempt that failed.
  /// Errors:  those of prepare_channel(); with shared receives those of ReceivePool::create();
  ///          where a connector connects, those of PeerLinking::open().
  [[nodiscard]] Result<void> prepare(PeerOptions const& options);
  [[nodiscard]] std::vector<PreparedChannel>& prepared() noexcept { return prepared_; }
  /// Connects one that was prepared, in their order.
  [[nodiscard]] Result<void> connect(Endpoint const& peer);
  /// Null where endpoints connect.
  [[nodiscard]] PeerLinking const* linking() const noexcept { return linking_.get(); }
  /// Connects all that were prepared, in their order.
  [[nodiscard]] Result<void> connect_all(std::span<PeerLinkCard const> peers, Deadline deadline);

  /// Of a channel that has broken, as its connection manager reports: the group learns of it, and
  /// its reason becomes the channel's. Otherwise nothing.
  void tell_of_end(std::uint32_t rank) noexcept;

  // Where a message that finds no receive breaks its connection (iWARP), the calls that use these
  // wait for one: the n-th sent meets the n-th received. Elsewhere these do nothing.

  void note_posted(std::uint32_t rank) noexcept {
    if (words_) words_->note_posted(place_of(rank));
  }
  /// Tells the peers of all that were noted.
  [[nodiscard]] Result<void> tell_posted(Deadline deadline) {
    return words_ ? tell_by_words(deadline) : Result<void>{success()};
  }
  /// Whether the next message to `rank` may be sent.
  [[nodiscard]] bool finds_receive(std::uint32_t rank) noexcept {
    return !words_ || words_->finds_receive(place_of(rank));
  }
  /// Until it may.
  /// Errors:  timed_out, cancelled; why the channel or the group is broken.
  [[nodiscard]] Result<void> await_receive(std::uint32_t rank, Deadline deadline);
  void note_sent(std::uint32_t rank) noexcept {
    if (words_) words_->note_sent(place_of(rank));
  }

  [[nodiscard]] GroupState& group() const noexcept { return *group_; }
  /// That they were connected in.
  [[nodiscard]] Team& team() noexcept { return team_; }
  [[nodiscard]] std::span<std::uint32_t const> ranks() const noexcept { return ranks_; }
  [[nodiscard]] std::span<Channel> channels() noexcept { return channels_; }
  /// Null: there is no such peer.
  [[nodiscard]] Channel* find(std::uint32_t rank) noexcept {
    auto const place = place_of(rank);
    if (place >= channels_.size() || ranks_[place] != rank) return nullptr;  // or not connected yet
    return &channels_[place];
  }
  [[nodiscard]] ReceivePool* pool() noexcept { return pool_ ? &*pool_ : nullptr; }
  [[nodiscard]] Error no_such_peer(std::uint32_t rank) const;

 private:
  [[nodiscard]] Result<void> tell_by_words(Deadline deadline);
  [[nodiscard]] std::size_t place_of(std::uint32_t rank) const noexcept {
    return static_cast<std::size_t>(std::ranges::lower_bound(ranks_, rank) - ranks_.begin());
  }

  std::shared_ptr<GroupState> group_;
  Team team_;
  std::uint64_t first_tag_ = 0;
  std::vector<std::uint32_t> ranks_{};       // they ascend
  std::optional<MemoryRegion> shared_{};     // outlives the pool
  std::optional<ReceivePool> pool_{};        // outlives the channels
  std::optional<PeerWords> words_{};         // outlives the channels
  std::vector<PreparedChannel> prepared_{};  // of those that are not connected yet
  std::unique_ptr<PeerLinking> linking_{};   // until connect_all()
  std::vector<Channel> channels_{};          // by the order of ranks_
};

}  // namespace lend::group
