// SPDX-License-Identifier: MIT OR Apache-2.0
// A group at one rank: its parts, what broke it, and how it ends. The thread of the group.
#pragma once

#include <group/link/links.hpp>
#include <group/link/long_buffers.hpp>
#include <group/link/rank_status.hpp>
#include <group/state/calls.hpp>
#include <group/state/group_failure.hpp>
#include <group/state/peer_list.hpp>
#include <group/state/teams.hpp>
#include <lend/base/result.hpp>
#include <lend/channel/wait_set.hpp>
#include <lend/group/prepared_group.hpp>
#include <verbs/device/forking.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace lend::group {

/// Of a group among those that its ranks have been in.
struct History {
  std::uint32_t generation = 1;
  std::uint32_t seen = 1;             ///< the latest that a desk has proposed to this rank
  std::uint64_t finished = 0;         ///< calls of the whole group
  std::uint64_t finished_by_all = 0;  ///< of the group before
};

class GroupState {
 public:
  [[nodiscard]] static Result<std::shared_ptr<GroupState>> prepare(ProtectionDomain const& domain,
                                                                   Ranks ranks,
                                                                   GroupOptions const& options);
  GroupState(ProtectionDomain const& domain, WaitSet set, OwnStatus status,
             std::optional<MemoryRegion> landing, Ranks ranks, GroupOptions const& options);
  GroupState(GroupState const&) = delete;
  GroupState& operator=(GroupState const&) = delete;
  ~GroupState() { leave(); }

  [[nodiscard]] Links& links() noexcept { return links_; }
  [[nodiscard]] Teams& teams() noexcept { return teams_; }
  [[nodiscard]] PeerList& peers() noexcept { return peers_; }
  [[nodiscard]] GroupFailure& failure() noexcept { return failure_; }
  [[nodiscard]] Calls& calls() noexcept { return calls_; }
  [[nodiscard]] History& history() noexcept { return history_; }

  /// Before Links::connect(), as Links::keep().
  void keep(std::span<std::uint32_t const> ranks);
  /// Not all ranks met: it ends without a word to the others.
  void end_silently() noexcept { failure_.set(Error{Errc::peer_lost}); }
  /// Tells the others, unless the group is broken or a call is under way, and disconnects. Handles
  /// of teams may stay.
  void leave() noexcept;

  /// Ends the call under way, and those that were posted, and so breaks the group.
  void abandon() noexcept;
  /// With a reason, also between calls.
  void abandon(std::string_view why) noexcept;
  /// Tells the others why; they know it before they can see that the links end.
  void break_by(Error const& error) noexcept;

  [[nodiscard]] bool has_left() const noexcept { return has_left_; }
  [[nodiscard]] bool is_inherited() const noexcept { return inheritance_.is_inherited(); }
  /// The group has ended at this rank, or is the parent's.
  [[nodiscard]] bool is_gone() const noexcept { return has_left_ || is_inherited(); }
  [[nodiscard]] bool is_usable() const noexcept {
    return failure_.cause() == nullptr && !is_gone();
  }
  /// Of one that is broken, has ended, or is the parent's.
  [[nodiscard]] Error why_unusable() const noexcept;

 private:
  verbs::Inheritance inheritance_{};
  OwnStatus status_;     // it outlives the links
  LongBuffers buffers_;  // these, too
  Links links_;
  Teams teams_;
  PeerList peers_{*this};
  GroupFailure failure_{};
  History history_{};
  bool has_left_ = false;
  Calls calls_;  // constructed last: it refers to the other parts
};

}  // namespace lend::group
