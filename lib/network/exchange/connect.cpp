// SPDX-License-Identifier: MIT OR Apache-2.0
// listen() and connect(): the exchange joined to a prepared channel.
#include <lend/network/connect.hpp>
#include <lend/network/meeting.hpp>

#include <network/exchange/acceptor.hpp>
#include <network/exchange/exchange.hpp>
#include <network/wire/socket_file.hpp>

#include <cstring>
#include <utility>

namespace lend {
namespace {

Result<void> check_prepared(PreparedChannel const& prepared) {
  if (!prepared.is_used_up()) return success();
  return Error{Errc::stale_handle, "the prepared channel was used before; build another"};
}

Result<network::Greeting> greeting_of(Endpoint const& endpoint, std::span<std::byte const> note) {
  if (note.size() > note_bytes_max)
    return Error{Errc::invalid_argument, "a note of " + std::to_string(note.size()) +
                                             " bytes; an exchange carries at most " +
                                             std::to_string(note_bytes_max)};
  return network::Greeting{endpoint, {reinterpret_cast<char const*>(note.data()), note.size()}};
}

/// The last step of both sides: connects this end, and waits for the peer's status.
Result<Channel> finish_exchange(Meeting met, PreparedChannel prepared, Deadline deadline) {
  auto channel = std::move(prepared).handshake(met.endpoint());
  auto const outcome = channel ? Result<void>{success()} : Result<void>{channel.error()};
  LEND_TRYV(std::move(met).settle(outcome, deadline));
  return channel;
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
  LEND_TRY(acceptor, network::Acceptor::open(std::move(listening), {}, std::move(secret)));
  return Listener{std::make_unique<State>(State{std::move(file), std::move(acceptor)})};
}

std::string const& Listener::address() const noexcept {
  if (!state_) stop("a Listener was used after it had been moved from");
  return state_->acceptor.address();
}

Result<Channel> Listener::accept(PreparedChannel prepared, Deadline deadline) {
  if (!state_) return Error{Errc::stale_handle, "this Listener was moved from"};
  LEND_TRYV(check_prepared(prepared));
  LEND_TRY(met, meet(prepared.endpoint(), {}, deadline));
  return finish_exchange(std::move(met), std::move(prepared), deadline);
}

Result<Meeting> Listener::meet(Endpoint const& endpoint, std::span<std::byte const> note,
                               Deadline deadline) {
  if (!state_) return Error{Errc::stale_handle, "this Listener was moved from"};
  LEND_TRY(greeting, greeting_of(endpoint, note));
  LEND_TRY(peer, state_->acceptor.accept(greeting, deadline));
  return Meeting{std::move(peer)};
}

Result<Channel> listen(std::string_view address, PreparedChannel prepared, Deadline deadline,
                       ExchangeOptions const& options) {
  LEND_TRY(listener, Listener::open(address, options));
  return listener.accept(std::move(prepared), deadline);
}

Result<Meeting> meet(std::string_view address, Endpoint const& endpoint,
                     std::span<std::byte const> note, Deadline deadline,
                     ExchangeOptions const& options) {
  LEND_TRY(secret, network::Secret::of(options.secret));
  LEND_TRY(greeting, greeting_of(endpoint, note));
  LEND_TRY(socket, network::reach(address, deadline));
  LEND_TRY(peer, network::greet_listener(std::move(socket), greeting, deadline, secret));
  return Meeting{std::move(peer)};
}

Result<Channel> connect(std::string_view address, PreparedChannel prepared, Deadline deadline,
                        ExchangeOptions const& options) {
  LEND_TRYV(check_prepared(prepared));
  LEND_TRY(met, meet(address, prepared.endpoint(), {}, deadline, options));
  return finish_exchange(std::move(met), std::move(prepared), deadline);
}

}  // namespace lend
