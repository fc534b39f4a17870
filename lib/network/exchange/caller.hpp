// SPDX-License-Identifier: MIT OR Apache-2.0
// The connecting side of an exchange in an event loop, which never waits. One thread at a time.
#pragma once

#include <network/exchange/exchange.hpp>
#include <network/exchange/offer.hpp>
#include <network/wire/poller.hpp>
#include <network/wire/socket.hpp>

#include <lend/base/deadline.hpp>
#include <lend/base/error.hpp>
#include <lend/base/result.hpp>
#include <lend/network/connect.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lend::network {

///   pausing ⇄ dialing ─▶ greeting ─▶ settling
class Caller {
 public:
  /// `addresses` are those of one listener, which are tried in turn.
  /// Errors:  those of Connecting::begin().
  [[nodiscard]] static Result<std::unique_ptr<Caller>> begin(std::span<std::string const> addresses,
                                                             std::unique_ptr<Offer> offer,
                                                             Deadline deadline,
                                                             ExchangeOptions const& options);
  Caller(std::span<SocketAddress const> addresses, Secret secret, std::unique_ptr<Offer> offer,
         Deadline deadline, Poller poller);
  Caller(Caller const&) = delete;
  Caller& operator=(Caller const&) = delete;

  [[nodiscard]] int descriptor() const noexcept { return poller_.descriptor(); }
  /// Does what is due. True: connected. It and an error are the last answers.
  [[nodiscard]] Result<bool> advance();
  [[nodiscard]] Offer& offer() noexcept { return *offer_; }

 private:
  using Clock = Deadline::Clock;
  enum class Step : std::uint8_t { pausing, dialing, greeting, settling };
  struct Candidate {
    SocketAddress address;
    std::string refusal{};            // the last of that host
    std::optional<Error> hopeless{};  // the same, where no time mends it
  };

  [[nodiscard]] Result<void> dial();
  [[nodiscard]] Result<void> on_dialed(int why);
  [[nodiscard]] Result<bool> turn_to_next(Error const& why);
  void come_again(Error const& why);
  void pause() noexcept;
  /// Whether the next frame is there, in reader().
  [[nodiscard]] Result<bool> has_frame();
  [[nodiscard]] Result<void> connect_end();
  [[nodiscard]] Error late() const;

  std::vector<Candidate> candidates_;
  std::size_t next_ = 0;  // is dialed, or will be
  Secret secret_;
  std::unique_ptr<Offer> offer_;
  Deadline deadline_;
  Poller poller_;
  Step step_ = Step::pausing;
  Clock::time_point due_{};  // of this step; a pause ends then
  std::chrono::milliseconds back_off_;
  std::string gave_way_{};  // what the listener said that gave way to others
  Socket socket_{};         // dialing
  std::optional<Greeter> greeter_{};
};

/// Does what is due. Once connected, the caller, which is over; else null: not yet. At an error it
/// is over, too.
/// Errors:  those of Caller::advance(). stale_handle  it is over, or was moved from.
[[nodiscard]] Result<std::unique_ptr<Caller>> finished(std::unique_ptr<Caller>& caller);

}  // namespace lend::network
