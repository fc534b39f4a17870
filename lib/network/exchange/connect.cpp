// SPDX-License-Identifier: MIT OR Apache-2.0
// listen() and connect(), waiting or not: the exchange joined to a prepared channel.
#include <lend/network/connect.hpp>
#include <lend/network/connecting.hpp>
#include <lend/network/meeting.hpp>

#include <network/exchange/caller.hpp>
#include <network/exchange/channel_offer.hpp>
#include <network/exchange/exchange.hpp>
#include <network/exchange/listener_state.hpp>

#include <array>
#include <cstring>
#include <span>
#include <string>
#include <utility>

namespace lend {

namespace {

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

Error moved_from() {
  return {Errc::stale_handle, "this Listener was moved from"};
}

}  // namespace

Listener::Listener(std::unique_ptr<network::ListenerState> state) noexcept
    : state_{std::move(state)} {}
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
  return Listener{std::make_unique<network::ListenerState>(
      network::ListenerState{std::move(file), std::move(acceptor)})};
}

network::ListenerState& Listener::state() const noexcept {
  if (!state_) stop("a Listener was used after it had been moved from");
  return *state_;
}

std::string const& Listener::address() const noexcept {
  return state().acceptor.address();
}

Result<Channel> Listener::accept(PreparedChannel prepared, Deadline deadline) {
  if (!state_) return moved_from();
  LEND_TRYV(network::check_prepared(prepared));
  LEND_TRY(met, meet(prepared.endpoint(), {}, deadline));
  return finish_exchange(std::move(met), std::move(prepared), deadline);
}

Result<Meeting> Listener::meet(Endpoint const& endpoint, std::span<std::byte const> note,
                               Deadline deadline) {
  if (!state_) return moved_from();
  if (state_->acceptor.has_begun())
    return Error{Errc::invalid_argument, "this Listener accepts by poll() since begin()"};
  LEND_TRY(greeting, greeting_of(endpoint, note));
  LEND_TRY(peer, state_->acceptor.accept(greeting, deadline));
  return Meeting{std::move(peer)};
}

// ---- in an event loop ----

Result<void> Listener::begin(Prepare prepare, ListenerLimits const& limits) {
  if (!state_) return moved_from();
  if (!prepare) return Error{Errc::invalid_argument, "a Listener needs what prepares its ends"};
  auto const offer = [prepare = std::move(prepare)](
                         Arrival const& arrival) -> Result<std::unique_ptr<network::Offer>> {
    LEND_TRY(prepared, prepare(arrival));
    return network::ChannelOffer::of(std::move(prepared));
  };
  return state_->acceptor.begin(offer, limits);
}

int Listener::descriptor() const noexcept {
  return state().acceptor.descriptor();
}

Result<std::optional<Accepted<Channel>>> Listener::poll() {
  if (!state_) return moved_from();
  LEND_TRY(connected, state_->acceptor.poll());
  if (!connected) return std::optional<Accepted<Channel>>{};
  auto& offer = static_cast<network::ChannelOffer&>(*connected->offer);
  return Accepted<Channel>{connected->id, offer.take()};
}

std::string const& Listener::last_rejected() const noexcept {
  return state().acceptor.last_rejected();
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
  LEND_TRY(peer, network::greet(address, greeting, deadline, secret));
  return Meeting{std::move(peer)};
}

Result<Channel> connect(std::string_view address, PreparedChannel prepared, Deadline deadline,
                        ExchangeOptions const& options) {
  LEND_TRYV(network::check_prepared(prepared));
  LEND_TRY(met, meet(address, prepared.endpoint(), {}, deadline, options));
  return finish_exchange(std::move(met), std::move(prepared), deadline);
}

// ---- in an event loop ----

Connecting::Connecting(std::unique_ptr<network::Caller> caller) noexcept
    : caller_{std::move(caller)} {}
Connecting::Connecting(Connecting&&) noexcept = default;
Connecting& Connecting::operator=(Connecting&&) noexcept = default;
Connecting::~Connecting() = default;

Result<std::string> host_to_look_up(std::string_view address) {
  return network::name_in(address);
}

Result<Connecting> Connecting::begin(std::string_view address, PreparedChannel prepared,
                                     Deadline deadline, ExchangeOptions const& options) {
  return begin(std::array{std::string{address}}, std::move(prepared), deadline, options);
}

Result<Connecting> Connecting::begin(std::span<std::string const> addresses,
                                     PreparedChannel prepared, Deadline deadline,
                                     ExchangeOptions const& options) {
  LEND_TRY(offer, network::ChannelOffer::of(std::move(prepared)));
  LEND_TRY(caller, network::Caller::begin(addresses, std::move(offer), deadline, options));
  return Connecting{std::move(caller)};
}

int Connecting::descriptor() const noexcept {
  return caller_ ? caller_->descriptor() : -1;
}

Result<std::optional<Channel>> Connecting::advance() {
  LEND_TRY(caller, network::finished(caller_));
  if (!caller) return std::optional<Channel>{};
  return std::optional{static_cast<network::ChannelOffer&>(caller->offer()).take()};
}

}  // namespace lend
