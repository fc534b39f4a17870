// SPDX-License-Identifier: MIT OR Apache-2.0
// One end of a transport: credits, words, half close and the first cause, over a line. The thread
// of the transport.
//
//   open ──finish_sending()──▶ sent all ──the peer's finish──▶ over
//     └──the peer's finish──▶ got all ──finish_sending()─────▶ over     any but over ──▶ broken
//
// A send is posted only when the peer has a receive for it, so that its device takes it without its
// program: messages of the window, credit_words_max credits, and the finish.
#pragma once

#include <channel/credits.hpp>
#include <lend/transport/transport.hpp>
#include <transport/held.hpp>
#include <transport/line.hpp>
#include <verbs/handles.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace lend::transport {

/// As often an end greets, at most. All but the first may be unread while credits come.
inline constexpr std::uint32_t greetings_max = 4;
/// Receives beside those of the window: for credits, for the finish, and for greetings.
inline constexpr std::uint32_t word_receives = channel::credit_words_max + 1 + greetings_max - 1;

/// The greetings that an end owes, or is owed.
class Greetings {
 public:
  explicit Greetings(verbs::FirstSender first) noexcept
      : own_{first == verbs::FirstSender::own ? greetings_max : 0},
        peers_{first == verbs::FirstSender::peer ? greetings_max : 0},
        is_awaited_{first == verbs::FirstSender::peer} {}

  [[nodiscard]] bool is_awaited() const noexcept { return is_awaited_; }
  [[nodiscard]] bool is_due() const noexcept { return own_ > 0 && next_.has_passed(); }
  [[nodiscard]] Deadline next() const noexcept { return own_ > 0 ? next_ : Deadline::never(); }
  void note_sent() noexcept {
    --own_;
    next_ = within(pause_);
    pause_ *= 10;
  }
  /// Something came, and nothing more is owed.
  void note_arrival() noexcept {
    own_ = 0;
    is_awaited_ = false;
  }
  /// Whether a credit that frees nothing is a greeting.
  [[nodiscard]] bool take() noexcept { return peers_ > 0 && peers_-- > 0; }

 private:
  std::uint32_t own_, peers_;
  bool is_awaited_;
  std::chrono::milliseconds pause_{5};
  Deadline next_ = within(std::chrono::milliseconds{0});
};

class End final : private Lender {
 public:
  /// `out` as the peer says, `in` as this end does.
  struct Sizes {
    channel::CreditSizes out{}, in{};
    std::uint32_t header_bytes = 0;  ///< before each message, in a ring
  };
  /// Where this end is the first sender, it greets at once, by a credit that frees nothing; where
  /// the peer is, this end sends nothing before that has come. A greeting is repeated until the
  /// peer has sent something, because SoftiWARP does not notice a frame that comes just after it
  /// has accepted, before the next one comes.
  /// Source: Linux drivers/infiniband/sw/siw/siw_cm.c, siw_accept(), which answers before the
  ///         socket tells the queue pair of what it receives.
  End(std::unique_ptr<Line> line, TransportLimits const& limits, Sizes const& sizes,
      verbs::FirstSender first = verbs::FirstSender::either);
  ~End();

  [[nodiscard]] Result<Draft> try_draft(std::size_t at_least, std::size_t at_most) noexcept;
  [[nodiscard]] Result<Received> try_receive() noexcept;
  [[nodiscard]] Result<void> finish_sending() noexcept;
  void disconnect() noexcept;
  [[nodiscard]] Result<bool> poll() noexcept;
  [[nodiscard]] Result<bool> arm() noexcept;
  [[nodiscard]] Result<int> descriptor() const noexcept { return line_->descriptor(); }
  [[nodiscard]] Deadline look_again() const noexcept {
    return sooner(line_->look_again(), greetings_.next());
  }
  /// With the finish, also while it is not posted.
  [[nodiscard]] std::uint32_t sends_in_flight() const noexcept {
    return line_->sends_in_flight() + (has_finished_ && !has_sent_finish_);
  }
  [[nodiscard]] TransportLimits const& limits() const noexcept { return limits_; }

 private:
  void take_back(std::uint32_t slot) noexcept override;
  [[nodiscard]] Result<void> send_draft(std::size_t used) noexcept override;

  /// Room for a message of so many bytes, if nothing is known that is against one.
  [[nodiscard]] std::optional<std::span<std::byte>> room_for_draft(std::size_t at_least,
                                                                   std::size_t at_most) noexcept;
  [[nodiscard]] Result<Draft> try_draft_after_arrivals(std::size_t at_least,
                                                       std::size_t at_most) noexcept;

  /// Takes what has come, until there is a message for the program, if `up_to_one`.
  void take_arrivals(bool up_to_one) noexcept;
  /// What one word says; or what is wrong with it.
  [[nodiscard]] char const* take_arrival(Line::Arrival const& arrival) noexcept;
  void break_by(Error cause) noexcept;
  /// Of a message in a ring, or 0.
  [[nodiscard]] std::uint32_t cells_of(std::size_t bytes) const noexcept {
    return has_rings_ ? channel::cells_of(bytes + header_bytes_) : 0;
  }
  /// Sends the words that are due, as far as there is room: counts are absolute, so that what does
  /// not go now goes with a later one.
  void send_words() noexcept;
  [[nodiscard]] bool is_over() const noexcept { return has_sent_finish_ && has_read_finish_; }

  TransportLimits limits_;
  channel::SendCredits out_;
  channel::ReceiveCredits in_;
  Held* held_;
  std::unique_ptr<Line> line_;
  bool has_rings_;
  Greetings greetings_;
  std::uint32_t header_bytes_;
  std::vector<Line::Message> arrived_;  // a ring: for the program, in order
  std::size_t first_ = 0, waiting_ = 0;
  std::optional<Error> broken_{};
  bool has_changed_ = false;
  bool has_finished_ = false;     // the program, sending
  bool has_sent_finish_ = false;  // its word is posted
  bool has_read_finish_ = false;  // the peer's
};

}  // namespace lend::transport
