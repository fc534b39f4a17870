// SPDX-License-Identifier: MIT OR Apache-2.0
// The peer's mailbox, as this rank writes to it: by stores of its thread where it has mapped it,
// else by requests, which are the link's. The thread of the group.
#pragma once

#include <group/link/mailbox.hpp>
#include <group/link/written_message.hpp>
#include <lend/verbs/remote_region.hpp>
#include <verbs/memory/apart_memory.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lend::group {

class PeerMailbox {
 public:
  PeerMailbox() = default;
  /// None if `region` has no room for the messages of a window. `queue_pair` is connected.
  PeerMailbox(RemoteRegion const& region, std::uint32_t window,
              verbs::QueuePairHandle const& queue_pair) noexcept;

  [[nodiscard]] bool exists() const noexcept { return slots_ != 0; }
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

  // By requests: where, and what is to be written there.
  [[nodiscard]] std::uint32_t next_number() const noexcept { return written_ + 1; }
  [[nodiscard]] std::size_t next_place() const noexcept {
    return Mailbox::place_of(next_number(), slots_);
  }
  void note_written() noexcept { ++written_; }
  [[nodiscard]] RemoteSlice slice(std::size_t place, std::size_t length) const noexcept {
    return region_.slice(place, length);
  }

 private:
  RemoteRegion region_{};
  std::uint32_t slots_ = 0;    // 0: nothing is written
  std::uint32_t written_ = 0;  // messages; wraps
  verbs::PeerBytes mapped_{};
};

}  // namespace lend::group
