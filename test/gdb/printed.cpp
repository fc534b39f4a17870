// SPDX-License-Identifier: MIT OR Apache-2.0
// Values that printers_test.py looks at in gdb, at the call of all_is_there().
#include <lend/lend.hpp>

#include <cstdint>

extern "C" [[gnu::noinline]] void all_is_there() {
  asm volatile("");
}

int main() {
  auto const device = lend::open_device(lend::DeviceChoice::soft()).value();
  auto const domain = device.allocate_protection_domain().value();
  auto region = domain.allocate(4096).value();
  auto prepared = lend::channel_builder().protection_domain(domain).build().value();
  auto const peer = prepared.endpoint();
  auto channel = std::move(prepared).handshake(peer).value();
  lend::Error const none;
  lend::Error const error{lend::Errc::not_found, "no mlx5_7"};
  lend::Result<std::uint32_t> const good{17u};
  lend::Result<std::uint32_t> const bad{error};
  lend::Result<void> const done = lend::success();
  lend::PollingScope scope{channel};
  auto work = scope.post_receive(region.scatter(0, 64)).value();
  all_is_there();
  return static_cast<int>(good.value() + (bad.has_value() ? 1 : 0) + (done ? 0 : 1) +
                          (none == lend::Errc::not_found ? 1 : 0)) -
         17;
}
