// SPDX-License-Identifier: MIT OR Apache-2.0
// One thread at a time.
#include <lend/network/meeting.hpp>
#include <lend/transport/connect.hpp>
#include <lend/transport/prepared.hpp>
#include <network/exchange/caller.hpp>
#include <network/exchange/listener_state.hpp>
#include <transport/by_kind.hpp>
#include <transport/transport_offer.hpp>

#include <array>
#include <span>
#include <string>
#include <utility>

namespace lend {

namespace {

/// Meets the peer by `meet(endpoint, terms)`, connects to it, and settles.
template <class Meet>
Result<AnyTransport> join(ProtectionDomain const& domain, TransportOptions const& options,
                          Deadline deadline, Meet const& meet) {
  return transport::prepare_and(
      options, domain, [&]<class Kind>(PreparedTransport<Kind> prepared) -> Result<Kind> {
        LEND_TRY(met, meet(prepared.endpoint(), prepared.terms()));
        auto made = std::move(prepared).handshake(met.endpoint(), met.note());
        auto const outcome = made ? Result<void>{success()} : Result<void>{made.error()};
        LEND_TRYV(std::move(met).settle(outcome, deadline));
        return made;
      });
}

}  // namespace

Result<TransportListener> TransportListener::open(std::string_view address,
                                                  ExchangeOptions options) {
  LEND_TRY(listener, Listener::open(address, std::move(options)));
  return TransportListener{std::move(listener)};
}

Result<AnyTransport> TransportListener::accept(ProtectionDomain const& domain,
                                               TransportOptions const& options, Deadline deadline) {
  return join(domain, options, deadline,
              [&](Endpoint const& endpoint, TransportTerms const& terms) {
                return listener_.meet(endpoint, terms, deadline);
              });
}

// ---- in an event loop ----

Result<void> TransportListener::begin(ProtectionDomain domain, Choose choose,
                                      ListenerLimits const& limits) {
  if (!choose)
    return Error{Errc::invalid_argument, "a TransportListener needs what chooses its options"};
  if (!listener_.state_) return Error{Errc::stale_handle, "this TransportListener was moved from"};
  return listener_.state_->acceptor.begin(
      [&refused = listener_.state_->refused_end, domain = std::move(domain),
       choose =
           std::move(choose)](Arrival const& arrival) -> Result<std::unique_ptr<network::Offer>> {
        LEND_TRY(options, choose(arrival));
        auto offer = transport::TransportOffer::prepare(domain, options);
        if (!offer && offer.error() != Errc::exhausted) refused = offer.error();
        return offer;
      },
      limits);
}

Result<std::optional<Accepted<AnyTransport>>> TransportListener::poll() {
  if (!listener_.state_) return Error{Errc::stale_handle, "this TransportListener was moved from"};
  LEND_TRY(connected, listener_.state_->acceptor.poll());
  if (!connected) {
    // Of a client before: one that is connected goes first.
    auto const refused = std::exchange(listener_.state_->refused_end, std::nullopt);
    if (refused) return *refused;
    return std::optional<Accepted<AnyTransport>>{};
  }
  auto& offer = static_cast<transport::TransportOffer&>(*connected->offer);
  return std::optional{Accepted<AnyTransport>{connected->id, offer.take()}};
}

TransportConnecting::TransportConnecting(std::unique_ptr<network::Caller> caller) noexcept
    : caller_{std::move(caller)} {}
TransportConnecting::TransportConnecting(TransportConnecting&&) noexcept = default;
TransportConnecting& TransportConnecting::operator=(TransportConnecting&&) noexcept = default;
TransportConnecting::~TransportConnecting() = default;

Result<TransportConnecting> TransportConnecting::begin(std::string_view address,
                                                       ProtectionDomain const& domain,
                                                       TransportOptions const& options,
                                                       Deadline deadline,
                                                       ExchangeOptions const& exchange) {
  return begin(std::array{std::string{address}}, domain, options, deadline, exchange);
}

Result<TransportConnecting> TransportConnecting::begin(std::span<std::string const> addresses,
                                                       ProtectionDomain const& domain,
                                                       TransportOptions const& options,
                                                       Deadline deadline,
                                                       ExchangeOptions const& exchange) {
  LEND_TRY(offer, transport::TransportOffer::prepare(domain, options));
  LEND_TRY(caller, network::Caller::begin(addresses, std::move(offer), deadline, exchange));
  return TransportConnecting{std::move(caller)};
}

int TransportConnecting::descriptor() const noexcept {
  return caller_ ? caller_->descriptor() : -1;
}

Result<std::optional<AnyTransport>> TransportConnecting::advance() {
  LEND_TRY(caller, network::finished(caller_));
  if (!caller) return std::optional<AnyTransport>{};
  return std::optional{static_cast<transport::TransportOffer&>(caller->offer()).take()};
}

// ---- the connecting side, which waits ----

Result<AnyTransport> connect_transport(std::string_view address, ProtectionDomain const& domain,
                                       TransportOptions const& options, Deadline deadline,
                                       ExchangeOptions const& exchange) {
  return join(domain, options, deadline,
              [&](Endpoint const& endpoint, TransportTerms const& terms) {
                return meet(address, endpoint, terms, deadline, exchange);
              });
}

}  // namespace lend
