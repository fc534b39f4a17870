// SPDX-License-Identifier: MIT OR Apache-2.0
// The exchange in the order of its frames.
#include <base/giving_up.hpp>
#include <network/exchange/exchange.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace lend::network {

Status validate(Greeting const& theirs, Greeting const& ours) {
  if (theirs.endpoint == ours.endpoint) return sent_back();
  return {StatusCode::agreed, {}};
}

namespace {

Result<void> finish(Greeter& greeter, Deadline deadline) {
  LEND_TRYV(greeter.begin());
  for (;;) {
    LEND_TRYV(receive_frame(greeter.peer().socket, greeter.reader(), deadline));
    LEND_TRY(has_agreed, greeter.take());
    if (has_agreed) return success();
  }
}

}  // namespace

Result<Peer> greet_listener(Socket socket, Greeting const& ours, Deadline deadline,
                            Secret const& secret, Purpose purpose) {
  Greeter greeter{std::move(socket), ours, secret, purpose};
  LEND_TRYV(finish(greeter, deadline));
  return std::move(greeter.peer());
}

Result<Peer> greet(std::string_view address, Greeting const& ours, Deadline deadline,
                   Secret const& secret, Purpose purpose) {
  for (std::chrono::milliseconds pause = back_off_shortest;;
       pause = std::min(2 * pause, back_off_longest)) {
    LEND_TRY(socket, reach(address, deadline));
    Greeter greeter{std::move(socket), ours, secret, purpose};
    auto const greeted = finish(greeter, deadline);
    if (greeted) return std::move(greeter.peer());
    if (!greeter.gave_way()) return greeted.error();
    LEND_TRYV(without_value(wait_for({}, sooner(deadline, within(pause)))));
    if (deadline.has_passed()) return base::gave_up(deadline, greeted.error().message());
  }
}

bool Greeter::gave_way() const noexcept {
  if (!reader_.complete() || reader_.kind() != FrameKind::status) return false;
  auto const status = reader_.status();
  return status && status.value().code == StatusCode::too_slow;
}

Result<bool> Greeter::take() {
  auto const& socket = peer_.socket;
  auto const now = within(std::chrono::seconds{0});
  if (!is_proved_) {
    LEND_TRY(is_proved, proving_.take(socket, reader_, peer_.sealing));
    is_proved_ = is_proved;
    if (is_proved) {
      LEND_TRYV(offer(socket, encode(ours_, peer_.sealing.get()), now));
    }
    reader_.restart();
    return false;
  }
  LEND_TRYV(expect(socket, reader_, FrameKind::greeting));
  auto greeting = reader_.greeting();
  if (!greeting) return refused(socket, greeting.error().message());
  auto const status = validate(greeting.value(), ours_);
  if (status.code != StatusCode::agreed) return reject(socket, status, peer_.sealing.get());
  LEND_TRYV(send_all(socket, encode(status, peer_.sealing.get()), now));
  peer_.greeting = std::move(greeting).value();
  reader_.restart();
  return true;
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
    if (received.error() == Errc::timed_out && !deadline.has_passed()) return fell_silent(peer);
    return received.error();
  }
  LEND_TRY(theirs, settled_status(peer, reader));
  if (!sent && theirs.code == StatusCode::ready) return sent.error();
  return theirs;
}

Error fell_silent(Peer const& peer) {
  return {Errc::peer_lost,
          about_peer(peer.socket.address, "agreed and then fell silent; prepare again")};
}

Result<Status> settled_status(Peer const& peer, FrameReader const& reader) {
  auto const& socket = peer.socket;
  if (reader.kind() != FrameKind::status) return refused(socket, "sent a frame out of turn");
  LEND_TRY(theirs, read_status(socket, reader));
  if (theirs.code == StatusCode::agreed) return refused(socket, "agreed twice");
  return theirs;
}

Status status_of(Result<void> const& outcome) {
  if (outcome) return {StatusCode::ready, {}};
  bool const misfits = outcome.error() == Errc::incompatible_peer;
  return {misfits ? StatusCode::incompatible : StatusCode::failed, outcome.error().message()};
}

Result<void> joint_outcome(Peer const& peer, Result<void> const& outcome,
                           Result<Status> const& theirs) {
  auto const& address = peer.socket.address;
  bool const misfits = !outcome && outcome.error() == Errc::incompatible_peer;
  // The endpoint of a process that died looks stale; that it died is the cause.
  if (misfits && !theirs && theirs.error() == Errc::peer_lost)
    return Error{Errc::peer_lost,
                 theirs.error().message() +
                     ". Its endpoint does not fit either: " + outcome.error().message()};
  if (misfits)
    return Error{Errc::incompatible_peer,
                 about_peer(address, "does not fit: " + outcome.error().message())};
  if (!outcome) return outcome;
  if (!theirs) return theirs.error();
  if (theirs.value().code == StatusCode::ready) return success();
  bool const rejected = theirs.value().code == StatusCode::incompatible;
  return Error{rejected ? Errc::incompatible_peer : Errc::peer_lost,
               about_peer(address, "could not connect its end: " + theirs.value().text)};
}

}  // namespace lend::network
