// SPDX-License-Identifier: MIT OR Apache-2.0
// The listening side of the exchange: many connections at once, one peer at a time. One thread at a
// time.
#pragma once

#include <network/exchange/exchange.hpp>

#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace lend::network {

/// Bounds on the connections that are held before they are known to be a peer's.
struct AcceptorLimits {
  std::size_t pending_max = 128;  ///< held at once; further ones wait in the kernel's queue
  std::chrono::milliseconds patience{2000};        ///< for a greeting, and again to agree
  std::chrono::milliseconds crowded_patience{10};  ///< for a hello, while others wait
  std::chrono::milliseconds crowded_answer{100};   ///< from hello to greeting, while others wait
};

/// Accepts connections and finds the peer among them.
///
/// A connection is sent our greeting only after its own was found good, and only one at a time: our
/// endpoint belongs to a single peer. Other good ones are kept for the next accept(). Where there
/// is a secret, only who proved to know it gets as far as its greeting.
/// Connections that send nothing take no place: the kernel keeps them to itself for a second
/// (TCP_DEFER_ACCEPT). Those that send too little keep theirs for `crowded_patience` while others
/// wait, so that a peer behind n of them waits for n / pending_max * crowded_patience; those that
/// sent a hello, which a peer's answer to ours must be let to follow, for `crowded_answer`.
class Acceptor {
 public:
  explicit Acceptor(Socket listening, AcceptorLimits limits = {}, Secret secret = {},
                    Purpose purpose = Purpose::connect) noexcept
      : listening_{std::move(listening)},
        limits_{limits},
        secret_{std::move(secret)},
        purpose_{purpose} {}

  [[nodiscard]] std::string const& address() const noexcept { return listening_.address; }

  /// Waits for a peer that agreed. After an error no connection has the endpoint of `ours` any
  /// more.
  /// Errors:  timed_out  says why the last connection was rejected. exhausted, system_failed.
  [[nodiscard]] Result<Peer> accept(Greeting const& ours, Deadline deadline);

  /// Connections held at the moment.
  [[nodiscard]] std::size_t pending() const noexcept { return pending_.size(); }

 private:
  enum class Stage : std::uint8_t {
    hello,     ///< its hello is incomplete
    proof,     ///< was sent our hello and proof; its own proof is incomplete
    greeting,  ///< proved what it has to; its greeting is incomplete
    waiting,   ///< its greeting is good; another has our endpoint
    offered,   ///< was sent our endpoint; it has yet to agree
    agreed,
    closed,  ///< to be erased
  };
  struct PendingConnection {
    Peer peer{};
    Stage stage = Stage::hello;
    Deadline::Clock::time_point since{};  ///< when it came, or was sent our endpoint
    FrameReader reader{};
  };

  [[nodiscard]] static bool is_greeting(PendingConnection const& one) noexcept {
    return one.stage <= Stage::greeting;
  }
  /// When it gives way to a newcomer. Shape: is_greeting(one).
  [[nodiscard]] Deadline::Clock::time_point replaceable_from(
      PendingConnection const& one) const noexcept {
    return one.since +
           (one.stage == Stage::hello ? limits_.crowded_patience : limits_.crowded_answer);
  }
  void begin(Deadline::Clock::time_point now) noexcept;
  void end() noexcept;
  void expire(Deadline::Clock::time_point now);
  void offer_endpoint(Greeting const& ours, Deadline::Clock::time_point now);
  /// Rejects the connection that was sent our endpoint: the offer ends with the call of accept().
  void withdraw_offer(StatusCode code, std::string const& clause);
  [[nodiscard]] bool has_room(Deadline::Clock::time_point now) const noexcept;
  [[nodiscard]] Deadline next_event() const noexcept;
  [[nodiscard]] Result<void> wait_and_serve(Greeting const& ours, Deadline deadline);
  void serve(PendingConnection& one, Greeting const& ours);
  void on_frame(PendingConnection& one, Greeting const& ours);
  void on_hello(PendingConnection& one);
  void on_proof(PendingConnection& one);
  void on_greeting(PendingConnection& one, Greeting const& ours);
  void on_agreement(PendingConnection& one);
  /// Sends what its empty buffer must have room for, or rejects it.
  [[nodiscard]] bool send_at_once(PendingConnection& one, Frame const& frame);
  [[nodiscard]] Result<void> take_newcomers();
  void make_room(Deadline::Clock::time_point now);
  void reject(PendingConnection& one, StatusCode code, std::string clause);
  void erase_closed();
  [[nodiscard]] Error too_late(Deadline deadline) const;

  Socket listening_;
  AcceptorLimits limits_;
  Secret secret_;
  Purpose purpose_;
  std::vector<PendingConnection> pending_;  // oldest first
  std::vector<pollfd> polled_;              // listening socket last
  std::string last_rejected_;
  std::size_t room_ = 0;                 // of pending_: lowered while descriptors are short
  Deadline::Clock::time_point ended_{};  // the last accept()
};

}  // namespace lend::network
