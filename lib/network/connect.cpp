// SPDX-License-Identifier: MIT OR Apache-2.0
// listen() and connect(): the exchange joined to a prepared channel.
#include <lend/network/connect.hpp>

#include <network/exchange.hpp>
#include <network/reception.hpp>

#include <utility>

namespace lend {
namespace {

static_assert(endpoint_bytes == Endpoint::encoded_size, "the greeting carries an Endpoint");

Result<void> check_endpoint(std::span<std::byte const> bytes) {
  LEND_TRYV(Endpoint::decode(bytes));
  return success();
}

Terms terms_of(PreparedChannel const& prepared, ExchangeOptions const& options) {
  return {Greeting{options.secret, prepared.endpoint().encode()}, &check_endpoint};
}

Result<void> check_options(ExchangeOptions const& options) {
  if (options.secret.size() <= secret_bytes_max) return success();
  return Error{Errc::invalid_argument, "the secret has " + std::to_string(options.secret.size()) +
                                           " bytes; " + std::to_string(secret_bytes_max) +
                                           " is the most"};
}

Result<void> check_prepared(PreparedChannel const& prepared) {
  if (!prepared.is_used_up()) return success();
  return Error{Errc::stale_handle, "the prepared channel was used up before; build another"};
}

/// Both sides' last step: connect this end, hear how that end fared.
Result<Channel> conclude(Socket const& socket, PreparedChannel prepared,
                         EndpointBytes const& their_endpoint, Deadline deadline) {
  LEND_TRY(peer, Endpoint::decode(their_endpoint));
  auto channel = std::move(prepared).handshake(peer);
  bool const misfits = !channel && channel.error() == Errc::incompatible_peer;
  Verdict ours{VerdictCode::ready, {}};
  if (!channel)
    ours = {misfits ? VerdictCode::incompatible : VerdictCode::failed, channel.error().message()};
  auto const theirs = settle(socket, ours, deadline);
  // The endpoint of a process that died looks stale; that it died is the cause.
  if (misfits && !theirs && theirs.error() == Errc::peer_lost)
    return Error{Errc::peer_lost,
                 theirs.error().message() +
                     ". Its endpoint does not fit either: " + channel.error().message()};
  if (misfits)
    return Error{Errc::incompatible_peer,
                 about_peer(socket.address, "does not fit: " + channel.error().message())};
  if (!channel) return channel;
  if (!theirs) return theirs.error();
  if (theirs.value().code == VerdictCode::ready) return channel;
  bool const turned_down = theirs.value().code == VerdictCode::incompatible;
  return Error{turned_down ? Errc::incompatible_peer : Errc::peer_lost,
               about_peer(socket.address, "could not connect to us: " + theirs.value().text)};
}

}  // namespace

struct Listener::State {
  Reception reception;
  ExchangeOptions options;
};

Listener::Listener(std::unique_ptr<State> state) noexcept : state_{std::move(state)} {}
Listener::Listener(Listener&&) noexcept = default;
Listener& Listener::operator=(Listener&&) noexcept = default;
Listener::~Listener() = default;

Result<Listener> Listener::open(std::string_view address, ExchangeOptions options) {
  LEND_TRYV(check_options(options));
  LEND_TRY(parsed, parse_address(address));
  LEND_TRY(candidates, resolve(parsed));
  LEND_TRY(listening, open_listening(candidates));
  return Listener{
      std::make_unique<State>(State{Reception{std::move(listening)}, std::move(options)})};
}

std::string const& Listener::address() const noexcept {
  if (!state_) stop("a Listener was used after it had been moved from");
  return state_->reception.address();
}

Result<Channel> Listener::accept(PreparedChannel prepared, Deadline deadline) {
  if (!state_) return Error{Errc::stale_handle, "this Listener was moved from"};
  LEND_TRYV(check_prepared(prepared));
  LEND_TRY(admitted, state_->reception.admit(terms_of(prepared, state_->options), deadline));
  return conclude(admitted.socket, std::move(prepared), admitted.endpoint, deadline);
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
  LEND_TRY(parsed, parse_address(address));
  if (parsed.port == 0)
    return Error{Errc::invalid_argument,
                 "port 0 in \"" + std::string{address} + "\": name the port the peer listens on"};
  LEND_TRY(candidates, resolve(parsed));
  LEND_TRY(socket, reach(std::string{address}, candidates, deadline));
  LEND_TRY(their_endpoint, greet_listener(socket, terms_of(prepared, options), deadline));
  return conclude(socket, std::move(prepared), their_endpoint, deadline);
}

}  // namespace lend
