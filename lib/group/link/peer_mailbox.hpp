// SPDX-License-Identifier: MIT OR Apache-2.0
// The peer's mailbox, as this rank writes to it: by stores of its thread where it has mapped it,
// else by requests of the link's channel. The thread of the group.
#pragma once

#include <group/link/link_memory.hpp>
#include <group/link/mailbox.hpp>
#include <group/link/written_message.hpp>
#include <lend/base/result.hpp>
#include <lend/channel/channel.hpp>
#include <lend/channel/unsafe.hpp>
#include <lend/verbs/remote_region.hpp>
#include <verbs/memory/apart_memory.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace lend::group {

class PeerMailbox {
 public:
  PeerMailbox() = default;
  /// None if `region` has no room for the messages of a window. `queue_pair` is connected.
  PeerMailbox(RemoteRegion const& region, std::uint32_t window,
              verbs::QueuePairHandle const& queue_pair) noexcept
      : region_{region} {
    auto const slots = Mailbox::slots_in(region.size());
    if (slots < window) return;
    slots_ = slots;
    mapped_ = verbs::peer_bytes(queue_pair, region, WrittenMessage::bytes);
  }

  [[nodiscard]] bool exists() const noexcept { return slots_ != 0; }
  /// Whether such a message is written: a short one, whose number a window bounds.
  [[nodiscard]] bool takes(MessageHead const& head) const noexcept {
    return exists() && head.length <= WrittenMessage::values_max &&
           (head.kind == MessageHead::Kind::part || head.kind == MessageHead::Kind::come);
  }
  /// Whether messages are stored. Where faults were planned once they are requests for good: an old
  /// request could replace a count that was stored after it.
  [[nodiscard]] bool is_stored_to() noexcept {
    if (mapped_.address == nullptr) return false;
    if (!mapped_.are_faults_planned->load(std::memory_order_relaxed)) [[likely]]
      return true;
    mapped_.address = nullptr;
    return false;
  }

  // Where is_stored_to().
  void store(MessageHead const& head, std::byte const* values) noexcept {
    auto const number = ++written_;
    WrittenMessage::store(MappedSlot{mapped_.address + Mailbox::place_of(number, slots_)}, number,
                          head, values);
  }
  void store_freed(std::uint32_t freed) noexcept {
    // Release: what was freed was read.
    MappedSlot{mapped_.address}.store(0, Mailbox::word_of(freed), std::memory_order_release);
  }

  // Otherwise by inline writes, whose bytes `memory` has until they are posted. `channel` has room.
  // Errors:  those of unsafe_post_write().
  // SAFETY:  the device copies bytes that go inline. The peer gave its mailbox to be written so.
  [[nodiscard]] Result<void> write(Channel& channel, LinkMemory& memory, MessageHead const& head,
                                   std::byte const* values) noexcept {
    // Before the message is seen all is seen that this rank has stored for its reader.
    std::atomic_thread_fence(std::memory_order_release);
    auto const number = written_ + 1;
    auto const length = WrittenMessage::encode(memory.to_write(), number, head, values);
    auto const slot = region_.slice(Mailbox::place_of(number, slots_), length);
    LEND_TRYV(unsafe_post_write(channel, {memory.write_source(length), slot}));
    written_ = number;
    return success();
  }
  [[nodiscard]] Result<void> write_freed(Channel& channel, LinkMemory& memory,
                                         std::uint32_t freed) noexcept {
    std::atomic_thread_fence(std::memory_order_release);  // what was freed was read
    auto const word = Mailbox::word_of(freed);
    std::memcpy(memory.to_write(), &word, sizeof word);
    return without_value(unsafe_post_write(
        channel, {memory.write_source(sizeof word), region_.slice(0, sizeof word)}));
  }

 private:
  RemoteRegion region_{};
  std::uint32_t slots_ = 0;    // 0: nothing is written
  std::uint32_t written_ = 0;  // messages; wraps
  verbs::PeerBytes mapped_{};
};

}  // namespace lend::group
