// SPDX-License-Identifier: MIT OR Apache-2.0
// Words and messages as sends and receives of a channel: each message is its word, then its bytes.
// The thread of the transport.
#pragma once

#include <lend/verbs/memory_region.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <transport/channel_line.hpp>
#include <verbs/post/plain_work.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace lend::transport {

/// Equal parts of a region, each with room for one word and message.
class Buffers {
 public:
  /// Errors:  those of ProtectionDomain::allocate().
  [[nodiscard]] static Result<Buffers> allocate(ProtectionDomain const& domain, std::uint32_t count,
                                                std::uint32_t message_bytes);

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

class BufferLine final : public ChannelLine {
 public:
  /// Over `channel`, connected, whose receives are posted into `receives`; sends from `sends`.
  BufferLine(Channel channel, std::vector<PendingWork> handles, Buffers receives, Buffers sends,
             Buffers words);
  ~BufferLine() override { close(); }

  [[nodiscard]] Result<std::optional<Arrival>> next() noexcept override;
  [[nodiscard]] Message message(Arrival const& arrival, std::uint32_t cell) noexcept override;
  void post_again(std::uint32_t slot) noexcept override;
  [[nodiscard]] std::optional<std::span<std::byte>> room(std::size_t least, std::size_t most,
                                                         std::uint32_t cell) noexcept override;
  [[nodiscard]] Result<bool> send(Word const& word, std::uint32_t cell) noexcept override;
  [[nodiscard]] LentReads* lent_reads() noexcept override { return this; }

 private:
  Buffers receives_, sends_, words_;
  verbs::Form<Send> form_{};
  std::uint32_t next_send_ = 0, next_word_ = 0;  // slots
};

}  // namespace lend::transport
