// SPDX-License-Identifier: MIT OR Apache-2.0
// Words as immediates, messages as the writes that carry them, into a ring of the peer's. Receives
// have no bytes. The thread of the transport.
#pragma once

#include <lend/verbs/memory_region.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <lend/verbs/remote_region.hpp>
#include <transport/channel_line.hpp>
#include <transport/staging.hpp>
#include <verbs/post/plain_work.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lend::transport {

/// Receives of a ring that need not be posted: the last ones that completed wait, so that several
/// are posted by one call, if possible behind a message of this end's that is on its way.
inline constexpr std::uint32_t spare_receives = flow::EmptyReceives::at_once_max;

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
  /// By the device, where that copies them straight to the peer's ring.
  [[nodiscard]] bool send_at_once(Word const& word, std::uint32_t cell,
                                  std::span<std::byte const> bytes) noexcept override;
  [[nodiscard]] LentReads* lent_reads() noexcept override { return own_lent_reads(); }

 private:
  /// Posts the receives that are not, once there are `enough`.
  void post_spare(std::uint32_t enough) noexcept;
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
  channel::ScopeRecord empty_{};  // of receives by empties_, which need no handles
  flow::EmptyReceives empties_{};
  std::uint32_t spare_ = 0;    // receives that are not posted again yet
  bool const writes_at_once_;  // its device, where it can
  std::uint32_t window_, next_slot_ = 0;
  // What is poisoned for AddressSanitizer but for messages that are held, which are here by slot.
  std::vector<std::span<std::byte const>> lent_;
};

}  // namespace lend::transport
