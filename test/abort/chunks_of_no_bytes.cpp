// stops: chunks of 0 bytes
// SPDX-License-Identifier: MIT OR Apache-2.0
// A loop over them would have no end.
#include <lend/lend.hpp>

namespace {

lend::Result<void> provoke() {
  LEND_TRY(context, lend::open_device(lend::DeviceChoice::soft()));
  LEND_TRY(domain, context.allocate_protection_domain());
  LEND_TRY(memory, domain.allocate(64));
  return memory.chunks(0).size() == 0 ? lend::success() : lend::Result<void>{lend::Errc::not_found};
}

}  // namespace

int main() {
  return provoke().has_value() ? 0 : 1;
}
