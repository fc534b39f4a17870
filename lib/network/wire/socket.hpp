// SPDX-License-Identifier: MIT OR Apache-2.0
// TCP sockets that never block: listening, reaching a listener, waiting. One thread at a time.
#pragma once

#include <base/unique_fd.hpp>
#include <network/wire/address.hpp>

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace lend::network {

/// poll(2) until something is ready or `deadline` passes; true if something is ready. Polls once
/// when the deadline has passed already. An interrupted poll goes on.
/// Errors:  exhausted, system_failed.
[[nodiscard]] LEND_EXPORT Result<bool> wait_for(std::span<pollfd> descriptors, Deadline deadline);
/// Until one is readable, or the deadline.
/// Errors:  as wait_for().
[[nodiscard]] LEND_EXPORT Result<void> sleep_on(std::span<int const> descriptors,
                                                Deadline deadline);

/// A socket and the address at its other end, or for a listener at this one.
struct Socket {
  base::UniqueFd fd;
  std::string address;
};

/// Refuses the process at the other end of a local socket if it is of another user; a listener's
/// user is that of its listen(2). Other sockets have none.
/// Errors:  denied  a clause that follows the other end's name. system_failed.
/// Source:  unix(7), SO_PEERCRED.
[[nodiscard]] Result<void> check_user(int fd);

/// A listening socket at the first of `candidates` that can be bound. At [::] it is for IPv4 too;
/// where the kernel has no IPv6, for IPv4 only.
/// Errors:  not_found  none is an address of this host. denied, system_failed, exhausted.
[[nodiscard]] Result<Socket> open_listening(std::span<SocketAddress const> candidates);
/// The same at each of `candidates` that is an address of this host, at one port.
[[nodiscard]] LEND_EXPORT Result<std::vector<Socket>> open_all_listening(
    std::vector<SocketAddress> candidates);

/// The next connection that waits at `listening`; an empty socket when there is none.
/// Errors:  exhausted  descriptors or memory. system_failed.
[[nodiscard]] Result<Socket> take_connection(int listening);

/// How long one attempt may take, where so many addresses are left to try before `deadline`. One
/// that swallows packets does not use up the time of those after it; the last has 10 s.
[[nodiscard]] Deadline::Clock::duration attempt_longest(std::size_t left, Deadline deadline);
// The pauses between attempts.
inline constexpr std::chrono::milliseconds back_off_shortest{2};
inline constexpr std::chrono::milliseconds back_off_longest{100};

/// One attempt at `address`, which goes on in the background until the socket is writable.
/// Errors:  have the errno of connect(2).
[[nodiscard]] Result<Socket> begin_attempt(SocketAddress const& address);
/// What became of it: 0, or an errno.
[[nodiscard]] int outcome_of_attempt(int fd);
/// Whether such an errno may not come again: the listener, its host or the way there may not be up
/// yet.
[[nodiscard]] bool may_pass(int errno_value);
[[nodiscard]] std::string words_for(int errno_value);

/// Whether both ends of a connection are this socket: repeated attempts at a free ephemeral port
/// of this host meet themselves sooner or later.
/// Source: RFC 9293 §3.5, simultaneous open, with one party.
[[nodiscard]] bool is_connected_to_itself(int fd);

/// Whether the other end is closed, or will send nothing more.
[[nodiscard]] LEND_EXPORT bool has_hung_up(int fd);

/// Finds the addresses of a name; not_found: the name may be known later.
using LookUp = std::function<Result<std::vector<SocketAddress>>()>;

/// What `look_up` finds, which is asked again until it finds something: after 0.1 s, and then after
/// twice the pause before, of 2 s at most.
/// Errors:  timed_out, cancelled  in the resolver's words; not_found, if it was asked only once.
///          Those of `look_up`.
[[nodiscard]] LEND_EXPORT Result<std::vector<SocketAddress>> find_candidates(
    std::string const& name, LookUp const& look_up, Deadline deadline);

/// A connection to the first of the addresses of a name that accepts one. Until one does, retries
/// all of them, and looks the name up again, at the pace of find_candidates(): it may be known
/// later, or have other addresses then.
/// Errors:  timed_out, cancelled  has the last refusal of each, or the resolver's words.
///          denied, exhausted, system_failed. Those of `look_up`.
[[nodiscard]] Result<Socket> connect_with_retry(std::string const& name, LookUp const& look_up,
                                                Deadline deadline);

}  // namespace lend::network
