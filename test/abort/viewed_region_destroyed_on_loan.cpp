// stops: on loan
// SPDX-License-Identifier: MIT OR Apache-2.0
// A region over the caller's bytes that ends before its loan: nobody could keep the bytes alive.
#include <lend/lend.hpp>

#include <array>

namespace {

lend::Result<void> provoke() {
  std::array<std::byte, 64> bytes{};
  LEND_TRY(context, lend::open_device(lend::DeviceChoice::soft()));
  LEND_TRY(domain, context.allocate_protection_domain());
  LEND_TRY(prepared, lend::channel_builder().protection_domain(domain).build());
  lend::Endpoint const self = prepared.endpoint();
  LEND_TRY(channel, std::move(prepared).handshake(self));
  lend::PollingScope scope{channel};
  {
    LEND_TRY(view, domain.register_memory(bytes));
    LEND_TRYV(scope.post_receive(view.scatter(0, 64)));
  }
  return scope.finish();
}

}  // namespace

int main() {
  return provoke().has_value() ? 0 : 1;
}
