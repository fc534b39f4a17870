// SPDX-License-Identifier: MIT OR Apache-2.0
// One end of a transport: credits, words, half close and the first cause, over a line. The thread
// of the transport.
//
//   open ──finish_sending()──▶ sent all ──the peer's finish──▶ over
//     └──the peer's finish──▶ got all ──finish_sending()─────▶ over     any but over ──▶ broken
//
// A send is posted only when the peer has a receive for it, so that its device takes it without its
// program: messages of the window, credit_words_max credits, lent_max more that say which lent
// messages are over, and the finish.
#pragma once

#include <base/ring.hpp>
#include <flow/credits.hpp>
#include <flow/greetings.hpp>
#include <lend/transport/lent_message.hpp>
#include <lend/transport/transport.hpp>
#include <observe/tally.hpp>
#include <transport/held.hpp>
#include <transport/lent.hpp>
#include <transport/line.hpp>
#include <verbs/device/handles.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace lend::transport {

using flow::Greetings;

class End final : private Lender {
 public:
  /// `out` as the peer says, `in` as this end does.
  struct Sizes {
    flow::CreditSizes out{}, in{};
    std::uint32_t header_bytes = 0;  ///< before each message, in a ring
  };
  /// A greeting is a credit that frees nothing.
  End(std::unique_ptr<Line> line, TransportLimits const& limits, Sizes const& sizes,
      verbs::FirstSender first = verbs::FirstSender::either);
  ~End();

  [[nodiscard]] Result<Draft> try_draft(std::size_t at_least, std::size_t at_most) noexcept;
  [[nodiscard]] Result<std::optional<std::size_t>> try_send_some(
      std::size_t at_least, std::span<std::byte const> bytes) noexcept;
  [[nodiscard]] Result<Received> try_receive() noexcept;
  [[nodiscard]] Result<void> finish_sending() noexcept;
  [[nodiscard]] Result<LentMessage> try_send_lent(GatherElement const& bytes,
                                                  SourceLine where) noexcept;
  [[nodiscard]] Result<bool> try_fetch(Received const& message, ScatterElement const& target,
                                       SourceLine where) noexcept;
  void disconnect() noexcept;
  [[nodiscard]] Result<bool> poll() noexcept;
  [[nodiscard]] Result<bool> arm() noexcept;
  [[nodiscard]] Result<int> descriptor() const noexcept { return line_->descriptor(); }
  [[nodiscard]] Deadline look_again() const noexcept {
    return sooner(line_->look_again(), greetings_.next());
  }
  /// With the finish, also while it is not posted.
  [[nodiscard]] std::uint32_t sends_in_flight() const noexcept {
    return line_->sends_in_flight() + (has_finished_ && !has_sent_finish_) + lent_.count() +
           fetches_.owed();
  }
  [[nodiscard]] std::vector<Setting> settings() const { return line_->settings(); }
  [[nodiscard]] TransportLimits const& limits() const noexcept { return limits_; }

 private:
  void take_back(std::uint32_t slot) noexcept override;
  void drop_draft() noexcept override;
  [[nodiscard]] Result<void> send_draft(std::size_t used) noexcept override;

  /// Room for a message of so many bytes, if nothing is known that is against one.
  [[nodiscard]] std::optional<std::span<std::byte>> room_for_draft(std::size_t at_least,
                                                                   std::size_t at_most) noexcept;
  /// The same after what has come, or why there is none.
  [[nodiscard]] Result<std::optional<std::span<std::byte>>> room_after_arrivals(
      std::size_t at_least, std::size_t at_most) noexcept;
  /// Sends the first `bytes` of the last room as one message, of as many as are counted.
  [[nodiscard]] Result<void> send_message(WordKind kind, std::uint32_t bytes,
                                          std::size_t counted) noexcept;
  void note_sent(std::uint32_t cells, std::size_t counted) noexcept;
  [[nodiscard]] Result<void> not_sent(Result<bool> const& sent) noexcept;

  /// Lends the program the next message that waits.
  [[nodiscard]] Result<Received> lend_next() noexcept;
  /// The same of one that the peer has lent.
  [[nodiscard]] Received hold_lent(std::uint32_t place) noexcept;
  /// What try_receive() says where none does.
  [[nodiscard]] Result<Received> without_message() const noexcept;
  /// Takes what has come, until there is a message for the program, if `up_to_one`.
  void take_arrivals(bool up_to_one) noexcept;
  /// What one word says; or what is wrong with it.
  [[nodiscard]] char const* take_arrival(Line::Arrival const& arrival) noexcept;
  template <bool is_lent = false>
  [[nodiscard]] char const* take_message(Word const& word, Line::Arrival const& arrival) noexcept;
  [[nodiscard]] char const* take_lent(Word const& word, Line::Arrival const& arrival) noexcept;
  /// A credit or the finish.
  [[nodiscard]] char const* take_notice(Word const& word, Line::Arrival const& arrival,
                                        bool frees) noexcept;
  void break_by(Error cause) noexcept;
  /// Of a message in a ring, or 0.
  [[nodiscard]] std::uint32_t cells_of(std::size_t bytes) const noexcept {
    return has_rings_ ? flow::cells_of(bytes + header_bytes_) : 0;
  }
  /// Sends the words that are due, as far as there is room: counts are absolute, so that what does
  /// not go now goes with a later one.
  void send_words() noexcept;

  TransportLimits limits_;
  flow::SendCredits out_;
  flow::ReceiveCredits in_;
  Held* held_;
  std::unique_ptr<Line> line_;
  bool const is_pooled_;
  bool has_rings_;
  Greetings greetings_;
  std::uint32_t header_bytes_;
  LentMessages lent_{};
  Fetches fetches_;
  base::Ring<Line::Message> arrived_;                // for the program
  std::unique_ptr<observe::Tally> const own_tally_;  // null: a pool has it, or none is asked for
  observe::Tally* const tally_;                      // null: none is asked for
  std::optional<Error> broken_{};
  bool has_changed_ = false;
  bool has_finished_ = false;     // the program, sending
  bool has_sent_finish_ = false;  // its word is posted
  bool has_read_finish_ = false;  // the peer's
};

}  // namespace lend::transport
