// stops: a QueuePair was used after it had been moved from
// SPDX-License-Identifier: MIT OR Apache-2.0
// Work is posted on a queue pair under the name it was moved away from.
#include "looped.hpp"

namespace {

lend::Result<void> provoke() {
  LEND_TRY(looped, Looped::make());
  LEND_TRY(prepared, lend::channel_builder().protection_domain(looped.domain).build());
  auto bare = prepared.take_queue_pair();
  auto const self = prepared.endpoint();
  LEND_TRY(connected, std::move(bare).connect(self));
  lend::QueuePair const elsewhere{std::move(connected)};
  // SAFETY: it is not posted.
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  return connected.unsafe_post_receive(1, looped.memory.scatter(0, 8));
}

}  // namespace

int main() {
  return provoke().has_value() ? 0 : 1;
}
