// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/transport/any.hpp>
#include <lend/transport/memory.hpp>
#include <lend/transport/transport.hpp>

#include <utility>

extern lend::Received& received;
extern lend::Draft& draft;

void messages() {
  static_cast<void>(lend::Received{std::move(received)});
  static_cast<void>(lend::Draft{std::move(draft)});
#ifdef CASE_received_is_not_copyable
  // error: use of deleted function|call to (implicitly-)?deleted
  static_cast<void>(lend::Received{received});  // refused
  static_cast<void>(lend::Draft{draft});        // refused
#endif

  static_cast<void>(received.bytes());
  static_cast<void>(draft.bytes());
#ifdef CASE_temporary_message_shows_no_bytes
  // error: use of deleted function|call to deleted member function
  static_cast<void>(std::move(received).bytes());  // refused
  static_cast<void>(std::move(draft).bytes());     // refused
#endif
}

struct HasNone {};

void any_transport(lend::MemoryTransport& transport) {
  lend::AnyTransport any{std::move(transport)};
  any.disconnect();
#ifdef CASE_transport_has_all_calls
  // error: no matching (function for call|constructor)
  lend::AnyTransport any_of_none{HasNone{}};
#endif
}
