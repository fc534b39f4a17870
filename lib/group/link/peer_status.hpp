// SPDX-License-Identifier: MIT OR Apache-2.0
// The status of a link's peer and the room behind it, as this rank reads them: that takes the
// peer's device and not its program. The thread of the group.
#pragma once

#include <group/link/link_memory.hpp>
#include <group/link/rank_status.hpp>
#include <group/schedule/long_schedule.hpp>
#include <lend/base/result.hpp>
#include <lend/channel/channel.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/verbs/remote_region.hpp>
#include <verbs/memory/apart_memory.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace lend::group {

class PeerStatus {
 public:
  /// `channel` and `memory` outlive it. `region` is what the peer's card says.
  PeerStatus(Channel& channel, LinkMemory& memory, RemoteRegion const& region) noexcept;

  // ---- what the peer is in ----

  /// Reads it. False: this cannot be. A peer that has left is not to be asked.
  [[nodiscard]] bool ask() noexcept;
  /// Whether it was read, or will not be.
  [[nodiscard]] bool has_answer() noexcept;
  /// Nothing: it was not read, or while it changed.
  [[nodiscard]] std::optional<RankStatus> answer() const noexcept;
  /// An answer that is still to come to a previous question does not count either.
  void forget_answer() noexcept {
    is_answered_ = false;
    is_question_old_ = question_.has_value();
  }

  // ---- its room ----

  /// Bytes of it as this process has mapped them. They are as when a message said that they are
  /// there, until this rank has said that it has read them. Null: read() them.
  [[nodiscard]] std::byte const* mapped(std::size_t offset, std::size_t length) const noexcept;
  /// Reads those bytes into `target`, one read at a time for each lane.
  [[nodiscard]] Result<void> read(std::uint32_t lane, std::size_t offset,
                                  ScatterElement target) noexcept;
  /// Reads bytes that the peer has shown.
  [[nodiscard]] Result<void> read(std::uint32_t lane, RemoteSlice bytes,
                                  ScatterElement target) noexcept;
  [[nodiscard]] Result<bool> has_read(std::uint32_t lane) noexcept;
  /// Ends a read, and the link with it if the read is not over. Why the device keeps it, and may
  /// still write to its target; otherwise nothing. May take up to 2 s where a device does not
  /// return it.
  [[nodiscard]] std::optional<Error> end_read(std::uint32_t lane) noexcept;

 private:
  Channel& channel_;
  LinkMemory& memory_;
  RemoteRegion region_;
  verbs::PeerBytes mapped_;  // the same
  std::optional<PendingWork> question_{};
  bool is_question_old_ = false, is_answered_ = false;
  std::array<std::optional<PendingWork>, long_buffer_count> reading_{};  // by lane
};

}  // namespace lend::group
