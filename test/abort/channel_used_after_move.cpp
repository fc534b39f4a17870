// stops: moved from
// SPDX-License-Identifier: MIT OR Apache-2.0
// A channel is used under the name it was moved away from.
#include "looped.hpp"

namespace {

lend::Result<void> provoke() {
  LEND_TRY(looped, Looped::make());
  lend::Channel const elsewhere{std::move(looped.channel)};
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  return looped.channel.send(looped.memory.gather(0, 8));
}

}  // namespace

int main() {
  return provoke().has_value() ? 0 : 1;
}
