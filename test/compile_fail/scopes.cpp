// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

extern lend::Channel& channel;
extern lend::PreparedChannel& prepared;
extern lend::Endpoint const& peer;
extern lend::MultiChannel& channels;

void stay_in_place() {
  lend::PollingScope scope{channel};
  lend::PollingScope& same = scope;
  static_cast<void>(same.outstanding());
#ifdef CASE_scope_is_not_copyable
  // error: use of deleted function|call to deleted constructor
  lend::PollingScope copied{scope};
#endif
#ifdef CASE_scope_is_not_on_the_heap
  // error: use of deleted function|selected deleted operator|call to deleted function
  auto* allocated = new lend::PollingScope{channel};
  delete allocated;
#endif

  lend::MultiScope scope_of_all{channels};
  static_cast<void>(scope_of_all.drain_within(std::chrono::seconds{1}));
#ifdef CASE_multi_scope_is_not_on_the_heap
  // error: use of deleted function|call to deleted function
  static_cast<void>(new lend::MultiScope{channels});
#endif
}

void outlived_by_channel() {
  auto connected = std::move(prepared).handshake(peer).value();
  lend::PollingScope scope{connected};
#ifdef CASE_scope_of_a_temporary_channel
  // error: cannot bind non-const lvalue reference|no matching constructor
  lend::PollingScope of_temporary{std::move(prepared).handshake(peer).value()};
#endif
}

void closures() {
  static_cast<void>(channel.scope([](lend::PollingScope&) -> lend::Result<int> { return 5; }));
#ifdef CASE_scope_closure_returns_a_result
  // error: IsResult
  static_cast<void>(channel.scope([](lend::PollingScope&) -> int { return 5; }));
#endif
}
