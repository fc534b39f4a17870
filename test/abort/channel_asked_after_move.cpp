// stops: moved from
// SPDX-License-Identifier: MIT OR Apache-2.0
// A channel is asked for its depth under the name it was moved away from.
#include "looped.hpp"

namespace {

lend::Result<void> provoke() {
  LEND_TRY(looped, Looped::make());
  lend::Channel const elsewhere{std::move(looped.channel)};
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  return looped.channel.send_depth() > 0 ? lend::success() : lend::Result<void>{lend::Errc::denied};
}

}  // namespace

int main() {
  return provoke().has_value() ? 0 : 1;
}
