// SPDX-License-Identifier: MIT OR Apache-2.0
// Who sends first over a connection of iWARP, and how often. One thread at a time.
#pragma once

#include <lend/base/deadline.hpp>
#include <verbs/device/handles.hpp>

#include <chrono>
#include <cstdint>

namespace lend::flow {

/// As often an end greets, at most. All but the first may be unread while other messages come.
inline constexpr std::uint32_t greetings_max = 4;

/// The greetings that an end owes, or is owed.
///
/// Where an end is the first sender, it greets at once, by a message that says nothing; where the
/// peer is, the end sends nothing before that has come. A greeting is repeated until the peer has
/// sent something, because SoftiWARP does not notice a frame that comes just after it has accepted,
/// before the next one comes.
/// Source: Linux drivers/infiniband/sw/siw/siw_cm.c, siw_accept(), which answers before the
///         socket tells the queue pair of what it receives.
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

}  // namespace lend::flow
