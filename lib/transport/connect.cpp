// SPDX-License-Identifier: MIT OR Apache-2.0
// One thread at a time.
#include <lend/network/meeting.hpp>
#include <lend/transport/connect.hpp>
#include <lend/transport/send_receive.hpp>

#include <utility>

namespace lend {

namespace {

/// Connects this end, and settles with the peer.
Result<AnyTransport> join(Meeting met, PreparedSendReceive prepared, Deadline deadline) {
  auto made = std::move(prepared).handshake(met.endpoint(), met.note());
  auto const outcome = made ? Result<void>{success()} : Result<void>{made.error()};
  LEND_TRYV(std::move(met).settle(outcome, deadline));
  return AnyTransport{std::move(made).value()};
}

}  // namespace

Result<TransportListener> TransportListener::open(std::string_view address,
                                                  ExchangeOptions options) {
  LEND_TRY(listener, Listener::open(address, std::move(options)));
  return TransportListener{std::move(listener)};
}

Result<AnyTransport> TransportListener::accept(ProtectionDomain const& domain,
                                               TransportOptions const& options, Deadline deadline) {
  LEND_TRY(prepared, SendReceive::prepare(domain, options));
  LEND_TRY(met, listener_.meet(prepared.endpoint(), prepared.terms(), deadline));
  return join(std::move(met), std::move(prepared), deadline);
}

Result<AnyTransport> connect_transport(std::string_view address, ProtectionDomain const& domain,
                                       TransportOptions const& options, Deadline deadline,
                                       ExchangeOptions const& exchange) {
  LEND_TRY(prepared, SendReceive::prepare(domain, options));
  LEND_TRY(met, meet(address, prepared.endpoint(), prepared.terms(), deadline, exchange));
  return join(std::move(met), std::move(prepared), deadline);
}

}  // namespace lend
