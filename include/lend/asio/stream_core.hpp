// SPDX-License-Identifier: MIT OR Apache-2.0
// A stream in an execution context: its operations, which wait by turns. For `stream.hpp`. Any
// thread.
#pragma once

#include <lend/asio/connection_core.hpp>
#include <lend/asio/error.hpp>
#include <lend/asio/operation.hpp>
#include <lend/stream/byte_stream.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/buffer.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

namespace lend::asio::implementation {

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

class StreamCore final : public ConnectionCore<ByteStream> {
 private:
  struct Outcome {
    boost::system::error_code code;
    std::size_t bytes = 0;
  };

 public:
  StreamCore(boost::asio::any_io_executor const& executor, ByteStream&& stream);

  /// A read or write.
  class Transfer {
   public:
    Transfer(StreamCore* core, Direction direction, Pieces const& pieces) noexcept
        : core_{core}, direction_{direction}, pieces_{pieces} {}
    [[nodiscard]] bool begin() noexcept;
    [[nodiscard]] bool attempt() noexcept;
    void end(boost::system::error_code why) noexcept { outcome_ = {why}; }
    [[nodiscard]] auto values() const noexcept { return std::tuple{outcome_.code, outcome_.bytes}; }
    [[nodiscard]] OperationRoom* room() const noexcept { return &core_->room_of(direction_); }

   private:
    StreamCore* core_;
    Direction direction_;
    Pieces pieces_;
    Outcome outcome_{};
  };
  /// A read or write that waits in the call: refused while an operation waits.
  [[nodiscard]] std::size_t run(Direction direction, Pieces const& pieces,
                                boost::system::error_code& code);
  void stop_reading() noexcept;

 private:
  // ---- with the mutex ----
  [[nodiscard]] std::optional<Outcome> attempt(Direction direction, Pieces const& pieces) noexcept;
  [[nodiscard]] std::optional<Outcome> try_read(Pieces const& pieces) noexcept;

  struct Try {
    std::optional<Outcome> outcome{};
    std::optional<Clock::duration> sleep{};  // none: try again
    int descriptor = -1;                     // to sleep on; none: just sleep
  };
  [[nodiscard]] Try try_once(Direction direction, Pieces const& pieces) noexcept;

  bool has_stopped_reading_ = false;
};

}  // namespace lend::asio::implementation

#include <lend/asio/stream_calls.hpp>
