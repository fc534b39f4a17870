// SPDX-License-Identifier: MIT OR Apache-2.0
// The exchange in the order of its frames.
#include <network/exchange/exchange.hpp>

#include <utility>

namespace lend::network {

Status validate(Greeting const& theirs, Greeting const& ours) {
  if (theirs.endpoint == ours.endpoint) return sent_back();
  return {StatusCode::agreed, {}};
}

Result<Peer> greet_listener(Socket socket, Greeting const& ours, Deadline deadline,
                            Secret const& secret, Purpose purpose) {
  FrameReader reader;
  LEND_TRY(sealing, prove_each_other(socket, reader, secret, purpose, deadline));
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
  if (reader.kind() != FrameKind::status) return refused(socket, "sent a frame out of turn");
  LEND_TRY(theirs, read_status(socket, reader));
  if (theirs.code == StatusCode::agreed) return refused(socket, "agreed twice");
  if (!sent && theirs.code == StatusCode::ready) return sent.error();
  return theirs;
}

}  // namespace lend::network
