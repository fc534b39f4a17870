// SPDX-License-Identifier: MIT OR Apache-2.0
// What carries the words and messages of one end: a channel, or memory. It knows no credits. The
// thread of the transport.
#pragma once

#include <flow/credits.hpp>
#include <flow/greetings.hpp>
#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>
#include <lend/base/source_line.hpp>
#include <lend/verbs/connection_options.hpp>
#include <lend/verbs/memory_piece.hpp>
#include <lend/verbs/remote_region.hpp>
#include <transport/word.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace lend::observe {
class Tally;
}  // namespace lend::observe

namespace lend::transport {

/// Receives beside those of the window: for credits and lent messages that are over, for the
/// finish, and for greetings.
inline constexpr std::uint32_t word_receives =
    flow::credit_words_max + lent_max + 1 + flow::greetings_max - 1;

/// READs of what the peer has lent, of a line that can have them: one at a time for each place.
class LentReads {
 public:
  /// Whether bytes of this region can be lent to the peer.
  /// Errors:  invalid_argument  of another ProtectionDomain.
  ///          unsupported       the connection takes no READs of the peer.
  [[nodiscard]] virtual Result<void> check(verbs::RegionState const& region) const noexcept = 0;
  /// Begins to read `from` at this offset to `to`: as much as one request may. How many bytes.
  /// Shape: nothing is being read there; the line is not closed.
  /// Errors:  those of PollingScope::try_post_read(); the loss.
  [[nodiscard]] virtual Result<std::size_t> begin(std::uint32_t place, ScatterElement to,
                                                  RemoteRegion const& from, std::size_t offset,
                                                  SourceLine where) noexcept = 0;
  /// Whether it is over.
  /// Errors:  the loss.
  [[nodiscard]] virtual Result<bool> is_over(std::uint32_t place) noexcept = 0;

 protected:
  LentReads() = default;
  ~LentReads() = default;
};

class Line {
 public:
  /// What came: its word, and how many bytes with it.
  struct Arrival {
    std::uint32_t bits = 0;
    std::uint32_t slot = 0;
    std::uint32_t length = 0;
  };
  struct Message {
    std::uint32_t slot = 0;
    std::span<std::byte const> bytes{};
    GatherElement where{};  ///< in a region, if it lies in one
  };

  virtual ~Line() = default;
  Line(Line const&) = delete;
  Line& operator=(Line const&) = delete;

  /// The next that came, in order. Its slot is out of use until post_again(). What came before a
  /// loss comes before its error, after which nothing comes.
  /// Errors:  peer_lost, or what else ended the line.
  [[nodiscard]] virtual Result<std::optional<Arrival>> next() noexcept = 0;
  /// The message of an arrival that the credits allow. In a ring it begins at this cell.
  [[nodiscard]] virtual Message message(Arrival const& arrival, std::uint32_t cell) noexcept = 0;
  /// The slot can take a message again.
  virtual void post_again(std::uint32_t slot) noexcept = 0;

  /// Room for the next message, of `least` to `most` bytes; in a ring one of `least` begins at this
  /// cell. Nothing: none now.
  [[nodiscard]] virtual std::optional<std::span<std::byte>> room(std::size_t least,
                                                                 std::size_t most,
                                                                 std::uint32_t cell) noexcept = 0;
  /// The last room() is not used.
  virtual void leave_room() noexcept {}
  /// Sends the word; with one of data the first word.length bytes of the last room(), into the
  /// peer's ring from this cell on, if it has one. False: no room now.
  [[nodiscard]] virtual Result<bool> send(Word const& word, std::uint32_t cell) noexcept = 0;
  /// The same of a message of these bytes, wherever they lie, if they need not be copied to the
  /// last room(). False: nothing was sent, and they must.
  [[nodiscard]] virtual bool send_at_once(Word const& /*word*/, std::uint32_t /*cell*/,
                                          std::span<std::byte const> /*bytes*/) noexcept {
    return false;
  }
  /// Data and a finish that the peer is not known to have got. It needs no credits to go.
  [[nodiscard]] virtual std::uint32_t sends_in_flight() const noexcept = 0;

  /// Whether it shares the receives of a pool, which grants the peer its messages.
  [[nodiscard]] virtual bool is_pooled() const noexcept { return false; }
  /// The pool's, in which its transports count. Null: none is asked for.
  [[nodiscard]] virtual observe::Tally* tally() const noexcept { return nullptr; }
  // As those of flow::Grants, of such a line.
  [[nodiscard]] virtual std::uint32_t grant_at_arrival(std::uint64_t /*allowed*/,
                                                       std::uint32_t /*left*/) noexcept {
    return 0;
  }
  [[nodiscard]] virtual std::uint32_t grant_at_release() noexcept { return 0; }
  [[nodiscard]] virtual std::uint32_t grant_to_stopped() noexcept { return 0; }
  virtual void note_granting_word() noexcept {}
  virtual void stop_granting() noexcept {}
  /// Null: messages of this line cannot be lent.
  [[nodiscard]] virtual LentReads* lent_reads() noexcept { return nullptr; }

  // As IsTransport.
  [[nodiscard]] virtual Result<bool> poll() noexcept = 0;
  /// Whether it can be slept on alone.
  /// Errors:  invalid_argument  it is of a set.
  [[nodiscard]] virtual Result<void> check_alone() const noexcept { return success(); }
  [[nodiscard]] virtual Result<bool> arm() noexcept = 0;
  [[nodiscard]] virtual Result<int> descriptor() const noexcept = 0;
  [[nodiscard]] virtual Deadline look_again() const noexcept = 0;
  /// Of its channel, if it has one.
  [[nodiscard]] virtual std::vector<Setting> settings() const { return {}; }
  /// Ends the connection at once; again: nothing happens.
  virtual void close() noexcept = 0;

  /// What messages that outlive the line must keep.
  [[nodiscard]] virtual std::shared_ptr<void const> keeps() const noexcept { return nullptr; }

 protected:
  Line() = default;
};

}  // namespace lend::transport
