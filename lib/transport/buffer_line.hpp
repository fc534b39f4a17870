// SPDX-License-Identifier: MIT OR Apache-2.0
// Words and messages as sends and receives of a channel: each message is its word, then its bytes.
// The thread of the transport.
#pragma once

#include <transport/buffers.hpp>
#include <transport/channel_line.hpp>
#include <verbs/post/plain_work.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace lend::transport {

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
  [[nodiscard]] LentReads* lent_reads() noexcept override { return own_lent_reads(); }

 private:
  Buffers receives_, sends_, words_;
  verbs::Form<Send> form_{};
  std::uint32_t next_send_ = 0, next_word_ = 0;  // slots
};

}  // namespace lend::transport
