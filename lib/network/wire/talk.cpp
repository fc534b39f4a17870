// SPDX-License-Identifier: MIT OR Apache-2.0
// Frames over a non-blocking socket. Where a side waits, it does so under one deadline.
#include <base/giving_up.hpp>
#include <network/wire/talk.hpp>

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

namespace lend::network {
namespace {

bool would_wait(int errno_value) {
  return errno_value == EAGAIN || errno_value == EWOULDBLOCK;
}

/// What a side of this purpose does, as a clause that follows its name.
std::string_view deed_of(Purpose purpose) {
  switch (purpose) {
    case Purpose::connect: return "connects two channels";
    case Purpose::sit: return "is of a group's meeting";
    case Purpose::examine: return "is a doctor";
  }
  return "does something else";
}

/// False once the deadline has passed.
Result<bool> wait_for_socket(Socket const& socket, short events, Waiting const& waiting) {
  std::array<pollfd, 2> polled{pollfd{socket.fd.get(), events, 0}, pollfd{-1, POLLIN, 0}};
  if (waiting.served == nullptr) return wait_for(std::span{polled}.first(1), waiting.deadline);
  for (;;) {
    polled[1].fd = waiting.served->descriptor();
    LEND_TRY(ready, wait_for(polled, waiting.deadline));
    if (!ready) return false;
    if (polled[1].revents != 0) {
      LEND_TRYV(waiting.served->serve());
    }
    if (polled[0].revents != 0) return true;
    if (waiting.deadline.has_passed()) return false;
  }
}

}  // namespace

Error exchange_late(std::string const& address, Deadline deadline) {
  return base::gave_up(
      deadline, about_peer(address, "did not finish the exchange"),
      "; nothing is connected. Check that a lend program listens or connects there and "
      "is not stopped, then prepare again and retry");
}

Error exchange_lost(std::string const& address, int errno_value) {
  std::string clause = "closed the connection during the exchange";
  if (errno_value != 0) clause += " (" + std::generic_category().message(errno_value) + ")";
  return {Errc::peer_lost, about_peer(address, clause + "; prepare again and retry")};
}

std::string about_peer(std::string const& address, std::string_view clause) {
  return "the peer at " + address + " " + std::string{clause};
}

Error refused(Socket const& socket, std::string_view clause) {
  return {Errc::incompatible_peer, about_peer(socket.address, clause)};
}

Result<Hello> new_hello(Secret const& secret, KeyPair const& keys, Purpose purpose) {
  Hello hello{.key = keys.public_key(), .has_secret = secret.is_set(), .purpose = purpose};
  auto const got = ::getrandom(hello.nonce.data(), hello.nonce.size(), 0);
  if (got != static_cast<ssize_t>(hello.nonce.size())) return Error::from_errno("getrandom", errno);
  return hello;
}

Status validate(Hello const& theirs, Secret const& ours, Purpose purpose) {
  if (theirs.purpose != purpose)
    return {StatusCode::foreign, std::string{deed_of(theirs.purpose)} + " and the other side " +
                                     std::string{deed_of(purpose)} + "; check the addresses"};
  if (theirs.has_secret == ours.is_set()) return {StatusCode::agreed, {}};
  return {StatusCode::wrong_secret,
          theirs.has_secret ? "has a secret and the other side none; give both the same"
                            : "has no secret and the other side one; give both the same"};
}

Status no_key() {
  return {StatusCode::foreign, "sent a public key that is none"};
}

Status sent_back() {
  return {StatusCode::foreign, "sent back what it received: it is not a lend program"};
}

Status another_secret() {
  return {StatusCode::wrong_secret, "has another secret; give both sides the same"};
}

void send_rejection(Socket const& socket, Status const& status, Sealing* sealing) {
  auto const frame = encode(status, sealing);
  auto const bytes = frame.bytes();
  (void)::send(socket.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  end_sending(socket);
}

void end_sending(Socket const& socket) {
  (void)::shutdown(socket.fd.get(), SHUT_WR);
  // Closing with unread bytes resets the connection, and the peer might never read the last frame.
  std::array<std::byte, 1024> unread;
  for (int reads = 0; reads < 4; ++reads)
    if (::recv(socket.fd.get(), unread.data(), unread.size(), MSG_DONTWAIT) <= 0) break;
}

Result<Status> read_status(Socket const& socket, FrameReader const& reader) {
  auto status = reader.status();
  if (!status) return refused(socket, status.error().message());
  return status;
}

// ---- the connecting side ----

Result<void> check_listener(Socket const& socket) {
  auto const user = check_user(socket.fd.get());
  if (user) return user;
  return Error{user.error().code(), about_peer(socket.address, user.error().message())};
}

Error error_of_rejection(Socket const& socket, Status const& status) {
  bool const no_fault_of_ours =
      status.code == StatusCode::failed || status.code == StatusCode::too_slow;
  return {no_fault_of_ours ? Errc::peer_lost : Errc::incompatible_peer,
          about_peer(socket.address, "rejected the connection: this side " + status.text)};
}

Result<void> expect(Socket const& socket, FrameReader const& reader, FrameKind wanted) {
  if (reader.kind() == wanted) return success();
  if (reader.kind() != FrameKind::status) return refused(socket, "sent a frame out of turn");
  LEND_TRY(status, read_status(socket, reader));
  return error_of_rejection(socket, status);
}

Error reject(Socket const& socket, Status const& status, Sealing* sealing) {
  send_rejection(socket, status, sealing);
  return refused(socket, status.text);
}

Result<void> Proving::begin(Socket const& socket) {
  LEND_TRY(ours, new_hello(secret_, keys_, purpose_));
  ours_ = ours;
  return offer(socket, encode(ours_), within(std::chrono::seconds{0}));
}

Result<bool> Proving::take(Socket const& socket, FrameReader& reader,
                           std::unique_ptr<Sealing>& sealing) {
  if (has_hello_) {
    LEND_TRYV(expect(socket, reader, FrameKind::proof));
    if (!sealing->is_proved_by(reader.proof())) return reject(socket, another_secret(), nullptr);
    reader.open_by(*sealing);
    LEND_TRYV(offer(socket, encode(sealing->proof()), within(std::chrono::seconds{0})));
    return true;
  }
  LEND_TRYV(expect(socket, reader, FrameKind::hello));
  auto const theirs = reader.hello();
  if (!theirs) return refused(socket, theirs.error().message());
  if (theirs.value().nonce == ours_.nonce) return reject(socket, sent_back(), nullptr);
  auto const status = validate(theirs.value(), secret_, purpose_);
  if (status.code != StatusCode::agreed) return reject(socket, status, nullptr);
  if (!secret_.is_set()) return true;
  sealing = secret_.sealing(Side::connecting, keys_, theirs.value().key, encode(ours_).bytes(),
                            encode(theirs.value()).bytes());
  if (!sealing) return reject(socket, no_key(), nullptr);
  has_hello_ = true;
  return false;
}

// ---- the connecting side, which waits ----

Result<Socket> reach(std::string_view address, Deadline deadline) {
  LEND_TRY(socket,
           connect_with_retry(
               std::string{address}, [&] { return candidates_at(address, true); }, deadline));
  LEND_TRYV(check_listener(socket));
  return socket;
}

Result<void> send_all(Socket const& socket, Frame const& frame, Waiting const& waiting) {
  auto bytes = frame.bytes();
  while (!bytes.empty()) {
    auto const sent = ::send(socket.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    if (!would_wait(errno)) return exchange_lost(socket.address, errno);
    LEND_TRY(ready, wait_for_socket(socket, POLLOUT, waiting));
    if (!ready) return exchange_late(socket.address, waiting.deadline);
  }
  return success();
}

Result<void> offer(Socket const& socket, Frame const& frame, Waiting const& waiting) {
  auto sent = send_all(socket, frame, waiting);
  if (!sent && sent.error() != Errc::peer_lost) return sent;
  return success();
}

Result<void> receive_frame(Socket const& socket, FrameReader& reader, Waiting const& waiting) {
  while (!reader.complete()) {
    auto const room = reader.room();
    auto const got = ::recv(socket.fd.get(), room.data(), room.size(), 0);
    if (got > 0) {
      auto const took = reader.took(static_cast<std::size_t>(got));
      if (!took) return refused(socket, took.error().message());
      continue;
    }
    if (got == 0) return exchange_lost(socket.address, 0);
    if (errno == EINTR) continue;
    if (!would_wait(errno)) return exchange_lost(socket.address, errno);
    LEND_TRY(ready, wait_for_socket(socket, POLLIN, waiting));
    if (!ready) return exchange_late(socket.address, waiting.deadline);
  }
  return success();
}

Result<void> receive_from_listener(Socket const& socket, FrameReader& reader, FrameKind wanted,
                                   Waiting const& waiting) {
  reader.restart();
  LEND_TRYV(receive_frame(socket, reader, waiting));
  return expect(socket, reader, wanted);
}

Result<std::unique_ptr<Sealing>> prove_each_other(Socket const& socket, FrameReader& reader,
                                                  Secret const& secret, Purpose purpose,
                                                  Waiting const& waiting) {
  Proving proving{secret, purpose};
  std::unique_ptr<Sealing> sealing;
  LEND_TRYV(proving.begin(socket));
  for (;;) {
    reader.restart();
    LEND_TRYV(receive_frame(socket, reader, waiting));
    LEND_TRY(is_proved, proving.take(socket, reader, sealing));
    if (is_proved) return sealing;
  }
}

// ---- the listening side, which never waits ----

Result<bool> read_available(Socket const& socket, FrameReader& reader) {
  while (!reader.complete()) {
    auto const room = reader.room();
    auto const got = ::recv(socket.fd.get(), room.data(), room.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && would_wait(errno)) return false;
    if (got <= 0) return Error{Errc::peer_lost, "closed the connection during the exchange"};
    LEND_TRYV(reader.took(static_cast<std::size_t>(got)));
  }
  return true;
}

bool sends_at_once(Socket const& socket, Frame const& frame) {
  auto const bytes = frame.bytes();
  auto const sent = ::send(socket.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  return sent == static_cast<ssize_t>(bytes.size());
}

Status answer_hello(Socket const& socket, FrameReader const& reader, Secret const& secret,
                    Purpose purpose, std::unique_ptr<Sealing>& sealing) {
  auto const theirs = reader.hello();
  if (!theirs) return {StatusCode::foreign, theirs.error().message()};
  auto status = validate(theirs.value(), secret, purpose);
  if (status.code != StatusCode::agreed) return status;
  KeyPair const keys{secret};
  auto const ours = new_hello(secret, keys, purpose);
  if (!ours) return {StatusCode::failed, "came when this failed: " + ours.error().message()};
  auto made = secret.sealing(Side::listening, keys, theirs.value().key,
                             encode(theirs.value()).bytes(), encode(ours.value()).bytes());
  if (secret.is_set() && !made) return no_key();
  if (!sends_at_once(socket, encode(ours.value())) ||
      (made && !sends_at_once(socket, encode(made->proof()))))
    return {StatusCode::failed, "closed the connection before the greeting"};
  sealing = std::move(made);
  return status;
}

}  // namespace lend::network
