// SPDX-License-Identifier: MIT OR Apache-2.0
// Receives that all channels of a set share. The thread of the set.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/result.hpp>
#include <lend/base/source_line.hpp>
#include <lend/channel/wait_set.hpp>
#include <lend/verbs/memory_piece.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

struct ibv_srq;

namespace lend {

namespace channel {
class PoolState;
struct Arrival;
struct Preparing;
}  // namespace channel

struct ReceivePoolOptions {
  std::uint32_t low_mark = 0;  ///< Ready::What::pool_low when fewer pieces are posted; 0: never
  std::uint64_t tag = 0;       ///< what the set calls the pool
};

/// A message from a channel of the pool. Its piece stays on a shared loan: the program may read or
/// send it, but not write it. When the Message is destroyed and no other loan of the bytes is left,
/// the piece is posted again: at once, or by the next poll of the set or its channels.
///
/// It may outlive its pool and its channel. Only the thread of the set may use it.
class LEND_EXPORT Message {
 public:
  /// By a pool alone.
  explicit Message(channel::Arrival const& arrival) noexcept;
  Message(Message&& other) noexcept;
  Message& operator=(Message&& other) noexcept;
  ~Message() {
    if (pool_ != nullptr) end();
  }

  /// Of the channel that it came for, whose peer sent it. It is all that is said of the sender: to
  /// answer without a search, give each channel a tag of its own, such as an index or a pointer.
  [[nodiscard]] std::uint64_t tag() const noexcept { return tag_; }
  /// None if it is a write's immediate: those bytes went to exposed memory.
  [[nodiscard]] std::span<std::byte const> bytes() const& noexcept LEND_LIFETIMEBOUND {
    return bytes_;
  }
  std::span<std::byte const> bytes() && = delete;
  /// To send it on without a copy.
  [[nodiscard]] GatherElement gather() const noexcept { return element_; }
  [[nodiscard]] std::optional<std::uint32_t> immediate() const noexcept { return immediate_; }

 private:
  void end() noexcept;

  channel::PoolState* pool_;
  std::uint32_t piece_;
  std::uint64_t tag_;
  GatherElement element_;
  std::span<std::byte const> bytes_;
  std::optional<std::uint32_t> immediate_;
};

/// Pieces of a region that receive the messages of many channels: as many as all channels need
/// together, not as many as each might need.
///
/// A channel that is built with `.wait_set(set, tag).receive_pool(pool)` uses the pool. The pool
/// lends its pieces as long as it exists: exclusively while posted, shared while a Message is held.
/// A channel that breaks does not affect the pool: a message longer than its piece breaks the
/// channel, and the piece is posted again. Only a receive that was half written when its queue pair
/// was destroyed, and that the device does not return, stays on loan until the pool ends.
///
///     LEND_TRY(pool, ReceivePool::create(set, memory.chunks(2048), {.low_mark = 64}));
///     while (auto message = pool.next()) use(message->tag(), message->bytes());
class LEND_EXPORT ReceivePool {
 public:
  /// Lends and posts all of `pieces`.
  ///
  /// Borrows: the pieces, until the pool ends.
  /// Shape:   the pieces have one size.
  /// Errors:  invalid_argument  no pieces, a shorter last one, more than the device's
  ///                            shared_receives_max, a region of another Context than the set's,
  ///                            one without a ledger, or the set has 128 pools.
  ///          already_borrowed  some of the bytes are on loan.
  ///          unsupported, exhausted, system_failed  as ReceiveQueue::create(), and if the device
  ///                            refuses one of the receives. None is posted then.
  /// Source:  ibv_create_srq(3), ibv_post_srq_recv(3).
  [[nodiscard]] static Result<ReceivePool> create(WaitSet& set, Chunks<MemoryPiece> const& pieces,
                                                  ReceivePoolOptions const& options = {},
                                                  SourceLine where = SourceLine::here());
  ReceivePool(ReceivePool&& other) noexcept : state_{std::exchange(other.state_, nullptr)} {}
  ReceivePool& operator=(ReceivePool&& other) noexcept;
  /// Breaks the channels that still use it, and gives all pieces back but those of messages that
  /// are held, which come back when these go. If the device keeps the queue, they stay on loan for
  /// good.
  ~ReceivePool();

  /// The next message that a poll of the set, or of one of its channels, has seen; nothing if there
  /// is none. Does not poll.
  [[nodiscard]] std::optional<Message> next() noexcept;
  /// Pieces that wait for messages.
  [[nodiscard]] std::uint32_t posted() const noexcept;
  [[nodiscard]] ibv_srq* native() const noexcept;

 private:
  friend struct channel::Preparing;
  explicit ReceivePool(channel::PoolState* state) noexcept : state_{state} {}
  [[nodiscard]] channel::PoolState& state() const noexcept;  // stops where it was moved from
  channel::PoolState* state_;
};

}  // namespace lend
