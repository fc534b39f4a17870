// SPDX-License-Identifier: MIT OR Apache-2.0
// Frames over a non-blocking socket, under one deadline.
#include <base/giving_up.hpp>
#include <network/exchange.hpp>

#include <cerrno>

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

Result<void> send_all(Socket const& socket, std::span<std::byte const> bytes, Deadline deadline) {
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

Result<Status> read_status(Socket const& socket, FrameReader const& reader) {
  auto status = reader.status();
  if (!status)
    return Error{Errc::incompatible_peer, about_peer(socket.address, status.error().message())};
  return status;
}

}  // namespace

std::string about_peer(std::string const& address, std::string_view clause) {
  return "the peer at " + address + " " + std::string{clause};
}

Status validate(Greeting const& theirs, Greeting const& ours) {
  if (theirs.endpoint == ours.endpoint)
    return {StatusCode::foreign, "sent back what it received: it is not a lend program"};
  if (!same_secret(ours.secret, theirs.secret))
    return {StatusCode::wrong_secret, "has another secret; give both sides the same"};
  return {StatusCode::agreed, {}};
}

void send_rejection(Socket const& socket, Status const& status) noexcept {
  auto const frame = encode(status);
  (void)::send(socket.fd.get(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  (void)::shutdown(socket.fd.get(), SHUT_WR);
  // Closing with unread bytes resets the connection, and the peer might never read the status.
  std::array<std::byte, 1024> unread;
  for (int reads = 0; reads < 4; ++reads)
    if (::recv(socket.fd.get(), unread.data(), unread.size(), MSG_DONTWAIT) <= 0) break;
}

Result<Endpoint> greet_listener(Socket const& socket, Greeting const& ours, Deadline deadline) {
  auto sent = send_all(socket, encode(ours), deadline);
  // A listener that rejects at once may have hung up; its status is still to be read.
  if (!sent && sent.error() != Errc::peer_lost) return sent.error();
  FrameReader reader;
  LEND_TRYV(receive_frame(socket, reader, deadline));
  if (reader.kind() == FrameKind::status) {
    LEND_TRY(status, read_status(socket, reader));
    bool const no_fault_of_ours =
        status.code == StatusCode::failed || status.code == StatusCode::too_slow;
    return Error{no_fault_of_ours ? Errc::peer_lost : Errc::incompatible_peer,
                 about_peer(socket.address, "rejected the connection: this side " + status.text)};
  }
  auto const greeting = reader.greeting();
  if (!greeting)
    return Error{Errc::incompatible_peer, about_peer(socket.address, greeting.error().message())};
  auto const status = validate(greeting.value(), ours);
  if (status.code != StatusCode::agreed) {
    send_rejection(socket, status);
    return Error{Errc::incompatible_peer, about_peer(socket.address, status.text)};
  }
  LEND_TRYV(send_all(socket, encode(status), deadline));
  return greeting.value().endpoint;
}

Result<Status> exchange_status(Socket const& socket, Status const& ours, Deadline deadline) {
  auto const patience = within(status_patience);
  auto const limit = sooner(deadline, patience);
  auto sent = send_all(socket, encode(ours), limit);
  // Its status may be waiting although it no longer takes ours.
  if (!sent && sent.error() != Errc::peer_lost) return sent.error();
  FrameReader reader;
  auto const received = receive_frame(socket, reader, limit);
  if (!received) {
    if (received.error() == Errc::timed_out && !deadline.has_passed())
      return Error{Errc::peer_lost,
                   about_peer(socket.address, "agreed and then fell silent; prepare again")};
    return received.error();
  }
  if (reader.kind() != FrameKind::status)
    return Error{Errc::incompatible_peer, about_peer(socket.address, "sent its greeting twice")};
  LEND_TRY(theirs, read_status(socket, reader));
  if (theirs.code == StatusCode::agreed)
    return Error{Errc::incompatible_peer, about_peer(socket.address, "agreed twice")};
  if (!sent && theirs.code == StatusCode::ready) return sent.error();
  return theirs;
}

}  // namespace lend::network
