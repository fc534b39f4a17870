// SPDX-License-Identifier: MIT OR Apache-2.0
// One thread at a time.
#include <lend/network/meeting.hpp>
#include <lend/transport/connect.hpp>
#include <lend/transport/credit_ring.hpp>
#include <lend/transport/read_ring.hpp>
#include <lend/transport/send_receive.hpp>
#include <transport/preparing.hpp>

#include <utility>

namespace lend {

namespace {

/// Prepares an end, meets its peer by `meet(endpoint, terms)`, connects, and settles.
template <class Kind, class Meet>
Result<AnyTransport> join_as(ProtectionDomain const& domain, TransportOptions const& options,
                             Deadline deadline, Meet const& meet) {
  LEND_TRY(prepared, Kind::prepare(domain, options));
  LEND_TRY(met, meet(prepared.endpoint(), prepared.terms()));
  auto made = std::move(prepared).handshake(met.endpoint(), met.note());
  auto const outcome = made ? Result<void>{success()} : Result<void>{made.error()};
  LEND_TRYV(std::move(met).settle(outcome, deadline));
  return AnyTransport{std::move(made).value()};
}

/// The same as the kind of the options.
template <class Meet>
Result<AnyTransport> join(ProtectionDomain const& domain, TransportOptions const& options,
                          Deadline deadline, Meet const& meet) {
  auto const kind = transport::chosen_kind(options, domain);
  if (kind == TransportKind::credit_ring)
    return join_as<CreditRing>(domain, options, deadline, meet);
  if (kind == TransportKind::read_ring) return join_as<ReadRing>(domain, options, deadline, meet);
  return join_as<SendReceive>(domain, options, deadline, meet);
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

Result<AnyTransport> connect_transport(std::string_view address, ProtectionDomain const& domain,
                                       TransportOptions const& options, Deadline deadline,
                                       ExchangeOptions const& exchange) {
  return join(domain, options, deadline,
              [&](Endpoint const& endpoint, TransportTerms const& terms) {
                return meet(address, endpoint, terms, deadline, exchange);
              });
}

}  // namespace lend
