// SPDX-License-Identifier: MIT OR Apache-2.0
// The exchange on a connected socket, from the connecting side's view, and its common end. It
// knows no device. One thread at a time.
//
//   connecting side          listening side
//   hello             →
//                     ←      hello, proof       proofs only where there is a secret; after its own
//   proof, greeting   →                         each side seals what it sends
//                     ←      greeting           only to one peer at a time
//   agreed            →
//        …each connects its own end…
//   ready             →←     ready              both can send once both have read it
//
// Any status but these two ends the exchange and carries its reason.
#pragma once

#include <network/wire/talk.hpp>

#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>

#include <chrono>
#include <memory>
#include <utility>

namespace lend::network {

/// How long a peer that agreed may take to connect its queue pair, however far the deadline.
inline constexpr std::chrono::seconds status_patience{30};

/// A peer that agreed.
struct Peer {
  Socket socket{};
  std::unique_ptr<Sealing> sealing{};  ///< null where there is no secret
  Greeting greeting{};
};

/// The connecting side up to the agreement, frame by frame. It waits for nothing.
class Greeter {
 public:
  /// Borrows: `secret` for the life of this object.
  Greeter(Socket socket, Greeting ours, Secret const& secret, Purpose purpose)
      : peer_{.socket = std::move(socket)}, ours_{std::move(ours)}, proving_{secret, purpose} {}

  /// Sends the hello.
  /// Errors:  system_failed  no random bytes. peer_lost.
  [[nodiscard]] Result<void> begin() { return proving_.begin(peer_.socket); }
  /// Where the listener's frames are collected.
  [[nodiscard]] FrameReader& reader() noexcept { return reader_; }
  /// Answers the frame in reader(), which is ready for the next then. True: both have agreed.
  /// Errors:  as greet_listener().
  [[nodiscard]] Result<bool> take();
  /// Whether take() failed because the listener had no time for this side, which may come again.
  [[nodiscard]] bool gave_way() const noexcept;
  [[nodiscard]] Peer& peer() noexcept { return peer_; }
  [[nodiscard]] Peer const& peer() const noexcept { return peer_; }

 private:
  Peer peer_;
  Greeting ours_;
  Proving proving_;
  FrameReader reader_{};
  bool is_proved_ = false;
};

/// Greets the listener at the other end of `socket`; what it said of itself, once both agreed.
/// Nothing of `ours` is sent before it proved that it knows `secret`, if one is set.
/// Errors:  timed_out. incompatible_peer  with either side's reason. peer_lost  it hung up.
///          system_failed  no random bytes.
[[nodiscard]] Result<Peer> greet_listener(Socket socket, Greeting const& ours, Deadline deadline,
                                          Secret const& secret = {},
                                          Purpose purpose = Purpose::connect);

/// Greets the listener at `address`, and comes again where it gave way to others.
/// Errors:  those of reach() and greet_listener().
[[nodiscard]] Result<Peer> greet(std::string_view address, Greeting const& ours, Deadline deadline,
                                 Secret const& secret, Purpose purpose = Purpose::connect);

/// Sends the peer the status of this end, and waits for its own.
/// Errors:  timed_out. incompatible_peer  it speaks otherwise. peer_lost  it hung up.
[[nodiscard]] Result<Status> exchange_status(Peer const& peer, Status const& ours,
                                             Deadline deadline);

/// What a side says of itself after this outcome.
[[nodiscard]] Status status_of(Result<void> const& outcome);
/// The status in the frame that follows an agreement.
/// Errors:  incompatible_peer  it is something else.
[[nodiscard]] Result<Status> settled_status(Peer const& peer, FrameReader const& reader);
/// A peer that agreed and has sent no status since.
[[nodiscard]] Error fell_silent(Peer const& peer);
/// Whether both ends are connected, where this one came to `outcome` and the other tells `theirs`.
/// Errors:  those of Meeting::settle().
[[nodiscard]] Result<void> joint_outcome(Peer const& peer, Result<void> const& outcome,
                                         Result<Status> const& theirs);

/// Whether `theirs` is the greeting of a peer: agreed, or the status to reject it with.
[[nodiscard]] Status validate(Greeting const& theirs, Greeting const& ours);

}  // namespace lend::network
