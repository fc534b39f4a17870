// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory for words and messages. The thread of the transport.
#pragma once

#include <lend/base/lifetime.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/memory_region.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <transport/word.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace lend::transport {

/// Equal parts of a region, each with room for one word and message.
class Buffers {
 public:
  /// Errors:  those of ProtectionDomain::allocate().
  [[nodiscard]] static Result<Buffers> allocate(ProtectionDomain const& domain, std::uint32_t count,
                                                std::uint32_t message_bytes) {
    LEND_TRY(memory, domain.allocate(count * stride(message_bytes)));
    LEND_TRY(bytes, memory.mutable_bytes());
    return Buffers{std::move(memory), bytes.data(), count, message_bytes};
  }

  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
  [[nodiscard]] std::byte* word(std::uint32_t slot) const noexcept { return base_ + at(slot); }
  [[nodiscard]] std::byte* message(std::uint32_t slot) const noexcept {
    return word(slot) + word_bytes;
  }
  [[nodiscard]] ScatterElement whole(std::uint32_t slot) noexcept {
    return memory_.scatter(at(slot), word_bytes + message_bytes_);
  }
  /// The word and the first `bytes` of the message.
  [[nodiscard]] GatherElement first(std::uint32_t slot, std::size_t bytes) const noexcept {
    return memory_.gather(at(slot), word_bytes + bytes);
  }
  /// All of them, in order.
  [[nodiscard]] Chunks<MemoryPiece> pieces() noexcept LEND_LIFETIMEBOUND {
    return memory_.chunks(stride(message_bytes_));
  }
  [[nodiscard]] GatherElement message_of(std::uint32_t slot, std::size_t bytes) const noexcept {
    return memory_.gather(at(slot) + word_bytes, bytes);
  }

 private:
  Buffers(MemoryRegion memory, std::byte* base, std::uint32_t count, std::uint32_t message_bytes)
      : memory_{std::move(memory)}, base_{base}, count_{count}, message_bytes_{message_bytes} {}
  [[nodiscard]] static constexpr std::size_t stride(std::uint32_t message_bytes) noexcept {
    return (word_bytes + std::size_t{message_bytes} + 63) / 64 * 64;
  }
  [[nodiscard]] std::size_t at(std::uint32_t slot) const noexcept {
    return slot * stride(message_bytes_);
  }

  MemoryRegion memory_;
  std::byte* base_;
  std::uint32_t count_, message_bytes_;
};

}  // namespace lend::transport
