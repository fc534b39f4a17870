// SPDX-License-Identifier: MIT OR Apache-2.0
// Where messages lie until the peer's device has acknowledged them. Pure: no device, no clock. The
// thread of the transport.
#pragma once

#include <cstdint>
#include <optional>

namespace lend::transport {

/// Messages are done in order, and the quarters are filled in turn: so a quarter is free again once
/// the last message in it is done, and to know it takes one count for each.
class Staging {
 public:
  /// Shape: a multiple of 4 cells. No message has more than a quarter.
  explicit Staging(std::uint32_t cells) noexcept : quarter_{cells / quarters}, end_{quarter_} {}

  /// The cell where the next message lies.
  [[nodiscard]] std::uint32_t at() const noexcept { return next_; }
  /// Whether it can have so many cells there.
  [[nodiscard]] bool has_room(std::uint32_t cells) const noexcept { return cells <= end_ - next_; }
  /// How many it can have, `least` to `most`; it goes on to the next quarter for more, if that is
  /// free, where `sent` messages were sent of all times and so many `done`. Nothing: not even the
  /// fewest are free.
  [[nodiscard]] std::optional<std::uint32_t> find_room(std::uint32_t least, std::uint32_t most,
                                                       std::uint64_t sent,
                                                       std::uint64_t done) noexcept {
    if (has_room(most)) return most;
    auto const behind = (filled_ + 1) % quarters;
    if (sent_before_[behind] <= done) {
      sent_before_[filled_] = sent;
      filled_ = behind;
      next_ = behind * quarter_;
      end_ = next_ + quarter_;
      return most;
    }
    if (has_room(least)) return end_ - next_;
    return std::nullopt;
  }
  /// The next message has so many.
  void take(std::uint32_t cells) noexcept { next_ += cells; }

 private:
  static constexpr std::uint32_t quarters = 4;

  std::uint32_t quarter_;                     // cells of one
  std::uint32_t next_ = 0, end_;              // cells: of the quarter that is being filled
  std::uint32_t filled_ = 0;                  // that quarter
  std::uint64_t sent_before_[quarters] = {};  // messages, when the quarter was left
};

}  // namespace lend::transport
