// SPDX-License-Identifier: MIT OR Apache-2.0
// A stream in an execution context: its operations that wait, and what wakes them. For
// `stream.hpp`. Any thread: a mutex, because turns run on any thread of the context.
//
//   idle ──an operation waits──▶ turning ──nothing new for spin_for──▶ asleep
//     ◀──no operation is left──────┘  ◀──descriptor, timer, new operation──┘
//   any ──close()──▶ lingering: turning or asleep until what was sent has arrived ──▶ gone
#pragma once

#include <lend/asio/error.hpp>
#include <lend/asio/operation.hpp>
#include <lend/asio/service.hpp>
#include <lend/stream/byte_stream.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

namespace lend::asio::implementation {

using Clock = Deadline::Clock;

/// How long a stream without a descriptor sleeps: twice as long each time that nothing changed.
inline constexpr std::chrono::microseconds nap_min{50}, nap_max{10'000};

enum class Direction : std::uint8_t { read, write };

/// What a read or write is for: at most so many pieces at once. Larger sequences go in parts.
class Pieces {
 public:
  template <class Buffers>
  explicit Pieces(Buffers const& buffers) {
    auto const end = boost::asio::buffer_sequence_end(buffers);
    for (auto at = boost::asio::buffer_sequence_begin(buffers); at != end && count_ < most; ++at)
      add(*at);
  }
  [[nodiscard]] bool is_empty() const noexcept { return count_ == 0; }
  [[nodiscard]] SendPieces bytes() const noexcept { return {pieces_.data(), count_}; }
  /// Of mutable buffers.
  [[nodiscard]] static std::span<std::byte> writable(std::span<std::byte const> piece) noexcept {
    return {const_cast<std::byte*>(piece.data()), piece.size()};
  }

 private:
  static constexpr std::size_t most = 16;
  void add(boost::asio::const_buffer buffer) noexcept {
    if (buffer.size() > 0)
      pieces_[count_++] = {static_cast<std::byte const*>(buffer.data()), buffer.size()};
  }
  std::size_t count_ = 0;
  std::array<std::span<std::byte const>, most> pieces_{};
};

class StreamCore final : public Keeper, public std::enable_shared_from_this<StreamCore> {
 public:
  StreamCore(boost::asio::any_io_executor const& executor, ByteStream&& stream);
  StreamCore(StreamCore const&) = delete;
  StreamCore& operator=(StreamCore const&) = delete;
  ~StreamCore() override = default;

  /// Tries at once; posts the handler, or keeps it until it can be.
  template <class Handler, class Executor>
  void start(Direction direction, Pieces const& pieces, Handler handler, Executor const& executor);
  /// The same, but waits: refused while an operation waits.
  [[nodiscard]] std::size_t run(Direction direction, Pieces const& pieces,
                                boost::system::error_code& code);

  void cancel() noexcept { end(operations_, false); }
  /// If it still is the operation of that number.
  void cancel(Direction direction, std::uint64_t number) noexcept;
  void close() noexcept { end(operations_, true); }
  void finish_writing(boost::system::error_code& code) noexcept;
  void stop_reading() noexcept;
  void expires_at(Clock::time_point at) noexcept;
  void spin_for(std::chrono::nanoseconds time) noexcept;
  [[nodiscard]] bool is_open() const noexcept;
  [[nodiscard]] std::optional<Error> last_error() const noexcept;

  void abandon() noexcept override;

 private:
  struct Outcome {
    boost::system::error_code code;
    std::size_t bytes = 0;
  };
  struct Kept {
    Operation* operation = nullptr;
    std::optional<Pieces> pieces{};
    Clock::time_point expiry{};
    std::uint64_t number = 0;  // of this operation, or of the last
    OperationRoom room{};
  };
  /// What is done once the mutex is free.
  struct After {
    struct Done {
      Operation* operation;
      Outcome outcome;
    };
    std::array<Done, 2> done{};
    std::size_t count = 0;
    bool turns = false;
  };
  using Self = std::shared_ptr<StreamCore>;
  static constexpr std::size_t index(Direction direction) noexcept {
    return static_cast<std::size_t>(direction);
  }

  // ---- with the mutex ----
  [[nodiscard]] std::optional<Outcome> attempt(Direction direction, Pieces const& pieces) noexcept;
  [[nodiscard]] std::optional<Outcome> try_read(Pieces const& pieces) noexcept;
  [[nodiscard]] Outcome failed(Error error) noexcept;
  void attempt_all(After& after) noexcept;
  static void take(Kept& kept, Outcome outcome, After& after) noexcept;
  /// Whether turns have something to do.
  [[nodiscard]] bool is_needed() const noexcept;
  [[nodiscard]] bool has_operation() const noexcept;
  [[nodiscard]] bool is_broken() noexcept;
  void linger() noexcept;
  void begin_turning(After& after) noexcept;
  void note_change() noexcept;
  void stop_sleeping() noexcept;
  /// False: turn on.
  [[nodiscard]] bool sleep(Self const& self) noexcept;
  void open_descriptor() noexcept;

  struct Try {
    std::optional<Outcome> outcome{};
    std::optional<Clock::duration> sleep{};  // none: try again
    int descriptor = -1;                     // to sleep on; none: just sleep
  };
  [[nodiscard]] Try try_once(Direction direction, Pieces const& pieces) noexcept;

  // ---- without it ----
  void turn(Self self);
  void wake(Self self, std::uint64_t sleep);
  void end(std::span<Kept> which, bool is_closing) noexcept;
  static void finish(After const& after, Self self);

  mutable std::mutex mutex_{};
  boost::asio::any_io_executor turns_;  // never runs anything inline
  std::optional<ByteStream> stream_;    // none: closed
  static_assert(static_cast<int>(Direction::read) + static_cast<int>(Direction::write) == 1);
  std::array<Kept, 2> operations_{};
  std::optional<Error> last_error_{};
  // Of a duplicate: the transport closes its own when the connection breaks. Open from the first
  // sleep for which there was a descriptor.
  std::optional<boost::asio::posix::stream_descriptor> descriptor_;
  std::optional<boost::asio::steady_timer> timer_;
  std::chrono::nanoseconds spin_for_;
  Clock::time_point changed_at_{};
  std::chrono::microseconds nap_{};
  Clock::time_point expires_at_ = (Clock::time_point::max)();
  Clock::time_point lingers_until_{};
  std::uint64_t sleep_ = 0;  // the number of this one, or of the last
  bool is_asleep_ = false, is_turning_ = false, is_lingering_ = false;
  bool has_stopped_reading_ = false;
};

template <class Handler, class Executor>
void StreamCore::start(Direction direction, Pieces const& pieces, Handler handler,
                       Executor const& executor) {
  After after;
  std::optional<Outcome> outcome;
  {
    std::lock_guard const lock{mutex_};
    auto& kept = operations_[index(direction)];
    // One of no bytes does not wait, and so is none too many. One that was taken on another thread
    // is in its room until it is destroyed.
    bool const is_one_too_many =
        !pieces.is_empty() &&
        (kept.operation != nullptr || kept.room.is_used.load(std::memory_order_acquire));
    outcome =
        is_one_too_many ? Outcome{boost::asio::error::already_started} : attempt(direction, pieces);
    if (!outcome) {
      connect_slot(handler, [self = weak_from_this(), direction, number = ++kept.number] {
        if (auto const core = self.lock()) core->cancel(direction, number);
      });
      kept.operation =
          OperationOf<Handler, Executor>::make(kept.room, std::move(handler), executor);
      kept.pieces = pieces;
      kept.expiry = expires_at_;
    }
    // Also what was done at once concerns the other one that waits: it may have found a break.
    if (has_operation()) begin_turning(after);
  }
  finish(after, shared_from_this());
  if (outcome) post_completion(std::move(handler), executor, outcome->code, outcome->bytes);
}

}  // namespace lend::asio::implementation

#include <lend/asio/stream_calls.hpp>
#include <lend/asio/stream_turns.hpp>
