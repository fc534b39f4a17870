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

namespace lend::network {

/// How long a peer that agreed may take to connect its queue pair, however far the deadline.
inline constexpr std::chrono::seconds status_patience{30};

/// A peer that agreed.
struct Peer {
  Socket socket{};
  std::unique_ptr<Sealing> sealing{};  ///< null where there is no secret
  Greeting greeting{};
};

/// Greets the listener at the other end of `socket`; what it said of itself, once both agreed.
/// Nothing of `ours` is sent before it proved that it knows `secret`, if one is set.
/// Errors:  timed_out. incompatible_peer  with either side's reason. peer_lost  it hung up.
///          system_failed  no random bytes.
[[nodiscard]] Result<Peer> greet_listener(Socket socket, Greeting const& ours, Deadline deadline,
                                          Secret const& secret = {},
                                          Purpose purpose = Purpose::connect);

/// Sends the peer the status of this end, and waits for its own.
/// Errors:  timed_out. incompatible_peer  it speaks otherwise. peer_lost  it hung up.
[[nodiscard]] Result<Status> exchange_status(Peer const& peer, Status const& ours,
                                             Deadline deadline);

/// Whether `theirs` is the greeting of a peer: agreed, or the status to reject it with.
[[nodiscard]] Status validate(Greeting const& theirs, Greeting const& ours);

}  // namespace lend::network
