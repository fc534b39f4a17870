// stops: a QueuePair was used after it had been moved from
// SPDX-License-Identifier: MIT OR Apache-2.0
// A queue pair is asked for its number under the name it was moved away from.
#include "looped.hpp"

namespace {

lend::Result<void> provoke() {
  LEND_TRY(looped, Looped::make());
  LEND_TRY(prepared, lend::channel_builder().protection_domain(looped.domain).build());
  auto bare = prepared.take_queue_pair();
  auto const self = prepared.endpoint();
  LEND_TRY(connected, std::move(bare).connect(self));
  lend::QueuePair const elsewhere{std::move(connected)};
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  return connected.number() == elsewhere.number() ? lend::success()
                                                  : lend::Result<void>{lend::Errc::denied};
}

}  // namespace

int main() {
  return provoke().has_value() ? 0 : 1;
}
