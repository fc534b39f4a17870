// SPDX-License-Identifier: MIT OR Apache-2.0
// The sends of a link, which use their slots in turn. The thread of the group.
#pragma once

#include <base/copy_bytes.hpp>
#include <base/ring.hpp>
#include <group/link/link_memory.hpp>
#include <group/link/message_head.hpp>
#include <lend/base/result.hpp>
#include <lend/channel/channel.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/channel/unsafe.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace lend::group {

class SendRing {
 public:
  /// `memory` outlives it.
  SendRing(LinkMemory& memory, std::uint32_t count) : memory_{memory}, handles_(count) {}

  /// Frees the next slot if its last send is over. False: all are under way.
  [[nodiscard]] Result<bool> free_next() noexcept {
    auto& handle = handles_[next_];
    if (!handle) return true;
    LEND_TRY(done, handle->poll());
    if (!done) return false;
    handle.reset();
    return true;
  }
  /// Shape:   the next slot is free.
  [[nodiscard]] Result<void> send(Channel& channel, MessageHead const& head,
                                  std::span<std::byte const> bytes) noexcept {
    std::byte* const room = memory_.to_send(next_);
    std::memcpy(room, &head, sizeof head);
    base::copy_bytes({room + sizeof head, bytes.size()}, bytes);
    // SAFETY: as in ReceiveRing::post_again().
    LEND_TRY(handle,
             unsafe_post_send(channel, memory_.send_source(next_, sizeof head + bytes.size())));
    handles_[next_].emplace(std::move(handle));
    next_ = base::next_in_turn(next_, handles_.size());
    return success();
  }
  /// Whether all that was sent has arrived, or will not.
  [[nodiscard]] bool is_quiet() noexcept {
    // The peer's receives are posted, so that its device takes all without the peer's program.
    return std::ranges::all_of(handles_, [](auto& handle) {
      if (!handle) return true;
      auto const done = handle->poll();
      return !done.has_value() || done.value().has_value();
    });
  }

 private:
  LinkMemory& memory_;
  std::vector<std::optional<PendingWork>> handles_;  // by slot
  std::size_t next_ = 0;                             // a slot
};

}  // namespace lend::group
