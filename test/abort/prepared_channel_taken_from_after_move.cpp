// stops: a PreparedChannel was used after it had been moved from
// SPDX-License-Identifier: MIT OR Apache-2.0
// A queue pair is taken out of a prepared channel under the name that was moved away from.
#include "looped.hpp"

namespace {

lend::Result<void> provoke() {
  LEND_TRY(looped, Looped::make());
  LEND_TRY(prepared, lend::channel_builder().protection_domain(looped.domain).build());
  lend::PreparedChannel const elsewhere{std::move(prepared)};
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  auto const taken = prepared.take_queue_pair();
  return taken.native() != nullptr ? lend::success() : lend::Result<void>{lend::Errc::denied};
}

}  // namespace

int main() {
  return provoke().has_value() ? 0 : 1;
}
