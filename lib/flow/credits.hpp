// SPDX-License-Identifier: MIT OR Apache-2.0
// Which messages a sender may post, so that each finds its receive and, in a ring, its bytes. Pure:
// no device, no clock. One object for each end of each direction. One thread at a time.
#pragma once

#include <base/ring.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace lend::flow {

/// Counts go over the wire modulo this; the largest window is half of it.
inline constexpr std::uint32_t freed_modulus = 1024;
/// Words that only tell what was freed, sent and not yet read: 4 thresholds of messages make a
/// window, and 4 of cells a ring. So many receives, beside those of the window, are enough.
inline constexpr std::uint32_t credit_words_max = 8;

/// Of a ring. A message takes at least one cell.
inline constexpr std::uint32_t cell_bytes = 64;
[[nodiscard]] constexpr std::uint32_t cells_of(std::size_t message_bytes) noexcept {
  if (message_bytes <= cell_bytes) return 1;
  return static_cast<std::uint32_t>((message_bytes + cell_bytes - 1) / cell_bytes);
}

/// Of one direction, as its receiver says.
struct CreditSizes {
  std::uint32_t window = 0;         ///< messages: 4 to freed_modulus / 2, a multiple of 4
  std::uint32_t cells = 0;          ///< of the ring; 0: each message has a buffer of its own
  std::uint32_t tell_messages = 0;  ///< the receiver tells once it has freed so many,
  std::uint32_t tell_cells = 0;     ///< or so many cells; no message has more
  std::uint32_t start = 0;          ///< messages that may be sent before any is freed
  /// The receiver sends a word that only tells once the sender is known to have read the last one.
  bool has_one_word = false;

  [[nodiscard]] static constexpr CreditSizes of(std::uint32_t window,
                                                std::uint32_t cells = 0) noexcept {
    return {window, cells, window / 4, cells / 4, window, false};
  }
};

/// Where a message lies in a ring: behind the one before it, or at 0 if it would cross the end.
/// Both sides know it from the lengths alone. Without a ring there are no cells.
struct RingPlace {
  std::uint32_t at = 0;
  std::uint32_t cells = 0;  ///< its own, and those left out before the end

  [[nodiscard]] static constexpr RingPlace behind(std::uint32_t tail, std::uint32_t cells,
                                                  std::uint32_t ring) noexcept {
    if (tail + cells <= ring) return {tail, cells};
    return {0, cells + ring - tail};
  }
};

/// The sending end of a direction.
class SendCredits {
 public:
  explicit SendCredits(CreditSizes const& sizes)
      : sizes_{sizes},
        mask_{std::bit_ceil(sizes.window) - 1},
        ends_(sizes.cells > 0 ? mask_ + 1 : 0),
        sent_{sizes.window - sizes.start} {}

  /// Whether a message of `cells` may be sent now.
  [[nodiscard]] bool has_room(std::uint32_t cells = 0) const noexcept {
    return unfreed() < sizes_.window &&
           used() + RingPlace::behind(tail_, cells, sizes_.cells).cells <= sizes_.cells;
  }
  struct Room {
    std::uint32_t at = 0, cells = 0;
  };
  /// For a message that may be sent now: the cell where one of `least` cells begins, and the most
  /// of them, up to `most`, that it may have there. Nothing if not even the fewest may be sent.
  [[nodiscard]] std::optional<Room> room(std::uint32_t least, std::uint32_t most) const noexcept {
    if (unfreed() < sizes_.window && std::max(tail_, used()) + most <= sizes_.cells) [[likely]]
      return Room{tail_, most};
    if (!has_room(least)) return std::nullopt;
    auto const before_end = sizes_.cells - tail_, free = sizes_.cells - used();
    if (least <= before_end) return Room{tail_, std::min({most, free, before_end})};
    return Room{0, std::min(most, free - before_end)};
  }
  /// The cell where the next message begins, if it has so many.
  [[nodiscard]] std::uint32_t place(std::uint32_t cells) const noexcept {
    return RingPlace::behind(tail_, cells, sizes_.cells).at;
  }
  /// Such a message is sent: the cell where it begins.
  /// Shape: has_room(cells).
  std::uint32_t take(std::uint32_t cells = 0) noexcept {
    auto const number = sent_++;
    if (sizes_.cells == 0) return 0;
    auto const place = RingPlace::behind(tail_, cells, sizes_.cells);
    taken_ += place.cells;
    ends_[number & mask_] = taken_;
    tail_ = place.at + cells;
    return place.at;
  }
  /// The peer has freed `freed` messages in all, modulo freed_modulus. False, and nothing changed,
  /// if those are more than were sent.
  [[nodiscard]] bool take_freed(std::uint32_t freed) noexcept {
    auto const more = static_cast<std::uint32_t>(freed - freed_) % freed_modulus;
    if (more > unfreed()) return false;
    freed_ += more;
    if (sizes_.cells > 0 && more > 0) given_back_ = ends_[(freed_ - 1) & mask_];
    return true;
  }
  /// Messages that are not known to be free.
  [[nodiscard]] std::uint32_t unfreed() const noexcept {
    return static_cast<std::uint32_t>(sent_ - freed_);
  }

 private:
  [[nodiscard]] std::uint32_t used() const noexcept { return taken_ - given_back_; }

  CreditSizes sizes_;
  std::uint32_t mask_;
  std::vector<std::uint32_t> ends_;  // by message that is not known to be free: taken_ behind it
  std::uint64_t sent_;               // and what may not be sent at the start
  std::uint64_t freed_ = 0;
  std::uint32_t tail_ = 0;                    // cells
  std::uint32_t taken_ = 0, given_back_ = 0;  // cells of all times, which wrap
};

/// The receiving end of a direction.
class ReceiveCredits {
 public:
  explicit ReceiveCredits(CreditSizes const& sizes)
      : sizes_{sizes}, messages_(sizes.cells > 0 ? sizes.window : 0) {}

  /// A message of `cells` has come: the cell where it begins. Nothing, and nothing changed, if the
  /// peer may not have sent it.
  [[nodiscard]] std::optional<std::uint32_t> take(std::uint32_t cells = 0) noexcept {
    auto const place = RingPlace::behind(tail_, cells, sizes_.cells);
    if (arrived_ >= allowed() || used_ + place.cells > sizes_.cells) return std::nullopt;
    ++arrived_;
    if (sizes_.cells == 0) return 0;
    messages_[newest_] = {place.cells, false};
    newest_ = behind(newest_);
    used_ += place.cells;
    tail_ = place.at + cells;
    return place.at;
  }
  /// The program lets go of the message of this slot. In a ring each message has the slot behind
  /// the one before it, from 0 to the window's last; without a ring any will do.
  void release(std::uint32_t slot) noexcept {
    if (sizes_.cells == 0) {
      ++freed_;
      return;
    }
    messages_[slot].is_released = true;
    // The peer knows cells by count, so free are only those before the oldest that is held.
    for (; freed_ != arrived_ && messages_[oldest_].is_released; ++freed_) {
      untold_cells_ += messages_[oldest_].cells;
      oldest_ = behind(oldest_);
    }
  }
  /// Without a ring: the peer may send so many more.
  void grant(std::uint32_t messages) noexcept { freed_ += messages; }
  /// Messages that the peer may send in all, as far as words told it.
  [[nodiscard]] std::uint64_t allowed() const noexcept { return sizes_.start + told_; }
  /// Those that it may still send: as far as words told it, and with all that is free.
  [[nodiscard]] std::uint32_t left_as_told() const noexcept {
    return static_cast<std::uint32_t>(allowed() - arrived_);
  }
  [[nodiscard]] std::uint32_t left() const noexcept {
    return static_cast<std::uint32_t>(sizes_.start + freed_ - arrived_);
  }
  /// Whether so much is free and untold that the peer must be told.
  [[nodiscard]] bool has_to_tell() const noexcept {
    if (sizes_.has_one_word) [[unlikely]]
      return has_to_tell_by_one_word();
    return freed_ - told_ >= sizes_.tell_messages ||
           (sizes_.cells > 0 && untold_cells_ >= sizes_.tell_cells);
  }
  /// What the next word tells: all that was freed, modulo freed_modulus.
  [[nodiscard]] std::uint32_t freed() const noexcept {
    return static_cast<std::uint32_t>(freed_ % freed_modulus);
  }
  /// A word told it.
  void note_told() noexcept {
    told_ = freed_;
    used_ -= untold_cells_;
    untold_cells_ = 0;
  }
  /// The same of a word that does nothing else.
  void note_told_alone() noexcept {
    read_once_arrived_ = allowed() + 1;
    note_told();
  }
  /// Messages that have come.
  [[nodiscard]] std::uint64_t arrived() const noexcept { return arrived_; }

 private:
  struct Message {
    std::uint32_t cells = 0;
    bool is_released = false;
  };
  [[nodiscard]] std::uint32_t behind(std::uint32_t slot) const noexcept {
    return base::next_in_turn(slot, sizes_.window);
  }
  /// Early enough that the sender need not stop, and once it has stopped in any case.
  [[nodiscard]] bool has_to_tell_by_one_word() const noexcept {
    return freed_ != told_ && arrived_ >= read_once_arrived_ && freed_ - told_ > left_as_told();
  }

  CreditSizes sizes_;
  std::vector<Message> messages_;          // by slot
  std::uint32_t newest_ = 0, oldest_ = 0;  // slots
  std::uint64_t arrived_ = 0, freed_ = 0, told_ = 0;
  // The peer sends so many only after it has read the last word that did nothing but tell.
  std::uint64_t read_once_arrived_ = 0;
  std::uint32_t tail_ = 0, used_ = 0, untold_cells_ = 0;
};

}  // namespace lend::flow
