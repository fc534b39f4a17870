// error: no matching (function for call|constructor)
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/transport/any.hpp>
#include <lend/transport/memory.hpp>

#include <utility>

struct HasNone {};

void rule(lend::MemoryTransport transport) {
#ifdef MUST_COMPILE
  lend::AnyTransport any{std::move(transport)};
#else
  static_cast<void>(transport);
  lend::AnyTransport any{HasNone{}};
#endif
  any.disconnect();
}
