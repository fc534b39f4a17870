// stops: used by two threads at once
// SPDX-License-Identifier: MIT OR Apache-2.0
// A channel is asked what broke it while another thread waits on it.
#include "looped.hpp"

namespace {

lend::Result<void> provoke() {
  LEND_TRY(looped, Looped::make());
  Busy const busy{looped};
  return looped.channel.first_cause() == nullptr ? lend::success()
                                                 : lend::Result<void>{lend::Errc::denied};
}

}  // namespace

int main() {
  return provoke().has_value() ? 0 : 1;
}
