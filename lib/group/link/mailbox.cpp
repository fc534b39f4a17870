// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the group.
#include <group/link/mailbox.hpp>
#include <verbs/memory/apart_memory.hpp>

#include <bit>
#include <utility>

namespace lend::group {

std::size_t Mailbox::bytes_for(std::uint32_t window) noexcept {
  return (std::size_t{1} + std::bit_ceil(window)) * WrittenMessage::bytes;
}

Result<Mailbox> Mailbox::create(ProtectionDomain const& domain, std::span<std::byte> place) {
  LEND_TRY(memory, domain.unsafe_register_exposed(place, RemoteAccess::write));
  return Mailbox{std::move(memory), place.data(), slots_in(place.size())};
}

Mailbox::Mailbox(MemoryRegion memory, std::byte const* place, std::uint32_t slots) noexcept
    : memory_{std::move(memory)}, place_{place}, slots_{slots} {}

std::uint32_t Mailbox::slots_in(std::size_t bytes) noexcept {
  auto const slots = bytes / WrittenMessage::bytes - 1;
  return bytes >= 2 * WrittenMessage::bytes && slots <= UINT32_MAX && std::has_single_bit(slots)
             ? static_cast<std::uint32_t>(slots)
             : 0;
}

std::optional<std::uint32_t> Mailbox::take_freed() noexcept {
  auto const word = ReadSlot{place_}.load(0);
  auto const freed = static_cast<std::uint32_t>(word);
  if (word == freed_word_ || word != word_of(freed)) return {};
  freed_word_ = word;
  return freed;
}

Result<bool> Mailbox::take(MessageHead& head, Values& values) noexcept {
  switch (WrittenMessage::read(next_slot(), next_, head, values)) {
    case Look::nothing: return false;
    case Look::other:
      return Error{Errc::incompatible_peer, "a message that a rank wrote is damaged"};
    case Look::expected: break;
  }
  ++next_;
  return true;
}

Mailboxes::Mailboxes(ProtectionDomain const& domain, MemoryRegion memory,
                     std::uint32_t window) noexcept
    : domain_{domain}, memory_{std::move(memory)}, bytes_{Mailbox::bytes_for(window)} {}

Result<Mailboxes> Mailboxes::create(ProtectionDomain const& domain, std::uint32_t count,
                                    std::uint32_t window) {
  LEND_TRY(memory, verbs::ApartMemory::allocate(domain, count * Mailbox::bytes_for(window)));
  return Mailboxes{domain, std::move(memory), window};
}

Result<Mailbox> Mailboxes::make_next() {
  LEND_TRY(bytes, memory_.mutable_bytes());
  return Mailbox::create(domain_, bytes.subspan(std::exchange(used_, used_ + bytes_), bytes_));
}

}  // namespace lend::group
