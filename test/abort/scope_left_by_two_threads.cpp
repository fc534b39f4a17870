// stops: used by two threads at once
// SPDX-License-Identifier: MIT OR Apache-2.0
// A scope is left without finish() while another thread waits on its channel.
#include "looped.hpp"

#include <optional>

namespace {

lend::Result<void> provoke() {
  LEND_TRY(looped, Looped::make());
  std::optional<lend::PollingScope> scope{std::in_place, looped.channel};
  Busy const busy{looped};
  scope.reset();
  return lend::success();
}

}  // namespace

int main() {
  return provoke().has_value() ? 0 : 1;
}
