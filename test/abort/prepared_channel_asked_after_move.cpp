// stops: a PreparedChannel was used after it had been moved from
// SPDX-License-Identifier: MIT OR Apache-2.0
// A prepared channel is asked for its endpoint under the name it was moved away from.
#include "looped.hpp"

namespace {

lend::Result<void> provoke() {
  LEND_TRY(looped, Looped::make());
  LEND_TRY(prepared, lend::channel_builder().protection_domain(looped.domain).build());
  lend::PreparedChannel const elsewhere{std::move(prepared)};
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  return prepared.endpoint() == elsewhere.endpoint() ? lend::success()
                                                     : lend::Result<void>{lend::Errc::denied};
}

}  // namespace

int main() {
  return provoke().has_value() ? 0 : 1;
}
