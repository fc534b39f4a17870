// SPDX-License-Identifier: MIT OR Apache-2.0
// A transport of the kind that the options name. One thread at a time.
#pragma once

#include <lend/transport/any.hpp>
#include <lend/transport/credit_ring.hpp>
#include <lend/transport/read_ring.hpp>
#include <lend/transport/send_receive.hpp>
#include <lend/verbs/protection_domain.hpp>

#include <type_traits>
#include <utility>

namespace lend::transport {

/// The kind of the options. Only devices of one kind are connected to each other, so that both ends
/// choose alike.
[[nodiscard]] inline TransportKind chosen_kind(TransportOptions const& options,
                                               ProtectionDomain const& domain) noexcept {
  if (options.kind != TransportKind::automatic) return options.kind;
  return domain.context().capabilities().immediates ? TransportKind::credit_ring
                                                    : TransportKind::send_receive;
}

/// `make(std::type_identity<Kind>{})`, for the kind of the options.
template <class Make>
[[nodiscard]] auto with_kind(TransportOptions const& options, ProtectionDomain const& domain,
                             Make const& make) {
  switch (chosen_kind(options, domain)) {
    case TransportKind::credit_ring: return make(std::type_identity<CreditRing>{});
    case TransportKind::read_ring: return make(std::type_identity<ReadRing>{});
    default: return make(std::type_identity<SendReceive>{});
  }
}

/// What `join(prepared)` makes of a prepared transport of that kind.
template <class Join>
[[nodiscard]] Result<AnyTransport> prepare_and(TransportOptions const& options,
                                               ProtectionDomain const& domain, Join const& join) {
  return with_kind(options, domain,
                   [&]<class Kind>(std::type_identity<Kind>) -> Result<AnyTransport> {
                     LEND_TRY(prepared, Kind::prepare(domain, options));
                     LEND_TRY(made, join(std::move(prepared)));
                     return AnyTransport{std::move(made)};
                   });
}

}  // namespace lend::transport
