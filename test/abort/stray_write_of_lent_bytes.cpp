// stops: use-after-poison(.|\n)*WRITE of size 1
// SPDX-License-Identifier: MIT OR Apache-2.0
// Bytes that the device may write at any moment, written by the program through its own pointer.
// Under AddressSanitizer only.
#include "looped.hpp"

namespace {

lend::Result<void> provoke() {
  LEND_TRY(looped, Looped::make());
  LEND_TRY(bytes, looped.memory.mutable_bytes());
  lend::PollingScope scope{looped.channel};
  LEND_TRYV(scope.post_receive(looped.memory.scatter(0, 32)));
  auto volatile* const stray = bytes.data() + 16;
  *stray = std::byte{1};
  return scope.finish();
}

}  // namespace

int main() {
  return provoke().has_value() ? 0 : 1;
}
