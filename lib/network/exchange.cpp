// SPDX-License-Identifier: MIT OR Apache-2.0
// Frames over a non-blocking socket, under one deadline.
#include <base/giving_up.hpp>
#include <network/exchange.hpp>

#include <cerrno>

namespace lend {
namespace {

Error late(std::string const& address, Deadline deadline) {
  return gave_up(deadline, about_peer(address, "did not finish the exchange"),
                 "; nothing is connected. See whether a lend program listens or connects there and "
                 "is not stopped, then prepare again and retry");
}

Error lost(std::string const& address, int errno_value) {
  std::string clause = "hung up during the exchange";
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

Result<Verdict> read_verdict(Socket const& socket, FrameReader const& reader) {
  auto verdict = reader.verdict();
  if (!verdict)
    return Error{Errc::incompatible_peer, about_peer(socket.address, verdict.error().message())};
  return verdict;
}

}  // namespace

std::string about_peer(std::string const& address, std::string_view clause) {
  return "the peer at " + address + " " + std::string{clause};
}

Verdict judge(Greeting const& theirs, Terms const& terms) {
  if (theirs.endpoint == terms.ours.endpoint)
    return {VerdictCode::foreign, "said what it was told: it is no lend program"};
  if (!same_secret(terms.ours.secret, theirs.secret))
    return {VerdictCode::wrong_secret, "has another secret; give both sides the same"};
  auto const checked = terms.check_endpoint(theirs.endpoint);
  if (!checked) return {VerdictCode::foreign, "sent a bad endpoint: " + checked.error().message()};
  return {VerdictCode::agreed, {}};
}

void part_with(Socket const& socket, Verdict const& verdict) noexcept {
  auto const frame = encode(verdict);
  (void)::send(socket.fd.get(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  (void)::shutdown(socket.fd.get(), SHUT_WR);
  // Closing with unread bytes resets the connection, and the peer might never read the verdict.
  std::array<std::byte, 1024> unread;
  for (int reads = 0; reads < 4; ++reads)
    if (::recv(socket.fd.get(), unread.data(), unread.size(), MSG_DONTWAIT) <= 0) break;
}

Result<EndpointBytes> greet_listener(Socket const& socket, Terms const& terms, Deadline deadline) {
  auto sent = send_all(socket, encode(terms.ours), deadline);
  // A listener that turns us away at once may have hung up; what it said is still to be read.
  if (!sent && sent.error() != Errc::peer_lost) return sent.error();
  FrameReader reader;
  LEND_TRYV(receive_frame(socket, reader, deadline));
  if (reader.kind() == FrameKind::verdict) {
    LEND_TRY(verdict, read_verdict(socket, reader));
    bool const no_fault_of_ours =
        verdict.code == VerdictCode::failed || verdict.code == VerdictCode::too_slow;
    return Error{no_fault_of_ours ? Errc::peer_lost : Errc::incompatible_peer,
                 about_peer(socket.address, "turned us away: this side " + verdict.text)};
  }
  auto const greeting = reader.greeting();
  if (!greeting)
    return Error{Errc::incompatible_peer, about_peer(socket.address, greeting.error().message())};
  auto const verdict = judge(greeting.value(), terms);
  if (verdict.code != VerdictCode::agreed) {
    part_with(socket, verdict);
    return Error{Errc::incompatible_peer, about_peer(socket.address, verdict.text)};
  }
  LEND_TRYV(send_all(socket, encode(verdict), deadline));
  return greeting.value().endpoint;
}

Result<Verdict> settle(Socket const& socket, Verdict const& ours, Deadline deadline) {
  auto const patience = within(settling_longest);
  auto const limit = sooner(deadline, patience);
  auto sent = send_all(socket, encode(ours), limit);
  // Its verdict may be waiting although it no longer takes ours.
  if (!sent && sent.error() != Errc::peer_lost) return sent.error();
  FrameReader reader;
  auto const received = receive_frame(socket, reader, limit);
  if (!received) {
    if (received.error() == Errc::timed_out && !deadline.has_passed())
      return Error{Errc::peer_lost,
                   about_peer(socket.address, "agreed and then fell silent; prepare again")};
    return received.error();
  }
  if (reader.kind() != FrameKind::verdict)
    return Error{Errc::incompatible_peer, about_peer(socket.address, "sent its greeting twice")};
  LEND_TRY(theirs, read_verdict(socket, reader));
  if (theirs.code == VerdictCode::agreed)
    return Error{Errc::incompatible_peer, about_peer(socket.address, "agreed twice")};
  if (!sent && theirs.code == VerdictCode::ready) return sent.error();
  return theirs;
}

}  // namespace lend
