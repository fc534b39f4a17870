// SPDX-License-Identifier: MIT OR Apache-2.0
// Words as immediates, messages as the writes that carry them, into a ring of the peer's. Receives
// have no bytes. The thread of the transport.
#pragma once

#include <lend/verbs/memory_region.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <lend/verbs/remote_region.hpp>
#include <transport/channel_line.hpp>
#include <transport/staging.hpp>
#include <verbs/plain_work.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lend::transport {

/// Receives of a ring that are not posted again as soon as they have completed: the last one waits
/// until the answer to its message is on its way, or the next message comes.
inline constexpr std::uint32_t spare_receives = 1;

class RingLine final : public ChannelLine {
 public:
  /// What the peer writes to, what it writes from, and where.
  struct Rings {
    MemoryRegion own;
    MemoryRegion staging;  ///< a message leaves it when the peer's device has acknowledged it
    RemoteRegion peers;
  };
  /// Over `channel`, connected, whose receives are only_immediate(). Shape: no byte is on loan.
  /// `window`: of the messages that come; `messages` are sent at a time.
  RingLine(Channel channel, std::vector<PendingWork> handles, Rings rings, std::uint32_t window,
           std::uint32_t messages);
  ~RingLine() override;

  [[nodiscard]] Result<std::optional<Arrival>> next() noexcept override;
  [[nodiscard]] Message message(Arrival const& arrival, std::uint32_t cell) noexcept override;
  void post_again(std::uint32_t slot) noexcept override;
  [[nodiscard]] std::optional<std::span<std::byte>> room(std::size_t least, std::size_t most,
                                                         std::uint32_t cell) noexcept override;
  [[nodiscard]] Result<bool> send(Word const& word, std::uint32_t cell) noexcept override;

 private:
  void post_spare() noexcept;
  [[nodiscard]] std::optional<std::span<std::byte>> room_after_polling(std::size_t least,
                                                                       std::size_t most) noexcept;
  [[nodiscard]] std::span<std::byte> next_staged(std::size_t bytes) const noexcept;
  [[nodiscard]] Result<bool> send_word(Word const& word) noexcept;
  /// False as post_unheld().
  [[nodiscard]] bool post_message(Word const& word, std::uint32_t cell) noexcept;

  Rings rings_;
  verbs::Form<Write> form_{};
  std::span<std::byte> own_, staging_;  // the bytes of both
  Staging staged_;
  std::optional<std::uint32_t> spare_{};  // the receive that is not posted again yet
  std::uint32_t window_, next_slot_ = 0;
  // What is poisoned for AddressSanitizer but for messages that are held, which are here by slot.
  std::vector<std::span<std::byte const>> lent_;
};

}  // namespace lend::transport
