// SPDX-License-Identifier: MIT OR Apache-2.0
// The receives of a link, which complete in the order in which they were posted. The thread of the
// group.
#pragma once

#include <base/ring.hpp>
#include <channel/work/access.hpp>
#include <group/link/link_memory.hpp>
#include <lend/base/result.hpp>
#include <lend/channel/channel.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/channel/prepared_channel.hpp>
#include <lend/channel/unsafe.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace lend::group {

class ReceiveRing {
 public:
  /// `memory` outlives it.
  ReceiveRing(LinkMemory& memory, std::uint32_t count)
      : memory_{memory}, handles_(count), order_{count} {}

  /// Posts all.
  /// Errors:  those of PreparedChannel::post_receive().
  [[nodiscard]] Result<void> post_all(PreparedChannel& prepared) {
    for (std::uint32_t slot = 0; slot < handles_.size(); ++slot) {
      LEND_TRY(handle, prepared.post_receive(memory_.receive_target(slot)));
      note_posted(slot, std::move(handle));
    }
    return success();
  }
  /// A slot whose message was taken.
  /// Errors:  those of unsafe_post_receive().
  [[nodiscard]] Result<void> post_again(Channel& channel, std::uint32_t slot) noexcept {
    if (channel.first_cause() != nullptr) return success();  // nothing more will come
    // SAFETY: the memory is the link's, which ends after the channel. These bytes are read once the
    // handle has the result.
    LEND_TRY(handle, unsafe_post_receive(channel, memory_.receive_target(slot)));
    note_posted(slot, std::move(handle));
    return success();
  }

  [[nodiscard]] std::size_t outstanding() const noexcept { return order_.size(); }
  [[nodiscard]] bool has_taken_any() const noexcept { return has_taken_any_; }
  /// Takes the next message, of `bytes` bytes, from `slot`. False: it has not come, as far as is
  /// known without a poll if not `polls`.
  /// Errors:  as PendingWork::poll().
  /// Shape:   some are outstanding.
  [[nodiscard]] Result<bool> take(bool polls, std::uint32_t& slot, std::size_t& bytes) noexcept {
    slot = order_.front();
    if (!polls && !channel::HandleAccess::is_worth_a_poll(*handles_[slot])) return false;
    LEND_TRY(done, handles_[slot]->poll());
    if (!done) return false;
    order_.pop();
    has_taken_any_ = true;
    bytes = done->bytes;
    return true;
  }

 private:
  void note_posted(std::uint32_t slot, PendingWork handle) noexcept {
    handles_[slot].emplace(std::move(handle));
    order_.push() = slot;
  }

  LinkMemory& memory_;
  std::vector<std::optional<PendingWork>> handles_;  // by slot
  base::Ring<std::uint32_t> order_;                  // slots in the order of posting
  bool has_taken_any_ = false;
};

}  // namespace lend::group
