// stops: used by two threads at once
// SPDX-License-Identifier: MIT OR Apache-2.0
// A handle is dropped while another thread waits on its channel.
#include "looped.hpp"

#include <optional>

namespace {

lend::Result<void> provoke() {
  LEND_TRY(looped, Looped::make());
  lend::PollingScope scope{looped.channel};
  std::optional<lend::PendingWork> work;
  LEND_TRY(posted, scope.post_receive(looped.memory.scatter(0, 8)));
  work.emplace(std::move(posted));
  Busy const busy{looped};
  work.reset();
  return scope.finish();
}

}  // namespace

int main() {
  return provoke().has_value() ? 0 : 1;
}
