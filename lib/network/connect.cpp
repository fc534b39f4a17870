// SPDX-License-Identifier: MIT OR Apache-2.0
// listen() and connect(): the exchange joined to a prepared channel.
#include <lend/network/connect.hpp>

#include <network/acceptor.hpp>
#include <network/exchange.hpp>
#include <network/socket_file.hpp>

#include <cstring>
#include <utility>

namespace lend {
namespace {

Result<void> check_prepared(PreparedChannel const& prepared) {
  if (!prepared.is_used_up()) return success();
  return Error{Errc::stale_handle, "the prepared channel was used before; build another"};
}

/// The last step of both sides: connects this end, and waits for the peer's status.
Result<Channel> finish_exchange(network::Peer const& peer, PreparedChannel prepared,
                                Deadline deadline) {
  auto const& socket = peer.socket;
  auto channel = std::move(prepared).handshake(peer.greeting.endpoint);
  bool const misfits = !channel && channel.error() == Errc::incompatible_peer;
  network::Status ours{network::StatusCode::ready, {}};
  if (!channel)
    ours = {misfits ? network::StatusCode::incompatible : network::StatusCode::failed,
            channel.error().message()};
  auto const theirs = network::exchange_status(peer, ours, deadline);
  // The endpoint of a process that died looks stale; that it died is the cause.
  if (misfits && !theirs && theirs.error() == Errc::peer_lost)
    return Error{Errc::peer_lost,
                 theirs.error().message() +
                     ". Its endpoint does not fit either: " + channel.error().message()};
  if (misfits)
    return Error{Errc::incompatible_peer,
                 network::about_peer(socket.address, "does not fit: " + channel.error().message())};
  if (!channel) return channel;
  if (!theirs) return theirs.error();
  if (theirs.value().code == network::StatusCode::ready) return channel;
  bool const rejected = theirs.value().code == network::StatusCode::incompatible;
  return Error{
      rejected ? Errc::incompatible_peer : Errc::peer_lost,
      network::about_peer(socket.address, "could not connect its end: " + theirs.value().text)};
}

}  // namespace

struct Listener::State {
  network::SocketFile file;
  network::Acceptor acceptor;
};

Listener::Listener(std::unique_ptr<State> state) noexcept : state_{std::move(state)} {}
Listener::Listener(Listener&&) noexcept = default;
Listener& Listener::operator=(Listener&&) noexcept = default;
Listener::~Listener() = default;

Result<Listener> Listener::open(std::string_view address, ExchangeOptions options) {
  auto made = network::Secret::of(options.secret);
  ::explicit_bzero(options.secret.data(), options.secret.size());
  LEND_TRY(secret, std::move(made));
  LEND_TRY(candidates, network::candidates_at(address, false));
  LEND_TRY(listening, network::open_listening(candidates));
  network::SocketFile file{candidates.front()};
  return Listener{std::make_unique<State>(
      State{std::move(file), network::Acceptor{std::move(listening), {}, std::move(secret)}})};
}

std::string const& Listener::address() const noexcept {
  if (!state_) stop("a Listener was used after it had been moved from");
  return state_->acceptor.address();
}

Result<Channel> Listener::accept(PreparedChannel prepared, Deadline deadline) {
  if (!state_) return Error{Errc::stale_handle, "this Listener was moved from"};
  LEND_TRYV(check_prepared(prepared));
  LEND_TRY(peer, state_->acceptor.accept({prepared.endpoint()}, deadline));
  return finish_exchange(peer, std::move(prepared), deadline);
}

Result<Channel> listen(std::string_view address, PreparedChannel prepared, Deadline deadline,
                       ExchangeOptions const& options) {
  LEND_TRY(listener, Listener::open(address, options));
  return listener.accept(std::move(prepared), deadline);
}

Result<Channel> connect(std::string_view address, PreparedChannel prepared, Deadline deadline,
                        ExchangeOptions const& options) {
  LEND_TRY(secret, network::Secret::of(options.secret));
  LEND_TRYV(check_prepared(prepared));
  LEND_TRY(candidates, network::candidates_at(address, true));
  LEND_TRY(socket, network::connect_with_retry(std::string{address}, candidates, deadline));
  if (auto const user = network::check_user(socket.fd.get()); !user)
    return Error{user.error().code(), network::about_peer(socket.address, user.error().message())};
  LEND_TRY(peer,
           network::greet_listener(std::move(socket), {prepared.endpoint()}, deadline, secret));
  return finish_exchange(peer, std::move(prepared), deadline);
}

}  // namespace lend
