// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory of a link to which the peer writes short messages, which need no receive and no completion
// here. Its device writes, or where it has mapped this memory its thread. The thread of the group
// reads; the peer may write at any time.
#pragma once

#include <group/link/message_head.hpp>
#include <group/link/written_message.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/memory_region.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <lend/verbs/remote_region.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace lend::group {

/// First the number of messages that the peer has freed, one word; then slots, in turn, as many as
/// the messages of a window or more.
class Mailbox {
 public:
  using Look = WrittenMessage::Look;
  using Values = std::array<std::byte, WrittenMessage::values_max>;

  /// The bytes of one for such a window.
  [[nodiscard]] static std::size_t bytes_for(std::uint32_t window) noexcept;
  /// Exposes `place`, of bytes_for() a window, which outlives it.
  /// Errors:  those of ProtectionDomain::unsafe_register_exposed().
  [[nodiscard]] static Result<Mailbox> create(ProtectionDomain const& domain,
                                              std::span<std::byte> place);
  /// The slots of a mailbox of so many bytes: a power of two, so that numbers may wrap; or none.
  [[nodiscard]] static std::uint32_t slots_in(std::size_t bytes) noexcept;
  /// Where message number `number` is written.
  [[nodiscard]] static std::size_t place_of(std::uint32_t number, std::uint32_t slots) noexcept {
    return (1 + (number & (slots - 1))) * WrittenMessage::bytes;
  }

  [[nodiscard]] Result<RemoteRegion> remote() const noexcept { return memory_.remote(); }
  /// Whether the peer has written how many messages it has freed, since take_freed().
  [[nodiscard]] bool has_freed() const noexcept { return ReadSlot{place_}.load(0) != freed_word_; }
  /// How many these are. Nothing: it has not, or a part of the word has come.
  [[nodiscard]] std::optional<std::uint32_t> take_freed() noexcept;
  /// As it is written, to place 0.
  [[nodiscard]] static std::uint64_t word_of(std::uint32_t freed) noexcept {
    return static_cast<std::uint64_t>(~freed) << 32 | freed;
  }
  [[nodiscard]] std::uint32_t slots() const noexcept { return slots_; }
  /// Whether the next message has come, or a part of it.
  [[nodiscard]] bool has_next() const noexcept { return next_slot().load(0) >> 32 == next_; }
  /// The next message and its values. False: it has not come yet, or not all of it.
  /// Errors:  incompatible_peer  no rank writes such messages.
  [[nodiscard]] Result<bool> take(MessageHead& head, Values& values) noexcept;
  /// Whether the next message is this one, as WrittenMessage::look(). It stays the next one.
  [[nodiscard]] Look look(MessageHead const& expected, std::uint32_t& freed,
                          std::byte* values) const noexcept {
    return WrittenMessage::look(next_slot(), next_, expected, freed, values);
  }
  /// Done with the next message.
  void note_taken() noexcept { ++next_; }

 private:
  Mailbox(MemoryRegion memory, std::byte const* place, std::uint32_t slots) noexcept;
  [[nodiscard]] ReadSlot next_slot() const noexcept { return {place_ + place_of(next_, slots_)}; }

  MemoryRegion memory_;
  std::byte const* place_;  // in it
  std::uint32_t slots_;
  std::uint64_t freed_word_ = 0;  // that was taken last
  std::uint32_t next_ = 1;        // wraps
};

/// The mailboxes of one rank, in memory in which nothing else ever lies: a peer may store into its
/// mailbox for as long as it has that mapped, whatever has become of this rank's group.
class Mailboxes {
 public:
  /// Errors:  those of ProtectionDomain::allocate().
  [[nodiscard]] static Result<Mailboxes> create(ProtectionDomain const& domain, std::uint32_t count,
                                                std::uint32_t window);
  /// The next one, at most as often as `count` said. It ends before this.
  /// Errors:  those of Mailbox::create().
  [[nodiscard]] Result<Mailbox> make_next();

 private:
  Mailboxes(ProtectionDomain const& domain, MemoryRegion memory, std::uint32_t window) noexcept;

  ProtectionDomain domain_;
  MemoryRegion memory_;
  std::size_t used_ = 0;  // bytes of it
  std::size_t bytes_;     // of one
};

}  // namespace lend::group
