// stops: used by two threads at once
// SPDX-License-Identifier: MIT OR Apache-2.0
// Work is posted unsafely while another thread waits on the channel.
#include "looped.hpp"

#include <lend/channel/unsafe.hpp>

namespace {

lend::Result<void> provoke() {
  LEND_TRY(looped, Looped::make());
  Busy const busy{looped};
  // SAFETY: the memory outlives the channel, and nobody looks at it.
  LEND_TRYV(lend::unsafe_post_receive(looped.channel, looped.memory.scatter(0, 8)));
  return lend::success();
}

}  // namespace

int main() {
  return provoke().has_value() ? 0 : 1;
}
