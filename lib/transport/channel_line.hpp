// SPDX-License-Identifier: MIT OR Apache-2.0
// Words and messages as sends and receives of a channel: each message is its word, then its bytes.
// The thread of the transport.
#pragma once

#include <lend/channel/builder.hpp>
#include <lend/channel/channel.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/channel/polling_scope.hpp>
#include <lend/channel/prepared_channel.hpp>
#include <lend/verbs/memory_region.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <transport/line.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
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
  [[nodiscard]] std::uint32_t message_bytes() const noexcept { return message_bytes_; }

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

/// A channel with receives that are posted before it is connected.
struct PreparedLine {
  Buffers receives;
  PreparedChannel channel;
  std::vector<PendingWork> handles{};  // by slot

  /// `receives` receives of one message each; room to send as many messages and words.
  /// Errors:  those of prepare_channel() and ProtectionDomain::allocate().
  [[nodiscard]] static Result<PreparedLine> prepare(ProtectionDomain const& domain,
                                                    ChannelOptions options, std::uint32_t window,
                                                    std::uint32_t message_bytes);
};

class ChannelLine final : public Line {
 public:
  /// Over the channel of `prepared`, now connected; sends from `sends`.
  ChannelLine(PreparedLine prepared, Channel channel, Buffers sends, Buffers words);
  ~ChannelLine() override;

  [[nodiscard]] Result<std::optional<Arrival>> next() noexcept override;
  void post_again(std::uint32_t slot) noexcept override;
  [[nodiscard]] std::span<std::byte> room() noexcept override;
  [[nodiscard]] Result<bool> send(Word const& word) noexcept override;
  [[nodiscard]] std::uint32_t sends_in_flight() const noexcept override { return awaited_; }
  [[nodiscard]] Result<bool> poll() noexcept override;
  [[nodiscard]] Result<bool> arm() noexcept override;
  [[nodiscard]] Result<int> descriptor() const noexcept override;
  [[nodiscard]] Deadline look_again() const noexcept override;
  void close() noexcept override;

 private:
  struct Sent {
    std::optional<PendingWork> handle{};
    WordKind kind{};
  };
  /// What broke the channel, as the end of a connection.
  [[nodiscard]] Error loss(Error const& error) const noexcept;
  /// Takes the results of sends that are done. They are in the order of posting.
  void take_sends() noexcept;
  /// Whether a slot of `buffers` is free, of which `busy` are not.
  [[nodiscard]] bool has_slot(Buffers const& buffers, std::uint32_t const& busy) noexcept;

  // Destroyed from below: the channel ends the work before its memory ends.
  Buffers receives_, sends_, words_;
  std::optional<Channel> channel_;  // none once it was closed
  std::optional<PollingScope> scope_{};

  std::vector<std::optional<PendingWork>> handles_;  // of receives, by slot
  std::vector<std::uint32_t> posted_;                // slots in the order of posting: a ring
  std::size_t oldest_ = 0, outstanding_ = 0;         // in posted_
  std::vector<Sent> sent_;                           // a ring
  std::size_t oldest_sent_ = 0;
  std::uint32_t in_flight_ = 0;                    // of sent_
  std::uint32_t awaited_ = 0;                      // of these, all but credits
  std::uint32_t next_send_ = 0, next_word_ = 0;    // slots
  std::uint32_t busy_sends_ = 0, busy_words_ = 0;  // slots
  bool has_failed_sends_ = false;
};

}  // namespace lend::transport
