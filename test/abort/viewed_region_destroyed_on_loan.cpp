// stops: on loan
// SPDX-License-Identifier: MIT OR Apache-2.0
// A region over the caller's bytes that ends before its loan: nobody could keep the bytes alive.
#include "looped.hpp"

#include <array>

namespace {

lend::Result<void> provoke() {
  std::array<std::byte, 64> bytes{};
  LEND_TRY(looped, Looped::make());
  lend::PollingScope scope{looped.channel};
  {
    LEND_TRY(view, looped.domain.register_memory(bytes));
    LEND_TRYV(scope.post_receive(view.scatter(0, 64)));
  }
  return scope.finish();
}

}  // namespace

int main() {
  return provoke().has_value() ? 0 : 1;
}
