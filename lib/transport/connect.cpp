// SPDX-License-Identifier: MIT OR Apache-2.0
// One thread at a time.
#include <lend/network/meeting.hpp>
#include <lend/transport/connect.hpp>
#include <lend/transport/prepared.hpp>
#include <transport/by_kind.hpp>

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

Result<AnyTransport> connect_transport(std::string_view address, ProtectionDomain const& domain,
                                       TransportOptions const& options, Deadline deadline,
                                       ExchangeOptions const& exchange) {
  return join(domain, options, deadline,
              [&](Endpoint const& endpoint, TransportTerms const& terms) {
                return meet(address, endpoint, terms, deadline, exchange);
              });
}

}  // namespace lend
