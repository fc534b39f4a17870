// stops: used by two threads at once
// SPDX-License-Identifier: MIT OR Apache-2.0
// A handle is waited for while another thread waits on its channel.
#include "looped.hpp"

namespace {

lend::Result<void> provoke() {
  LEND_TRY(looped, Looped::make());
  lend::PollingScope scope{looped.channel};
  LEND_TRY(work, scope.post_receive(looped.memory.scatter(0, 8)));
  Busy const busy{looped};
  LEND_TRYV(work.wait(lend::within(std::chrono::milliseconds{1})));
  return scope.finish();
}

}  // namespace

int main() {
  return provoke().has_value() ? 0 : 1;
}
