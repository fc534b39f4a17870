// stops: a PreparedQueuePair was used after it had been
// SPDX-License-Identifier: MIT OR Apache-2.0
// A queue pair that was taken out of its prepared channel is asked for its endpoint there again.
#include "looped.hpp"

namespace {

lend::Result<void> provoke() {
  LEND_TRY(looped, Looped::make());
  LEND_TRY(prepared, lend::channel_builder().protection_domain(looped.domain).build());
  auto const taken = prepared.take_queue_pair();
  auto const again = prepared.take_queue_pair();
  return again.endpoint() == taken.endpoint() ? lend::success()
                                              : lend::Result<void>{lend::Errc::denied};
}

}  // namespace

int main() {
  return provoke().has_value() ? 0 : 1;
}
