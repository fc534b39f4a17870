// SPDX-License-Identifier: MIT OR Apache-2.0
// The smallest program: a channel that is its own peer sends itself a greeting. One thread.
#include <lend/lend.hpp>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <string_view>

using namespace std::chrono_literals;

static void print(std::span<std::byte const> text, lend::Context const& device) {
  std::cout << "received \"";
  for (std::byte letter : text) std::cout << char(letter);
  std::cout << "\" over " << device.name() << " (" << lend::name_of(device.kind()) << ")\n";
}

// excerpt hello
static lend::Result<void> greet(std::string_view greeting) {
  LEND_TRY(device, lend::open_device());  // an RDMA device if there is one, else the soft device
  LEND_TRY(domain, device.allocate_protection_domain());
  LEND_TRY(memory, domain.allocate(4096));  // registered; no peer can access it

  LEND_TRY(prepared, lend::channel_builder().protection_domain(domain).build());
  lend::Endpoint const peer = prepared.endpoint();  // its own: it receives what it sends
  LEND_TRY(channel, std::move(prepared).handshake(peer));

  LEND_TRY(draft, memory.mutable_bytes(0, greeting.size()));
  std::ranges::copy(std::as_bytes(std::span{greeting}), draft.begin());

  lend::PollingScope scope{channel};  // its end waits for its work, 30 s at most
  LEND_TRY(pending, scope.post_receive(memory.scatter(2048, 2048)));
  LEND_TRYV(scope.post_send(memory.gather(0, greeting.size())));
  LEND_TRY(message, pending.wait(lend::within(2s)));  // the receive's loan has ended

  LEND_TRY(received, memory.bytes(2048, message.bytes));
  print(received, device);
  return scope.finish();
}
// end of excerpt

int main() {
  auto const done = greet("hello, channel");
  if (!done) std::cerr << "hello_channel: " << done.error().describe() << '\n';
  return done ? 0 : 1;
}
