// SPDX-License-Identifier: MIT OR Apache-2.0
// The links of a rank to the others, in the wait set of its group. The thread of the group.
#pragma once

#include <group/link/link.hpp>
#include <group/link/linking.hpp>
#include <group/link/meeting.hpp>
#include <group/schedule/neighbours.hpp>
#include <group/schedule/schedule.hpp>
#include <lend/base/result.hpp>
#include <lend/channel/wait_set.hpp>
#include <lend/group/group_options.hpp>
#include <lend/group/rank_card.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace lend::group {

/// Whether a link has news: else a channel to a peer, a pool or the device.
[[nodiscard]] inline bool is_of_link(Ready const& one) noexcept {
  return (one.what == Ready::What::work || one.what == Ready::What::broken) &&
         one.tag <= UINT32_MAX;
}

class Links {
 public:
  Links(ProtectionDomain const& domain, WaitSet set, Ranks ranks, GroupOptions const& options);
  Links(Links const&) = delete;
  Links& operator=(Links const&) = delete;
  ~Links() = default;

  /// Makes one for each linked rank, which may read `status`.
  [[nodiscard]] Result<void> prepare(RemoteRegion const& status);
  [[nodiscard]] std::span<RankCard const> cards() const noexcept { return cards_; }
  /// Leaves out the other ranks, and numbers these from 0. Before connect().
  /// Shape:   `ranks` ascend and have this one; all, where there are few links.
  void keep(std::span<std::uint32_t const> ranks);
  /// Where endpoints connect, at once; else until all have met, and `sleep` is called meanwhile.
  /// Errors:  name the rank.
  [[nodiscard]] Result<void> connect(std::span<RankCard const> theirs, Deadline deadline,
                                     Sleep const& sleep);

  [[nodiscard]] ProtectionDomain const& domain() const noexcept { return domain_; }
  [[nodiscard]] GroupOptions const& options() const noexcept { return options_; }
  [[nodiscard]] Ranks ranks() const noexcept { return ranks_; }
  [[nodiscard]] Neighbours const& neighbours() const noexcept { return neighbours_; }
  [[nodiscard]] WaitSet& set() noexcept { return set_; }
  [[nodiscard]] WaitSet const& set() const noexcept { return set_; }

  /// Ranks that have a link; they ascend.
  [[nodiscard]] std::span<std::uint32_t const> linked() const noexcept { return linked_; }
  [[nodiscard]] bool has(std::uint32_t rank) const noexcept { return links_[rank] != nullptr; }
  /// Shape:   has(rank).
  [[nodiscard]] Link& operator[](std::uint32_t rank) const noexcept { return *links_[rank]; }
  [[nodiscard]] bool has_left(std::uint32_t rank) const noexcept {
    return has(rank) && links_[rank]->peer_has_left();
  }

  /// What has come to any channel of the set: until the next call.
  [[nodiscard]] Result<std::span<Ready>> poll() noexcept { return set_.poll(ready_); }
  [[nodiscard]] Result<std::span<Ready>> wait(Deadline deadline) noexcept {
    return set_.wait(ready_, deadline);
  }
  [[nodiscard]] std::span<Ready> ready() noexcept { return ready_; }
  /// Shape:   is_of_link(one).
  [[nodiscard]] std::uint32_t rank_of(Ready const& one) const noexcept {
    return rank_by_tag_[one.tag];
  }

  /// Sends `last` as the last message of each link, until it has arrived.
  void end(MessageHead const& last, Deadline deadline) noexcept;
  void clear() noexcept;

 private:
  [[nodiscard]] Result<void> prepare_link(std::uint32_t rank, RemoteRegion const& status);
  [[nodiscard]] Result<void> take_connections(GroupConnector::Links& making,
                                              std::span<RankCard const> theirs,
                                              std::span<Meeting> meetings);
  /// When the next greeting is due; nothing: all ranks have met.
  [[nodiscard]] Result<std::optional<Deadline>> greet_peers(std::span<Meeting> meetings);
  [[nodiscard]] Error connecting_is_late(std::span<Meeting const> meetings,
                                         Deadline deadline) const;

  ProtectionDomain domain_;
  WaitSet set_;
  std::optional<Mailboxes> mailboxes_{};  // they outlive the links
  Ranks ranks_;
  Neighbours neighbours_;
  GroupOptions options_;
  std::vector<RankCard> cards_;
  std::vector<std::unique_ptr<Link>> links_;  // by rank; null: this one, and without a link
  std::vector<std::uint32_t> linked_{};
  std::vector<std::uint32_t> rank_by_tag_;  // of channels
  std::unique_ptr<Linking> linking_{};      // until connect(), where a connector makes the links
  std::vector<Ready> ready_;
};

}  // namespace lend::group
