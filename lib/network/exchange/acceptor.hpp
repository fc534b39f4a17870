// SPDX-License-Identifier: MIT OR Apache-2.0
// The listening side of the exchange: many clients at once. One thread at a time.
#pragma once

#include <network/exchange/admission.hpp>
#include <network/exchange/exchange.hpp>
#include <network/wire/poller.hpp>

#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>

namespace lend::network {

/// Accepts clients and finds the peer among them.
///
/// A client is sent our greeting only after its own was found good, and only one at a time: our
/// endpoint belongs to a single peer. Other good ones are kept for the next accept(), and take
/// places of `pending_max`.
class Acceptor {
 public:
  /// Errors:  exhausted, system_failed  no descriptors.
  [[nodiscard]] static Result<Acceptor> open(Socket listening, AdmissionLimits limits = {},
                                             Secret secret = {},
                                             Purpose purpose = Purpose::connect);

  [[nodiscard]] std::string const& address() const noexcept { return admission_->address(); }

  /// Waits for a peer that agreed. After an error no client has the endpoint of `ours` any more.
  /// Errors:  timed_out  says why the last client was rejected. exhausted, system_failed.
  [[nodiscard]] Result<Peer> accept(Greeting const& ours, Deadline deadline);

  /// Clients held at the moment.
  [[nodiscard]] std::size_t pending() const noexcept {
    return admission_->clients() + guests_.size();
  }

 private:
  using Clock = Deadline::Clock;
  enum class Stage : std::uint8_t {
    waiting,  ///< its greeting is good; another has our endpoint
    offered,  ///< was sent our endpoint; it has yet to agree
    agreed,
    closed,  ///< to be erased
  };
  /// A client whose greeting is good.
  struct Guest {
    Peer peer{};
    FrameReader reader{};
    Stage stage = Stage::waiting;
    Clock::time_point since{};  ///< it was sent our endpoint
  };

  Acceptor(std::unique_ptr<Admission> admission, Poller poller) noexcept
      : admission_{std::move(admission)}, poller_{std::move(poller)} {}

  [[nodiscard]] Status admit(Admission::Client& client);
  void begin(Clock::time_point now) noexcept;
  void end() noexcept;
  void expire(Clock::time_point now);
  void offer_endpoint(Greeting const& ours, Clock::time_point now);
  /// Rejects the guest that was sent our endpoint: the offer ends with the call of accept().
  void withdraw_offer(StatusCode code, std::string const& clause);
  [[nodiscard]] Deadline next_event() const noexcept;
  [[nodiscard]] Result<void> wait_and_serve(Deadline deadline);
  void serve(Guest& one);
  void on_agreement(Guest& one);
  void reject(Guest& one, StatusCode code, std::string clause);
  void erase_closed();
  [[nodiscard]] Error too_late(Deadline deadline) const;

  std::unique_ptr<Admission> admission_;
  Poller poller_;  // of admission_ and guests_
  std::list<Guest> guests_{};
  Clock::time_point ended_{};  // the last accept()
};

}  // namespace lend::network
