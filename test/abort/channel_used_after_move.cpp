// stops: moved from
// SPDX-License-Identifier: MIT OR Apache-2.0
// A channel is used under the name it was moved away from.
#include <lend/lend.hpp>

namespace {

lend::Result<void> provoke() {
  LEND_TRY(context, lend::open_device(lend::DeviceChoice::soft()));
  LEND_TRY(domain, context.allocate_protection_domain());
  LEND_TRY(memory, domain.allocate(64));
  LEND_TRY(prepared, lend::channel_builder().protection_domain(domain).build());
  lend::Endpoint const self = prepared.endpoint();
  LEND_TRY(channel, std::move(prepared).handshake(self));
  lend::Channel const elsewhere{std::move(channel)};
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  return channel.send(memory.gather(0, 8));
}

}  // namespace

int main() {
  return provoke().has_value() ? 0 : 1;
}
