// stops: exposed to a peer
// SPDX-License-Identifier: MIT OR Apache-2.0
// A region over the caller's bytes that ends before its exposure: the peer could go on writing.
#include <lend/lend.hpp>

#include <array>
#include <optional>

namespace {

lend::Result<void> provoke() {
  std::array<std::byte, 64> bytes{};
  LEND_TRY(context, lend::open_device(lend::DeviceChoice::soft()));
  LEND_TRY(domain, context.allocate_protection_domain());
  std::optional<lend::Exposure> kept;
  LEND_TRY(view, domain.register_memory(bytes));
  // SAFETY: no peer is told.
  LEND_TRY(exposure, view.unsafe_expose(lend::RemoteAccess::write));
  kept.emplace(std::move(exposure));
  return lend::success();
}

}  // namespace

int main() {
  return provoke().has_value() ? 0 : 1;
}
