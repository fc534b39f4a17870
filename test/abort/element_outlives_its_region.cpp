// stops: after that region had been destroyed or assigned over
// SPDX-License-Identifier: MIT OR Apache-2.0
// An element that was kept is posted after another region was assigned over its own, which lives on
// only because some of it is on loan.
#include "looped.hpp"

namespace {

lend::Result<void> provoke() {
  LEND_TRY(looped, Looped::make());
  LEND_TRY(other, looped.domain.allocate(64));
  lend::PollingScope scope{looped.channel};
  LEND_TRYV(scope.post_receive(looped.memory.scatter(0, 8)));
  auto const kept = looped.memory.scatter(8, 8);
  looped.memory = std::move(other);
  LEND_TRYV(scope.post_receive(kept));
  return scope.finish();
}

}  // namespace

int main() {
  return provoke().has_value() ? 0 : 1;
}
