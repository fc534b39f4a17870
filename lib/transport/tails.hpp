// SPDX-License-Identifier: MIT OR Apache-2.0
// How far a ring that its receiver reads has been filled, announced and read. Pure: no device, no
// clock. One object for each end of each direction. One thread at a time.
//
// Positions are cells of all times, modulo 2^32. What is announced can be read at once: the credits
// have room for it.
#pragma once

#include <base/ring.hpp>
#include <flow/credits.hpp>

#include <algorithm>
#include <array>
#include <cstdint>

namespace lend::transport {

/// Tails that are announced and not known to be read. What is sent meanwhile, the next one
/// announces. The finish may be one more, so that it never waits.
inline constexpr std::uint32_t tails_max = 2;
/// Notes that are sent and not yet read: each announces a tail or the finish, tells that one of
/// these is read, or is a word that the credits count.
inline constexpr std::uint32_t notes_max = 2 * (tails_max + 1) + flow::credit_words_max;

/// The sending end of a direction.
class SentTails {
 public:
  explicit SentTails(std::uint32_t window) : ends_(window) {}

  /// A message is sent: its cells, with those left out before it. Shape: fewer than the window are
  /// unread, which take_read() ensures.
  void take(std::uint32_t cells) noexcept {
    tail_ += cells;
    ends_.push() = tail_;
    ++sent_;
  }
  [[nodiscard]] bool may_announce() const noexcept {
    return newest() != tail_ && announced_count_ < tails_max;
  }
  /// The tail for the next note, which announces it. Shape: may_announce(), or once for the finish.
  std::uint32_t announce() noexcept {
    if (newest() != tail_) announced_[announced_count_++] = tail_;
    return tail_;
  }
  /// The one that the last announce() returned.
  [[nodiscard]] std::uint32_t newest() const noexcept {
    return announced_count_ > 0 ? announced_[announced_count_ - 1] : read_;
  }
  /// The peer has read up to here, and freed so many messages, modulo freed_modulus. False, and
  /// nothing changed, if less was announced, or it freed what it has not read.
  [[nodiscard]] bool take_read(std::uint32_t read, std::uint32_t freed) noexcept {
    if (read - read_ > newest() - read_) return false;
    std::uint32_t gone = 0;
    while (gone < unread() && ends_[gone] - read_ <= read - read_) ++gone;
    if (static_cast<std::uint32_t>(sent_ - freed) % flow::freed_modulus < unread() - gone)
      return false;
    auto const last = announced_.begin() + announced_count_;
    auto const rest = std::find_if(announced_.begin(), last,
                                   [&](std::uint32_t tail) { return tail - read_ > read - read_; });
    announced_count_ =
        static_cast<std::uint32_t>(std::copy(rest, last, announced_.begin()) - announced_.begin());
    ends_.pop(gone);
    read_ = read;
    return true;
  }
  [[nodiscard]] std::uint32_t read() const noexcept { return read_; }
  /// Messages that the peer is not known to have read.
  [[nodiscard]] std::uint32_t unread() const noexcept {
    return static_cast<std::uint32_t>(ends_.size());
  }

 private:
  base::Ring<std::uint32_t> ends_;  // of unread messages
  std::uint64_t sent_ = 0;          // messages
  std::uint32_t tail_ = 0, read_ = 0;
  std::array<std::uint32_t, tails_max + 1> announced_{};  // and not known to be read: in order
  std::uint32_t announced_count_ = 0;
};

/// The receiving end of a direction.
class ReadTails {
 public:
  /// `cells`: of the ring.
  explicit ReadTails(std::uint32_t cells) noexcept : cells_{cells} {}

  /// A note announces this tail. False, and nothing changed, if the ring cannot be filled so far.
  [[nodiscard]] bool take_tail(std::uint32_t tail) noexcept {
    if (tail - freed_ > cells_ || tail - freed_ < announced_ - freed_) return false;
    announced_ = tail;
    return true;
  }
  /// A word says that the cells before this position are free: where a message ends.
  void free(std::uint32_t position) noexcept { freed_ = position; }
  [[nodiscard]] std::uint32_t announced() const noexcept { return announced_; }
  /// Cells that are announced and not requested: the next ones to read.
  [[nodiscard]] std::uint32_t unrequested() const noexcept { return announced_ - requested_; }
  void request(std::uint32_t cells) noexcept { requested_ += cells; }
  /// The oldest so many cells that were requested have come.
  void land(std::uint32_t cells) noexcept { read_ += cells; }
  /// Cells that have come and hold messages that were not taken.
  [[nodiscard]] std::uint32_t untaken() const noexcept { return read_ - taken_; }
  void take(std::uint32_t cells) noexcept { taken_ += cells; }
  [[nodiscard]] std::uint32_t taken() const noexcept { return taken_; }

  /// Whether the peer must be told: all that was announced is read. It is not told at each READ, or
  /// its unread notes could become more than it has receives.
  [[nodiscard]] bool has_to_tell() const noexcept { return read_ == announced_ && told_ != read_; }
  [[nodiscard]] bool has_read_all() const noexcept { return read_ == announced_; }
  /// How far the next note says that this end has read.
  [[nodiscard]] std::uint32_t read() const noexcept { return read_; }
  void note_told() noexcept { told_ = read_; }

 private:
  std::uint32_t cells_;
  // Freed lies before taken, that and told before read, and that before requested and announced.
  std::uint32_t freed_ = 0, taken_ = 0, told_ = 0, read_ = 0, requested_ = 0, announced_ = 0;
};

}  // namespace lend::transport
