// SPDX-License-Identifier: MIT OR Apache-2.0
// Frames over a non-blocking socket, under one deadline.
#include <base/giving_up.hpp>
#include <network/exchange.hpp>

#include <sys/random.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace lend::network {
namespace {

Error late(std::string const& address, Deadline deadline) {
  return base::gave_up(
      deadline, about_peer(address, "did not finish the exchange"),
      "; nothing is connected. Check that a lend program listens or connects there and "
      "is not stopped, then prepare again and retry");
}

Error lost(std::string const& address, int errno_value) {
  std::string clause = "closed the connection during the exchange";
  if (errno_value != 0) clause += " (" + std::generic_category().message(errno_value) + ")";
  return {Errc::peer_lost, about_peer(address, clause + "; prepare again and retry")};
}

bool would_wait(int errno_value) {
  return errno_value == EAGAIN || errno_value == EWOULDBLOCK;
}

Result<void> send_all(Socket const& socket, Frame const& frame, Deadline deadline) {
  auto bytes = frame.bytes();
  while (!bytes.empty()) {
    auto const sent = ::send(socket.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    if (!would_wait(errno)) return lost(socket.address, errno);
    pollfd waiting{socket.fd.get(), POLLOUT, 0};
    LEND_TRY(ready, wait_for({&waiting, 1}, deadline));
    if (!ready) return late(socket.address, deadline);
  }
  return success();
}

/// Sends while a listener that rejected this side at once may have hung up: its status is still to
/// be read.
Result<void> offer(Socket const& socket, Frame const& frame, Deadline deadline) {
  auto sent = send_all(socket, frame, deadline);
  if (!sent && sent.error() != Errc::peer_lost) return sent;
  return success();
}

Result<void> receive_frame(Socket const& socket, FrameReader& reader, Deadline deadline) {
  while (!reader.complete()) {
    auto const room = reader.room();
    auto const got = ::recv(socket.fd.get(), room.data(), room.size(), 0);
    if (got > 0) {
      auto const took = reader.took(static_cast<std::size_t>(got));
      if (!took)
        return Error{Errc::incompatible_peer, about_peer(socket.address, took.error().message())};
      continue;
    }
    if (got == 0) return lost(socket.address, 0);
    if (errno == EINTR) continue;
    if (!would_wait(errno)) return lost(socket.address, errno);
    pollfd waiting{socket.fd.get(), POLLIN, 0};
    LEND_TRY(ready, wait_for({&waiting, 1}, deadline));
    if (!ready) return late(socket.address, deadline);
  }
  return success();
}

Status sent_back() {
  return {StatusCode::foreign, "sent back what it received: it is not a lend program"};
}

Result<Status> read_status(Socket const& socket, FrameReader const& reader) {
  auto status = reader.status();
  if (!status)
    return Error{Errc::incompatible_peer, about_peer(socket.address, status.error().message())};
  return status;
}

Error refused(Socket const& socket, std::string_view clause) {
  return {Errc::incompatible_peer, about_peer(socket.address, clause)};
}

/// The next frame of a listener: one of that kind, or the error that its status is.
Result<void> receive_from_listener(Socket const& socket, FrameReader& reader, FrameKind wanted,
                                   Deadline deadline) {
  reader.restart();
  LEND_TRYV(receive_frame(socket, reader, deadline));
  if (reader.kind() == wanted) return success();
  if (reader.kind() != FrameKind::status) return refused(socket, "sent a frame out of turn");
  LEND_TRY(status, read_status(socket, reader));
  bool const no_fault_of_ours =
      status.code == StatusCode::failed || status.code == StatusCode::too_slow;
  return Error{no_fault_of_ours ? Errc::peer_lost : Errc::incompatible_peer,
               about_peer(socket.address, "rejected the connection: this side " + status.text)};
}

/// Rejects the listener too.
Error reject(Socket const& socket, Status const& status, Sealing* sealing) {
  send_rejection(socket, status, sealing);
  return refused(socket, status.text);
}

/// Hellos and proofs; `reader` takes from then on what the listener seals.
Result<std::unique_ptr<Sealing>> prove_each_other(Socket const& socket, FrameReader& reader,
                                                  Secret const& secret, Deadline deadline) {
  LEND_TRY(ours, new_hello(secret));
  LEND_TRYV(offer(socket, encode(ours), deadline));
  LEND_TRYV(receive_from_listener(socket, reader, FrameKind::hello, deadline));
  auto const theirs = reader.hello();
  if (!theirs) return refused(socket, theirs.error().message());
  if (theirs.value().nonce == ours.nonce) return reject(socket, sent_back(), nullptr);
  auto const status = validate(theirs.value(), secret);
  if (status.code != StatusCode::agreed) return reject(socket, status, nullptr);
  auto sealing =
      secret.sealing(Side::connecting, encode(ours).bytes(), encode(theirs.value()).bytes());
  if (!sealing) return sealing;
  LEND_TRYV(receive_from_listener(socket, reader, FrameKind::proof, deadline));
  if (!sealing->is_proved_by(reader.proof())) return reject(socket, another_secret(), nullptr);
  reader.open_by(*sealing);
  LEND_TRYV(offer(socket, encode(sealing->proof()), deadline));
  return sealing;
}

}  // namespace

std::string about_peer(std::string const& address, std::string_view clause) {
  return "the peer at " + address + " " + std::string{clause};
}

Result<Hello> new_hello(Secret const& secret) {
  Hello hello{.has_secret = secret.is_set()};
  auto const got = ::getrandom(hello.nonce.data(), hello.nonce.size(), 0);
  if (got != static_cast<ssize_t>(hello.nonce.size())) return Error::from_errno("getrandom", errno);
  return hello;
}

Status validate(Hello const& theirs, Secret const& ours) {
  if (theirs.has_secret == ours.is_set()) return {StatusCode::agreed, {}};
  return {StatusCode::wrong_secret,
          theirs.has_secret ? "has a secret and the other side none; give both the same"
                            : "has no secret and the other side one; give both the same"};
}

Status another_secret() {
  return {StatusCode::wrong_secret, "has another secret; give both sides the same"};
}

Status validate(Greeting const& theirs, Greeting const& ours) {
  if (theirs.endpoint == ours.endpoint) return sent_back();
  return {StatusCode::agreed, {}};
}

void send_rejection(Socket const& socket, Status const& status, Sealing* sealing) {
  auto const frame = encode(status, sealing);
  auto const bytes = frame.bytes();
  (void)::send(socket.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  (void)::shutdown(socket.fd.get(), SHUT_WR);
  // Closing with unread bytes resets the connection, and the peer might never read the status.
  std::array<std::byte, 1024> unread;
  for (int reads = 0; reads < 4; ++reads)
    if (::recv(socket.fd.get(), unread.data(), unread.size(), MSG_DONTWAIT) <= 0) break;
}

Result<Peer> greet_listener(Socket socket, Greeting const& ours, Deadline deadline,
                            Secret const& secret) {
  FrameReader reader;
  LEND_TRY(sealing, prove_each_other(socket, reader, secret, deadline));
  LEND_TRYV(offer(socket, encode(ours, sealing.get()), deadline));
  LEND_TRYV(receive_from_listener(socket, reader, FrameKind::greeting, deadline));
  auto greeting = reader.greeting();
  if (!greeting) return refused(socket, greeting.error().message());
  auto const status = validate(greeting.value(), ours);
  if (status.code != StatusCode::agreed) return reject(socket, status, sealing.get());
  LEND_TRYV(send_all(socket, encode(status, sealing.get()), deadline));
  return Peer{std::move(socket), std::move(sealing), std::move(greeting).value()};
}

Result<Status> exchange_status(Peer const& peer, Status const& ours, Deadline deadline) {
  auto const& socket = peer.socket;
  auto const patience = within(status_patience);
  auto const limit = sooner(deadline, patience);
  auto sent = send_all(socket, encode(ours, peer.sealing.get()), limit);
  // Its status may be waiting although it no longer takes ours.
  if (!sent && sent.error() != Errc::peer_lost) return sent.error();
  FrameReader reader;
  if (peer.sealing) reader.open_by(*peer.sealing);
  auto const received = receive_frame(socket, reader, limit);
  if (!received) {
    if (received.error() == Errc::timed_out && !deadline.has_passed())
      return Error{Errc::peer_lost,
                   about_peer(socket.address, "agreed and then fell silent; prepare again")};
    return received.error();
  }
  if (reader.kind() != FrameKind::status)
    return Error{Errc::incompatible_peer, about_peer(socket.address, "sent a frame out of turn")};
  LEND_TRY(theirs, read_status(socket, reader));
  if (theirs.code == StatusCode::agreed)
    return Error{Errc::incompatible_peer, about_peer(socket.address, "agreed twice")};
  if (!sent && theirs.code == StatusCode::ready) return sent.error();
  return theirs;
}

}  // namespace lend::network
