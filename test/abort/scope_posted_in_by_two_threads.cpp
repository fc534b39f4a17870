// stops: used by two threads at once
// SPDX-License-Identifier: MIT OR Apache-2.0
// A scope posts while another thread waits on its channel.
#include "looped.hpp"

namespace {

lend::Result<void> provoke() {
  LEND_TRY(looped, Looped::make());
  lend::PollingScope scope{looped.channel};
  Busy const busy{looped};
  LEND_TRYV(scope.try_post_receive(looped.memory.scatter(0, 8)));
  return scope.finish();
}

}  // namespace

int main() {
  return provoke().has_value() ? 0 : 1;
}
