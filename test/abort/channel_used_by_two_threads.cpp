// stops: used by two threads at once
// SPDX-License-Identifier: MIT OR Apache-2.0
// A thread sends on a channel on which another one waits. Neither call can end before the other
// begins: they overlap in any order.
#include <lend/lend.hpp>

#include <thread>

using namespace std::chrono_literals;

namespace {

lend::Result<void> provoke() {
  LEND_TRY(context, lend::open_device(lend::DeviceChoice::soft()));
  LEND_TRY(domain, context.allocate_protection_domain());
  LEND_TRY(memory, domain.allocate(64));
  LEND_TRY(prepared, lend::channel_builder().protection_domain(domain).build());
  lend::Endpoint const self = prepared.endpoint();
  LEND_TRY(channel, std::move(prepared).handshake(self));
  std::jthread const other{
      [&] { static_cast<void>(channel.receive(memory.scatter(32, 8), lend::within(10s))); }};
  return channel.send(memory.gather(0, 8), lend::within(10s));
}

}  // namespace

int main() {
  return provoke().has_value() ? 0 : 1;
}
