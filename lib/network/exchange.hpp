// SPDX-License-Identifier: MIT OR Apache-2.0
// The exchange on a connected socket, from the connecting side's view, and its common end. It
// knows no device. One thread at a time.
//
//   connecting side          listening side
//   greeting          →
//                     ←      greeting           only to one peer at a time
//   agreed            →
//        …each connects its own end…
//   ready             →←     ready              both can send once both have read it
//
// Any status but these two ends the exchange and carries its reason.
#pragma once

#include <network/frame.hpp>
#include <network/socket.hpp>

#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>

#include <chrono>
#include <string>
#include <string_view>

namespace lend::network {

/// How long a peer that agreed may take to connect its queue pair, however far the deadline.
inline constexpr std::chrono::seconds status_patience{30};

/// Sends `ours` to the listener at the other end of `socket`; its endpoint, once both agreed.
/// Errors:  timed_out. incompatible_peer  with either side's reason. peer_lost  it hung up.
[[nodiscard]] Result<Endpoint> greet_listener(Socket const& socket, Greeting const& ours,
                                              Deadline deadline);

/// Sends the peer the status of this end, and waits for its own.
/// Errors:  timed_out. incompatible_peer  it speaks otherwise. peer_lost  it hung up.
[[nodiscard]] Result<Status> exchange_status(Socket const& socket, Status const& ours,
                                             Deadline deadline);

/// Whether `theirs` is the greeting of a peer: agreed, or the status to reject it with.
[[nodiscard]] Status validate(Greeting const& theirs, Greeting const& ours);

/// Sends `status` and ends the connection, as far as that is possible without waiting.
void send_rejection(Socket const& socket, Status const& status) noexcept;

/// "the peer at 127.0.0.1:80 `clause`".
[[nodiscard]] std::string about_peer(std::string const& address, std::string_view clause);

}  // namespace lend::network
