// SPDX-License-Identifier: MIT OR Apache-2.0
// Two ends of a SendReceive in one process.
#pragma once

#include <lend/transport/send_receive.hpp>

#include <utility>

#include "support/two_ends.hpp"

namespace lend::test {

inline Result<std::pair<SendReceive, SendReceive>> try_send_receive(
    ProtectionDomain const& domain, TransportOptions const& of_a = {},
    TransportOptions const& of_b = {}) {
  LEND_TRY(a, SendReceive::prepare(domain, of_a));
  LEND_TRY(b, SendReceive::prepare(domain, of_b));
  auto const endpoint = a.endpoint();
  auto const terms = a.terms();
  LEND_TRY(one, std::move(a).handshake(b.endpoint(), b.terms()));
  LEND_TRY(other, std::move(b).handshake(endpoint, terms));
  return std::pair{std::move(one), std::move(other)};
}

inline std::pair<SendReceive, SendReceive> send_receive(TransportOptions const& of_a = {},
                                                        TransportOptions const& of_b = {}) {
  auto const domain = must(open_test_device().allocate_protection_domain());
  return must(try_send_receive(domain, of_a, of_b));
}

}  // namespace lend::test
