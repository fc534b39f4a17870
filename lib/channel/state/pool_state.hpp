// SPDX-License-Identifier: MIT OR Apache-2.0
// The state of a ReceivePool: which piece is posted, has a message, or waits to be posted again.
// The thread of the set.
#pragma once

#include <base/loan.hpp>
#include <channel/parts/linked_list.hpp>
#include <channel/state/set_state.hpp>
#include <lend/channel/receive_pool.hpp>
#include <lend/verbs/receive_queue.hpp>
#include <observe/tally.hpp>
#include <verbs/device/forking.hpp>
#include <verbs/queue/polling.hpp>
#include <verbs/queue/receive_form.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace lend::channel {

class ChannelState;

// The id of a pool's receive: a bit that no SlotId of a channel has, for a failed completion tells
// no opcode; the pool's number and the piece's; above them how often the piece was posted.
inline constexpr std::uint64_t pooled_bit = std::uint64_t{1} << 31;
[[nodiscard]] constexpr bool is_pooled(std::uint64_t id) noexcept {
  return (id & pooled_bit) != 0;
}

class PoolState {
 public:
  static constexpr std::uint32_t number_max = 127;
  static constexpr std::uint32_t pieces_max = 1u << 24;
  [[nodiscard]] static std::uint32_t number_of(std::uint64_t id) noexcept {
    return static_cast<std::uint32_t>(id >> 24) & number_max;
  }

  /// Errors:  as ReceivePool::create().
  [[nodiscard]] static Result<PoolState*> create(std::shared_ptr<SetState> set,
                                                 Chunks<MemoryPiece> const& pieces,
                                                 ReceivePoolOptions const& options,
                                                 SourceLine where);
  /// The ReceivePool ends. Deletes the state now, or when the last message goes.
  static void end(PoolState* pool) noexcept;

  [[nodiscard]] SetState& set() const noexcept { return *set_; }
  [[nodiscard]] ReceiveQueue const& queue() const noexcept { return queue_; }
  [[nodiscard]] ibv_pd* native_domain() const noexcept { return native_domain_; }
  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  [[nodiscard]] std::uint32_t posted() const noexcept { return posted_; }

  /// A receive completed; `channel` is null if it is gone.
  void complete(verbs::CompletionEntry entry, ChannelState* channel) noexcept;
  /// The next message, which is held from here on.
  [[nodiscard]] std::optional<Message> next() noexcept;
  /// A message goes, or the taker of a channel gives its piece back.
  void release(std::uint32_t piece) noexcept;
  /// Posts the pieces again whose last loan has ended meanwhile.
  void post_waiting() noexcept;
  /// Of a listed pool; what is left is listed again.
  [[nodiscard]] Ready take_news() noexcept;

  /// The channels that use it.
  LinkedList<ChannelState> users{};

 private:
  friend struct Arrival;
  friend class lend::Message;
  struct End {
    void operator()(PoolState* pool) const noexcept { end(pool); }
  };
  struct Piece {
    base::Loan loan{};
    ByteRange range{};
    std::uint64_t id = 0;  // of its posting, or 0
    std::uint64_t tag = 0;
    std::optional<std::uint32_t> immediate{};
    std::uint32_t bytes = 0;
    std::uint32_t next = no_piece;  // with a message
  };
  static constexpr std::uint32_t no_piece = UINT32_MAX;

  PoolState(std::shared_ptr<SetState> set, ReceiveQueue queue, verbs::RegionState& region,
            std::size_t count, ReceivePoolOptions const& options);
  ~PoolState();
  PoolState(PoolState const&) = delete;
  PoolState& operator=(PoolState const&) = delete;

  [[nodiscard]] std::span<Piece> pieces() const noexcept { return {pieces_.get(), count_}; }
  [[nodiscard]] Result<void> lend_and_post(Chunks<MemoryPiece> const& pieces,
                                           SourceLine const& where);
  [[nodiscard]] std::uint64_t next_id_of(std::uint32_t piece) noexcept;
  void count_posted() noexcept;
  /// Of those now posted.
  void tell_posted() noexcept {
    tally_->set_part(observe::PoolPart::pieces, count_ - posted_, posted_);
  }
  /// Posts a piece that was posted before, and is lent exclusively. False: the device refuses.
  [[nodiscard]] bool post_again(std::uint32_t piece) noexcept;
  void count_message() noexcept;
  /// A message for the channel's taker.
  void hand_over(std::uint32_t piece, ChannelState& channel) noexcept;
  void post_or_wait(std::uint32_t piece) noexcept;
  void wait(std::uint32_t piece) noexcept;
  void release_after_end(std::uint32_t piece) noexcept;
  void end_users() noexcept;
  /// Of all pieces without a message that is held.
  void end_loans_of_others() noexcept;
  void note_if_low() noexcept;

  std::shared_ptr<SetState> set_;
  ReceiveQueue queue_;
  verbs::ReceiveForm form_;
  verbs::RegionState& region_;
  ibv_pd* native_domain_;
  std::unique_ptr<Piece[]> pieces_;
  std::uint32_t const count_;             // of them
  std::vector<std::uint32_t> waiting_{};  // to be posted; room for all
  std::uint32_t number_ = 0;
  std::uint32_t first_ = no_piece;  // with a message that was not taken yet
  std::uint32_t last_ = no_piece;
  std::uint32_t posted_ = 0;
  std::uint32_t held_ = 0;
  ReceivePoolOptions const options_;
  bool has_news_ = false;  // messages came since it was listed
  bool is_low_ = false;    // since it was not
  bool tells_low_ = false;
  bool has_ended_ = false;
  bool keeps_loans_ = false;
  verbs::Inheritance origin_{};
  std::unique_ptr<observe::Tally> tally_{observe::Tally::if_asked()};  // null: none is asked
  LinkedNode<PoolState> as_ready_{this};
};

/// What a Message is made of.
struct Arrival {
  PoolState& pool;
  PoolState::Piece const& piece;
  std::uint32_t number;
};

}  // namespace lend::channel
