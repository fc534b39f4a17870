// SPDX-License-Identifier: MIT OR Apache-2.0
// The listening side of the exchange: many clients at once. One thread at a time.
#pragma once

#include <network/exchange/admission.hpp>
#include <network/exchange/exchange.hpp>
#include <network/exchange/offer.hpp>
#include <network/wire/poller.hpp>

#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>
#include <lend/network/connect.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

namespace lend::network {

/// Accepts clients and finds the peers among them. Good ones that have to wait take places of
/// `pending_max`.
///
/// By accept() one peer at a time: a client is sent our greeting only after its own was found good,
/// and only one, because our endpoint belongs to a single peer. Others are kept for the next call.
/// After begin() by poll(), many at a time: each is offered an end of its own.
///
///   waiting ─▶ offered ─▶ agreed ─▶ settling ─▶ connected      any but the last ─▶ closed
class Acceptor {
 public:
  /// Makes the end for a client; an error rejects the client.
  using Prepare = std::function<Result<std::unique_ptr<Offer>>(Arrival const&)>;
  struct Connected {
    std::uint64_t id = 0;  ///< of its Arrival
    std::unique_ptr<Offer> offer{};
  };

  /// Errors:  exhausted, system_failed  no descriptors.
  [[nodiscard]] static Result<Acceptor> open(Socket listening, AdmissionLimits limits = {},
                                             Secret secret = {},
                                             Purpose purpose = Purpose::connect);

  [[nodiscard]] std::string const& address() const noexcept { return admission_->address(); }
  /// Clients held at the moment.
  [[nodiscard]] std::size_t pending() const noexcept {
    return admission_->clients() + guests_.size();
  }
  /// The last client that was rejected, and why; empty: none.
  [[nodiscard]] std::string const& last_rejected() const noexcept {
    return admission_->last_rejected();
  }

  /// Waits for a peer that agreed. After an error no client has the endpoint of `ours` any more.
  /// Errors:  timed_out  says why the last client was rejected. exhausted, system_failed.
  [[nodiscard]] Result<Peer> accept(Greeting const& ours, Deadline deadline);

  /// From now on poll() accepts.
  /// Errors:  those of Listener::begin().
  [[nodiscard]] Result<void> begin(Prepare prepare, ListenerLimits const& limits = {});
  [[nodiscard]] bool has_begun() const noexcept { return prepare_ != nullptr; }
  /// Readable when poll() has something to do.
  [[nodiscard]] int descriptor() const noexcept { return poller_.descriptor(); }
  /// One that is connected, or nothing.
  /// Errors:  those of Listener::poll().
  [[nodiscard]] Result<std::optional<Connected>> poll();

 private:
  using Clock = Deadline::Clock;
  enum class Stage : std::uint8_t {
    waiting,   ///< its greeting is good; for an end
    offered,   ///< was sent our endpoint; it has yet to agree
    agreed,    ///< our end is to be connected
    settling,  ///< our end is connected; it has yet to say the same
    connected,
    closed,  ///< to be erased
  };
  /// A client whose greeting is good.
  struct Guest {
    Peer peer{};
    FrameReader reader{};
    Stage stage = Stage::waiting;
    Clock::time_point since{};  ///< this stage
    std::uint64_t id = 0;
    std::unique_ptr<Offer> offer{};
  };

  Acceptor(std::unique_ptr<Admission> admission, Poller poller) noexcept
      : admission_{std::move(admission)}, poller_{std::move(poller)} {}

  /// Whether it has an end that is not connected.
  [[nodiscard]] static bool is_connecting(Guest const& one) noexcept {
    return is_awaited(one) || one.stage == Stage::agreed;
  }
  /// Whether the next step is the client's.
  [[nodiscard]] static bool is_awaited(Guest const& one) noexcept {
    return one.stage == Stage::offered || one.stage == Stage::settling;
  }
  [[nodiscard]] Status admit(Admission::Client& client);
  void begin_call(Clock::time_point now) noexcept;
  void end_call() noexcept;
  /// Rejects the guest that was sent our endpoint: the offer ends with the call of accept().
  void withdraw_offer(StatusCode code, std::string const& clause);
  [[nodiscard]] Error too_late(Deadline deadline) const;

  void expire(Clock::time_point now);
  /// Offers those that wait what `make(guest)` makes, up to so many at a time.
  template <class Make>
  void offer(std::size_t connecting_max, Make const& make);
  [[nodiscard]] Result<Greeting> prepare(Guest& one);
  void connect(Guest& one);
  [[nodiscard]] std::optional<Connected> take_connected();
  /// When to look again although no socket is ready.
  /// Of the patience with one that connects.
  [[nodiscard]] Clock::time_point next_expiry() const noexcept;
  [[nodiscard]] Clock::time_point next_event() const noexcept;
  [[nodiscard]] Result<void> serve(Deadline deadline);
  void read(Guest& one);
  void on_status(Guest& one);
  void reject(Guest& one, StatusCode code, std::string clause);
  void erase_closed();
  /// Tells the admission how many wait.
  void hold_places() noexcept;

  std::unique_ptr<Admission> admission_;
  Poller poller_;  // of admission_ and guests_
  std::list<Guest> guests_{};
  Clock::time_point ended_{};  // the last accept()
  Prepare prepare_{};
  std::size_t connecting_max_ = 1;
  std::uint64_t arrivals_ = 0;
  Clock::time_point due_ = Clock::time_point::max();  // next_expiry(), as the last poll() left it
  Clock::time_point polled_{};                        // the last time
};

}  // namespace lend::network
