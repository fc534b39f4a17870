// stops: use-after-poison(.|\n)*READ of size 1
// SPDX-License-Identifier: MIT OR Apache-2.0
// Bytes that the device may write at any moment, read by the program through its own pointer.
// Under AddressSanitizer only.
#include <lend/lend.hpp>

namespace {

lend::Result<void> provoke() {
  LEND_TRY(context, lend::open_device(lend::DeviceChoice::soft()));
  LEND_TRY(domain, context.allocate_protection_domain());
  LEND_TRY(prepared, lend::channel_builder().protection_domain(domain).build());
  lend::Endpoint const self = prepared.endpoint();
  LEND_TRY(channel, std::move(prepared).handshake(self));
  LEND_TRY(memory, domain.allocate(64));
  LEND_TRY(bytes, memory.mutable_bytes());
  lend::PollingScope scope{channel};
  LEND_TRYV(scope.post_receive(memory.scatter(0, 32)));
  auto volatile* const stray = bytes.data() + 16;
  return *stray == std::byte{1} ? lend::Errc::timed_out : scope.finish();
}

}  // namespace

int main() {
  return provoke().has_value() ? 0 : 1;
}
