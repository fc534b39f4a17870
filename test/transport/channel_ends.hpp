// SPDX-License-Identifier: MIT OR Apache-2.0
// Two ends of a transport over channels, of whichever kind, in one process.
#pragma once

#include <lend/transport/any.hpp>
#include <lend/transport/credit_ring.hpp>
#include <lend/transport/send_receive.hpp>

#include <utility>

#include "support/two_ends.hpp"

namespace lend::test {

template <class Kind>
Result<std::pair<Kind, Kind>> try_ends(ProtectionDomain const& domain,
                                       TransportOptions const& of_a = {},
                                       TransportOptions const& of_b = {}) {
  LEND_TRY(a, Kind::prepare(domain, of_a));
  LEND_TRY(b, Kind::prepare(domain, of_b));
  auto const endpoint = a.endpoint();
  auto const terms = a.terms();
  LEND_TRY(one, std::move(a).handshake(b.endpoint(), b.terms()));
  LEND_TRY(other, std::move(b).handshake(endpoint, terms));
  return std::pair{std::move(one), std::move(other)};
}

template <class Kind>
std::pair<Kind, Kind> ends(TransportOptions const& of_a = {}, TransportOptions const& of_b = {}) {
  auto const domain = must(open_test_device().allocate_protection_domain());
  return must(try_ends<Kind>(domain, of_a, of_b));
}

/// The kinds as values, for tests that take turns.
struct ChannelKind {
  char const* name;
  Result<std::pair<AnyTransport, AnyTransport>> (*try_ends)(ProtectionDomain const&,
                                                            TransportOptions const&);
};
template <class Kind>
Result<std::pair<AnyTransport, AnyTransport>> try_any_ends(ProtectionDomain const& domain,
                                                           TransportOptions const& options) {
  LEND_TRY(both, try_ends<Kind>(domain, options, options));
  return std::pair{AnyTransport{std::move(both.first)}, AnyTransport{std::move(both.second)}};
}
inline constexpr ChannelKind channel_kinds[] = {
    {"SendReceive", &try_any_ends<SendReceive>},
    {"CreditRing", &try_any_ends<CreditRing>},
};

}  // namespace lend::test
