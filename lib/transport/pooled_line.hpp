// SPDX-License-Identifier: MIT OR Apache-2.0
// Words and messages as sends of a channel, and as receives of its MessagePool: see buffer_line.hpp
// for what they are. The thread of the set.
#pragma once

#include <base/ring.hpp>
#include <transport/channel_line.hpp>
#include <transport/pool_share.hpp>
#include <verbs/post/plain_work.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace lend::transport {

class PooledLine final : public ChannelLine, private PoolUser {
 public:
  /// Over `channel`, connected, whose messages come to `share`. At most `messages` are sent at a
  /// time.
  PooledLine(Channel channel, std::shared_ptr<PoolShare> share, std::uint32_t messages);
  ~PooledLine() override { close(); }

  [[nodiscard]] Result<bool> poll() noexcept override;
  [[nodiscard]] Result<std::optional<Arrival>> next() noexcept override;
  [[nodiscard]] Message message(Arrival const& arrival, std::uint32_t cell) noexcept override;
  void post_again(std::uint32_t slot) noexcept override { share_->give_back(slot); }
  [[nodiscard]] std::optional<std::span<std::byte>> room(std::size_t least, std::size_t most,
                                                         std::uint32_t cell) noexcept override;
  void leave_room() noexcept override;
  [[nodiscard]] Result<bool> send(Word const& word, std::uint32_t cell) noexcept override;
  [[nodiscard]] bool is_pooled() const noexcept override { return true; }
  [[nodiscard]] observe::Tally* tally() const noexcept override { return buffers_.tally(); }
  [[nodiscard]] std::uint32_t grant_at_arrival(std::uint64_t allowed,
                                               std::uint32_t left) noexcept override {
    auto const more = share_->grants().arrive(buffers_.shared(), allowed,
                                              left - std::min(left, share_->waiting()));
    buffers_.count_receives();
    return more;
  }
  [[nodiscard]] std::uint32_t grant_at_release() noexcept override {
    return share_->grant_at_release();
  }
  [[nodiscard]] std::uint32_t grant_to_stopped() noexcept override;
  void note_granting_word() noexcept override { share_->grants().note_word(); }
  void stop_granting() noexcept override { share_->stop_granting(); }
  [[nodiscard]] std::shared_ptr<void const> keeps() const noexcept override { return share_; }
  void close() noexcept override;

 private:
  void give_back_sent() noexcept override;
  void wake() noexcept override { inside().note_news(); }
  void give_back_first() noexcept;
  [[nodiscard]] Result<bool> send_message(Word const& word) noexcept;
  [[nodiscard]] Result<bool> send_word(Word const& word) noexcept;

  std::shared_ptr<PoolShare> share_;
  SharedBuffers& buffers_;
  verbs::Form<Send> form_{};
  base::Ring<std::uint32_t> sending_;  // drafts, in order
  std::uint64_t given_back_ = 0;       // of all messages
  std::uint32_t next_word_ = 0;        // of this transport
  bool waits_for_draft_ = false;       // and has not been told since that one is free
  bool lacks_draft_ = false;           // until it gets one
  std::uint64_t lacked_at_ = 0;        // Grants::stopped_at(), when it last got nothing
};

}  // namespace lend::transport
