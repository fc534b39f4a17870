// SPDX-License-Identifier: MIT OR Apache-2.0
// listen() and connect(): the exchange joined to a prepared channel.
#include <lend/network/connect.hpp>

#include <network/acceptor.hpp>
#include <network/exchange.hpp>

#include <utility>

namespace lend {
namespace {

network::Greeting greeting_of(PreparedChannel const& prepared, ExchangeOptions const& options) {
  return {options.secret, prepared.endpoint()};
}

Result<void> check_options(ExchangeOptions const& options) {
  if (options.secret.size() <= network::secret_bytes_max) return success();
  return Error{Errc::invalid_argument, "the secret has " + std::to_string(options.secret.size()) +
                                           " bytes; " + std::to_string(network::secret_bytes_max) +
                                           " is the most"};
}

Result<void> check_prepared(PreparedChannel const& prepared) {
  if (!prepared.is_used_up()) return success();
  return Error{Errc::stale_handle, "the prepared channel was used before; build another"};
}

/// The last step of both sides: connects this end, and waits for the peer's status.
Result<Channel> finish_exchange(network::Socket const& socket, PreparedChannel prepared,
                                Endpoint const& peer, Deadline deadline) {
  auto channel = std::move(prepared).handshake(peer);
  bool const misfits = !channel && channel.error() == Errc::incompatible_peer;
  network::Status ours{network::StatusCode::ready, {}};
  if (!channel)
    ours = {misfits ? network::StatusCode::incompatible : network::StatusCode::failed,
            channel.error().message()};
  auto const theirs = network::exchange_status(socket, ours, deadline);
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
  network::Acceptor acceptor;
  ExchangeOptions options;
};

Listener::Listener(std::unique_ptr<State> state) noexcept : state_{std::move(state)} {}
Listener::Listener(Listener&&) noexcept = default;
Listener& Listener::operator=(Listener&&) noexcept = default;
Listener::~Listener() = default;

Result<Listener> Listener::open(std::string_view address, ExchangeOptions options) {
  LEND_TRYV(check_options(options));
  LEND_TRY(parsed, network::parse_address(address));
  LEND_TRY(candidates, resolve(parsed));
  LEND_TRY(listening, network::open_listening(candidates));
  return Listener{
      std::make_unique<State>(State{network::Acceptor{std::move(listening)}, std::move(options)})};
}

std::string const& Listener::address() const noexcept {
  if (!state_) stop("a Listener was used after it had been moved from");
  return state_->acceptor.address();
}

Result<Channel> Listener::accept(PreparedChannel prepared, Deadline deadline) {
  if (!state_) return Error{Errc::stale_handle, "this Listener was moved from"};
  LEND_TRYV(check_prepared(prepared));
  LEND_TRY(accepted, state_->acceptor.accept(greeting_of(prepared, state_->options), deadline));
  return finish_exchange(accepted.socket, std::move(prepared), accepted.endpoint, deadline);
}

Result<Channel> listen(std::string_view address, PreparedChannel prepared, Deadline deadline,
                       ExchangeOptions const& options) {
  LEND_TRY(listener, Listener::open(address, options));
  return listener.accept(std::move(prepared), deadline);
}

Result<Channel> connect(std::string_view address, PreparedChannel prepared, Deadline deadline,
                        ExchangeOptions const& options) {
  LEND_TRYV(check_options(options));
  LEND_TRYV(check_prepared(prepared));
  LEND_TRY(parsed, network::parse_address(address));
  if (parsed.port == 0)
    return Error{Errc::invalid_argument,
                 "port 0 in \"" + std::string{address} + "\": name the port the peer listens on"};
  LEND_TRY(candidates, resolve(parsed));
  LEND_TRY(socket, network::connect_with_retry(std::string{address}, candidates, deadline));
  LEND_TRY(their_endpoint,
           network::greet_listener(socket, greeting_of(prepared, options), deadline));
  return finish_exchange(socket, std::move(prepared), their_endpoint, deadline);
}

}  // namespace lend
