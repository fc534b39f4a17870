// SPDX-License-Identifier: MIT OR Apache-2.0
// The Peers of a group, whose channels end with it, and it with them. The thread of the group.
#pragma once

#include <channel/parts/loss_source.hpp>
#include <lend/base/error.hpp>
#include <lend/base/result.hpp>
#include <lend/channel/channel.hpp>
#include <lend/channel/wait_set.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lend::group {

class GroupState;
class PeersState;

class PeerList final : private channel::LossSource {
 public:
  explicit PeerList(GroupState& group) noexcept : group_{group} {}

  /// Tags of its channels begin here, and end with the rank.
  [[nodiscard]] std::uint64_t add(PeersState& peers);
  void remove(PeersState& peers) noexcept;
  [[nodiscard]] channel::LossSource& losses() noexcept { return *this; }
  /// Whether each of these ranks has ended its group.
  [[nodiscard]] bool have_all_left(std::span<std::uint32_t const> ranks) const noexcept;

  /// A rank that has left owes a message.
  void break_by_leaving(std::uint32_t rank) noexcept;
  /// A channel to `rank` has broken by `why`.
  void break_by_end(std::uint32_t rank, Error const& why) noexcept { note_end(rank, why); }

  /// Takes news that are of no link.
  void note(Ready const& news) noexcept {
    if (news.what == Ready::What::broken) broken_ = news.tag;
  }
  /// Of what came since: the error of a channel that broke.
  [[nodiscard]] Result<void> check() noexcept;
  void end_all(Error const& why) noexcept;

 private:
  void look_for_loss(std::uint64_t tag) noexcept override;
  void note_end(std::uint64_t tag, Error const& why) noexcept override;
  [[nodiscard]] bool is_iwarp() const noexcept;
  /// Null: it is gone.
  [[nodiscard]] Channel* find(std::uint64_t tag) const noexcept;
  /// Whether a rank whose device has refused work has ended, or is about to: its memory goes first.
  [[nodiscard]] bool has_ended(std::uint32_t rank) noexcept;
  /// What the others learn of a channel to `rank` that broke, or is about to end, by `why`.
  [[nodiscard]] Error lost(std::uint32_t rank, Error const& why) noexcept;

  GroupState& group_;
  std::vector<PeersState*> all_{};         // by the upper half of their tags, less 1
  std::optional<std::uint64_t> broken_{};  // the tag of a channel
};

}  // namespace lend::group
