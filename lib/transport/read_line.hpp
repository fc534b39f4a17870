// SPDX-License-Identifier: MIT OR Apache-2.0
// Messages in a ring of the sender's, which the receiver READs into memory of its own; words as
// notes, which are sends of 16 bytes. The thread of the transport.
//
// In the ring each message stands behind a header, and begins with a cell:
//   4 length, or all ones: none before the ring's end, go on at 0   4 position: cells before it
// A note, which says how its sender stands:
//   4 word, without length   4 tail of its ring   4 how far it has read the peer's   4 zero
// Big-endian. Positions are cells of all times, modulo 2^32.
#pragma once

#include <lend/verbs/memory_region.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <lend/verbs/remote_region.hpp>
#include <transport/buffer_line.hpp>
#include <transport/channel_line.hpp>
#include <transport/tails.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lend::transport {

/// Behind the word of a note.
inline constexpr std::uint32_t note_bytes = 16 - word_bytes;
/// READs at a time, and the bytes of one: every device takes as many, and the first messages of a
/// long stretch come before its last.
inline constexpr std::uint32_t reads_max = 4, read_bytes_max = 1u << 20;

class ReadLine final : public ChannelLine {
 public:
  /// Both rings have the size of their receivers' landings, `own` perhaps more.
  struct Rings {
    MemoryRegion own;
    MemoryRegion landing;
    RemoteRegion peers;
    std::uint32_t own_cells = 0;
    // A window each: of the messages that come, and of those that go.
    std::uint32_t window_in = 0, window_out = 0;
  };
  /// Over `channel`, connected, whose receives are those of `notes`. Shape: no byte is on loan.
  ReadLine(Channel channel, std::vector<PendingWork> handles, Rings rings, Buffers notes,
           Buffers words);
  ~ReadLine() override;

  [[nodiscard]] Result<std::optional<Arrival>> next() noexcept override;
  [[nodiscard]] Message message(Arrival const& arrival, std::uint32_t cell) noexcept override;
  void post_again(std::uint32_t slot) noexcept override;
  [[nodiscard]] std::optional<std::span<std::byte>> room(std::size_t least, std::size_t most,
                                                         std::uint32_t cell) noexcept override;
  [[nodiscard]] Result<bool> send(Word const& word, std::uint32_t cell) noexcept override;
  /// Messages until the peer says that it has read them; once it has finished, all notes, too,
  /// without which it does not know that its own were read.
  [[nodiscard]] std::uint32_t sends_in_flight() const noexcept override {
    return sent_.unread() + (has_finish_ ? words_in_flight() + coming_.has_to_tell()
                                         : ChannelLine::sends_in_flight());
  }
  [[nodiscard]] Result<bool> poll() noexcept override;

 private:
  struct Reading {
    std::optional<PendingWork> handle{};
    std::uint32_t cells = 0;
  };

  [[nodiscard]] bool has_just_gone_wrong() noexcept {
    return wrong_ && !std::exchange(is_wrong_told_, true);
  }

  // ---- receiving ----
  /// Takes the notes that have come, READs what they announce, takes what was read and tells it.
  void take_news() noexcept;
  [[nodiscard]] Result<void> take_notes() noexcept;
  [[nodiscard]] Result<void> take_note(std::byte const* note) noexcept;
  [[nodiscard]] Result<void> post_reads() noexcept;
  [[nodiscard]] Result<void> take_reads() noexcept;
  /// The next of what has come: words before messages, the finish behind all.
  [[nodiscard]] std::optional<Arrival> take_arrival() noexcept;
  /// The next message, unless a part of it is still to come.
  [[nodiscard]] Result<std::optional<Arrival>> take_message() noexcept;

  // ---- sending ----
  void write_header(std::uint32_t cell, std::uint32_t length) noexcept;
  /// Puts the message of the last room() at this cell, behind its header.
  void place_message(std::uint32_t cell, std::uint32_t length) noexcept;
  /// Posts a note that says how this end stands. False, and nothing changed: no room now.
  [[nodiscard]] Result<bool> post_note(WordKind kind, std::uint32_t freed) noexcept;
  /// A word says that so many messages of all times are freed, modulo freed_modulus.
  void tell_freed(std::uint32_t freed) noexcept;
  /// Posts one if a tail can be announced, or the peer must be told what was read.
  [[nodiscard]] Result<void> post_due_note() noexcept;

  Rings rings_;
  Buffers notes_, words_;
  std::span<std::byte> own_, landing_;  // the bytes of both

  SentTails sent_;
  std::uint32_t send_at_ = 0, draft_at_ = 0;  // cells
  std::uint32_t sent_cells_ = 0;              // the position of send_at_
  std::uint32_t freed_ = 0;                   // messages, as the last word said
  std::uint32_t next_word_ = 0;               // slot
  bool is_word_due_ = false;                  // a word of the credits that found no room

  ReadTails coming_;
  std::uint32_t request_at_ = 0, take_at_ = 0;  // cells
  std::optional<std::uint32_t> left_at_{};      // where the next message did not fit
  base::Ring<Reading> reads_{reads_max};
  std::uint32_t peers_freed_ = 0, told_freed_ = 0;  // as the last note says, and the last arrival
  // Credits of notes that came, in their order. A peer that keeps the rules has 8 unread at most.
  base::Ring<std::uint32_t> credits_{flow::credit_words_max + 1};
  bool has_finish_ = false, has_given_finish_ = false;
  std::uint32_t next_slot_ = 0, next_freed_ = 0;
  std::vector<std::uint32_t> ends_;  // of messages that came, by slot: positions
  bool has_news_ = false;
  bool is_wrong_told_ = false;    // by poll()
  std::optional<Error> wrong_{};  // what ended it: what came before is taken first
  // What is poisoned for AddressSanitizer but for messages that are held, which are here by slot.
  std::vector<std::span<std::byte const>> lent_;
};

}  // namespace lend::transport
