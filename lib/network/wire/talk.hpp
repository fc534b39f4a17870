// SPDX-License-Identifier: MIT OR Apache-2.0
// Frames over a non-blocking socket: what all sides of all exchanges share. One thread at a time.
#pragma once

#include <network/wire/frame.hpp>
#include <network/wire/socket.hpp>

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>

#include <memory>
#include <string>
#include <string_view>

namespace lend::network {

/// What a thread serves while it waits for a socket of its own: the desk in its own process.
class Served {
 public:
  Served() = default;
  Served(Served const&) = delete;
  Served& operator=(Served const&) = delete;
  virtual ~Served() = default;

  /// Readable when serve() has something to do.
  [[nodiscard]] virtual int descriptor() const noexcept = 0;
  /// As far as it goes without waiting.
  [[nodiscard]] virtual Result<void> serve() = 0;
};

/// How long to wait, and what to serve meanwhile.
struct Waiting {
  Deadline deadline;
  Served* served = nullptr;

  Waiting(Deadline until, Served* beside = nullptr) noexcept : deadline{until}, served{beside} {}
};

/// An exchange that did not finish by its deadline, or before the other side hung up, with this
/// errno or 0.
[[nodiscard]] Error exchange_late(std::string const& address, Deadline deadline);
[[nodiscard]] Error exchange_lost(std::string const& address, int errno_value);
/// "the peer at 127.0.0.1:80 `clause`".
[[nodiscard]] LEND_EXPORT std::string about_peer(std::string const& address,
                                                 std::string_view clause);
/// incompatible_peer about the peer.
[[nodiscard]] LEND_EXPORT Error refused(Socket const& socket, std::string_view clause);

// ---- both sides ----

/// The hello of one connection, with the public one of its keys. Source: getrandom(2).
/// Errors:  system_failed  no random bytes.
[[nodiscard]] Result<Hello> new_hello(Secret const& secret, KeyPair const& keys, Purpose purpose);

/// Whether `theirs` is the hello of a peer: agreed, or the status to reject it with.
[[nodiscard]] Status validate(Hello const& theirs, Secret const& ours,
                              Purpose purpose = Purpose::connect);

/// What a side that proved nothing, or something else, is rejected with.
[[nodiscard]] Status another_secret();

/// What a side is rejected with whose hello has no key of X25519.
[[nodiscard]] Status no_key();

/// What a side is rejected with that says the same as this one.
[[nodiscard]] Status sent_back();

/// Sends `status` and ends the connection, as far as that is possible without waiting.
LEND_EXPORT void send_rejection(Socket const& socket, Status const& status, Sealing* sealing);

/// Nothing more follows what was sent, which the other end can read although this one is closed.
LEND_EXPORT void end_sending(Socket const& socket);

/// The status in a complete frame.
/// Errors:  incompatible_peer.
[[nodiscard]] LEND_EXPORT Result<Status> read_status(Socket const& socket,
                                                     FrameReader const& reader);

// ---- the connecting side ----

/// Refuses a listener of another user at a local socket.
/// Errors:  those of check_user(), with the listener's name.
[[nodiscard]] Result<void> check_listener(Socket const& socket);

/// Whether the frame in `reader`, of a listener, is one of that kind.
/// Errors:  incompatible_peer, peer_lost  it is something else, or a status that rejects this side.
[[nodiscard]] Result<void> expect(Socket const& socket, FrameReader const& reader,
                                  FrameKind wanted);

/// Hellos and proofs of the connecting side, frame by frame. It waits for nothing.
class Proving {
 public:
  /// Borrows: `secret` for the life of this object.
  Proving(Secret const& secret, Purpose purpose) noexcept
      : secret_{secret}, purpose_{purpose}, keys_{secret} {}

  /// Sends the hello.
  /// Errors:  system_failed  no random bytes. peer_lost.
  [[nodiscard]] Result<void> begin(Socket const& socket);
  /// Answers the frame in `reader`. True: the listener has proved what it has to, `sealing` is that
  /// of the connection, and from the next frame on `reader` takes what the listener seals.
  /// Errors:  incompatible_peer, peer_lost.
  [[nodiscard]] Result<bool> take(Socket const& socket, FrameReader& reader,
                                  std::unique_ptr<Sealing>& sealing);

 private:
  Secret const& secret_;
  Purpose purpose_;
  KeyPair keys_;
  Hello ours_{};
  bool has_hello_ = false;  // the listener's
};

// ---- the connecting side, which waits ----

/// A connection to a listener at `address`, of this user where it is a local one. The resolver
/// knows no deadline.
/// Errors:  those of connect_with_retry(), candidates_at() and check_user().
[[nodiscard]] LEND_EXPORT Result<Socket> reach(std::string_view address, Deadline deadline);

/// Errors:  timed_out. peer_lost  it hung up.
[[nodiscard]] Result<void> send_all(Socket const& socket, Frame const& frame,
                                    Waiting const& waiting);
/// Sends although a listener that rejected this side may have hung up: its status is still to be
/// read.
[[nodiscard]] LEND_EXPORT Result<void> offer(Socket const& socket, Frame const& frame,
                                             Waiting const& waiting);
/// Errors:  timed_out. peer_lost  it hung up. incompatible_peer.
[[nodiscard]] LEND_EXPORT Result<void> receive_frame(Socket const& socket, FrameReader& reader,
                                                     Waiting const& waiting);
/// The next frame of a listener: one of that kind, or the error that its status is.
[[nodiscard]] Result<void> receive_from_listener(Socket const& socket, FrameReader& reader,
                                                 FrameKind wanted, Waiting const& waiting);
/// What a listener's status means for this side, which it rejected.
[[nodiscard]] LEND_EXPORT Error error_of_rejection(Socket const& socket, Status const& status);
/// Rejects the listener too.
[[nodiscard]] Error reject(Socket const& socket, Status const& status, Sealing* sealing);

/// Hellos and proofs; `reader` takes from then on what the listener seals.
[[nodiscard]] LEND_EXPORT Result<std::unique_ptr<Sealing>> prove_each_other(Socket const& socket,
                                                                            FrameReader& reader,
                                                                            Secret const& secret,
                                                                            Purpose purpose,
                                                                            Waiting const& waiting);

// ---- the listening side, which never waits ----

/// Whether the whole frame has arrived. At most one is read, so that endless senders take turns.
/// Errors:  peer_lost, incompatible_peer  clauses that follow the sender's name.
[[nodiscard]] LEND_EXPORT Result<bool> read_available(Socket const& socket, FrameReader& reader);

/// False: the empty buffer of a connection did not take it, which is over then.
[[nodiscard]] LEND_EXPORT bool sends_at_once(Socket const& socket, Frame const& frame);

/// Answers the hello in `reader` with our own and, where there is a secret, with our proof: agreed,
/// or the status to reject it with. `sealing` becomes that of the connection; null: no secret.
[[nodiscard]] Status answer_hello(Socket const& socket, FrameReader const& reader,
                                  Secret const& secret, Purpose purpose,
                                  std::unique_ptr<Sealing>& sealing);

}  // namespace lend::network
