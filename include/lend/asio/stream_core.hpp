// SPDX-License-Identifier: MIT OR Apache-2.0
// A stream in an execution context: its operations, which wait by turns. For `stream.hpp`. Any
// thread.
//
//   open ──close()──▶ lingering, until what was sent has arrived ──▶ gone
#pragma once

#include <lend/asio/error.hpp>
#include <lend/asio/operation.hpp>
#include <lend/asio/turning.hpp>
#include <lend/stream/byte_stream.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/buffer.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

namespace lend::asio::implementation {

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

class StreamCore final : public Turning {
 public:
  StreamCore(boost::asio::any_io_executor const& executor, ByteStream&& stream);

  /// Tries at once; posts the handler, or keeps it until it can be.
  template <class Handler, class Executor>
  void start(Direction direction, Pieces const& pieces, Handler handler, Executor const& executor) {
    Turning::start(Transfer{this, direction, pieces, {}}, std::move(handler), executor);
  }
  /// The same, but waits: refused while an operation waits.
  [[nodiscard]] std::size_t run(Direction direction, Pieces const& pieces,
                                boost::system::error_code& code);

  void close() noexcept;
  void finish_writing(boost::system::error_code& code) noexcept;
  void stop_reading() noexcept;
  [[nodiscard]] bool is_open() const noexcept;

 private:
  struct Outcome {
    boost::system::error_code code;
    std::size_t bytes = 0;
  };
  /// A read or write.
  struct Transfer {
    [[nodiscard]] bool begin() noexcept;
    [[nodiscard]] bool attempt() noexcept;
    void end(boost::system::error_code why) noexcept { outcome = {why}; }
    [[nodiscard]] auto values() const noexcept { return std::tuple{outcome.code, outcome.bytes}; }
    [[nodiscard]] OperationRoom* room() const noexcept { return &core->room_of(direction); }

    StreamCore* core;
    Direction direction;
    Pieces pieces;
    Outcome outcome;
  };

  // ---- with the mutex ----
  [[nodiscard]] std::optional<Outcome> attempt(Direction direction, Pieces const& pieces) noexcept;
  [[nodiscard]] std::optional<Outcome> try_read(Pieces const& pieces) noexcept;
  [[nodiscard]] bool advance(After& after) noexcept override;
  [[nodiscard]] std::optional<Rest> arm() noexcept override;
  [[nodiscard]] Result<int> own_descriptor() const noexcept override {
    return stream_->descriptor();
  }
  [[nodiscard]] bool is_needed() const noexcept override {
    return is_lingering_ || has_operation();
  }
  [[nodiscard]] bool is_broken() noexcept;
  void linger() noexcept;

  struct Try {
    std::optional<Outcome> outcome{};
    std::optional<Clock::duration> sleep{};  // none: try again
    int descriptor = -1;                     // to sleep on; none: just sleep
  };
  [[nodiscard]] Try try_once(Direction direction, Pieces const& pieces) noexcept;

  [[nodiscard]] OperationRoom& room_of(Direction direction) noexcept {
    return rooms_[static_cast<std::size_t>(direction)];
  }

  std::optional<ByteStream> stream_;  // none: closed
  static_assert(static_cast<int>(Direction::read) + static_cast<int>(Direction::write) == 1);
  std::array<OperationRoom, 2> rooms_{};
  Clock::time_point lingers_until_{};
  bool is_lingering_ = false;
  bool has_stopped_reading_ = false;
};

}  // namespace lend::asio::implementation

#include <lend/asio/stream_calls.hpp>
