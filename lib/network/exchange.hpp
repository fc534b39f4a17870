// SPDX-License-Identifier: MIT OR Apache-2.0
// The exchange on a connected socket, from the connecting side's view, and its common end. It
// carries endpoints as bytes and knows no device. One thread at a time.
//
//   connecting side          listening side
//   greeting          →
//                     ←      greeting           only to one peer at a time
//   agreed            →
//        …each connects its own end…
//   ready             →←     ready              both can send once both have read it
//
// Any verdict but these two ends the exchange and carries its reason.
#pragma once

#include <network/frame.hpp>
#include <network/socket.hpp>

#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>

#include <chrono>
#include <span>
#include <string>

namespace lend {

/// What this side brings to an exchange.
struct Terms {
  Greeting ours;
  /// Whether bytes are an endpoint at all.
  Result<void> (*check_endpoint)(std::span<std::byte const>);
};

/// How long a peer that agreed may take to connect its end, however far the deadline.
inline constexpr std::chrono::seconds settling_longest{30};

/// Greets the listener at the other end of `socket`; its endpoint, once both agreed.
/// Errors:  timed_out. incompatible_peer  with either side's reason. peer_lost  it hung up.
[[nodiscard]] Result<EndpointBytes> greet_listener(Socket const& socket, Terms const& terms,
                                                   Deadline deadline);

/// Tells the peer how connecting went here, and waits to hear the same.
/// Errors:  timed_out. incompatible_peer  it speaks otherwise. peer_lost  it hung up.
[[nodiscard]] Result<Verdict> settle(Socket const& socket, Verdict const& ours, Deadline deadline);

/// What `theirs` lacks to be a peer, as a verdict for it; agreed when it lacks nothing.
[[nodiscard]] Verdict judge(Greeting const& theirs, Terms const& terms);

/// Says `verdict` to a peer that is being left, as far as that is possible without waiting.
void part_with(Socket const& socket, Verdict const& verdict) noexcept;

/// "the peer at 127.0.0.1:80 `clause`".
[[nodiscard]] std::string about_peer(std::string const& address, std::string_view clause);

}  // namespace lend
