// stops: a Listener was used after it had been moved from
// SPDX-License-Identifier: MIT OR Apache-2.0
// A listener is asked where it listens under the name it was moved away from.
#include "looped.hpp"

namespace {

lend::Result<void> provoke() {
  LEND_TRY(listener, lend::Listener::open("127.0.0.1:0"));
  lend::Listener const elsewhere{std::move(listener)};
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  return listener.address().empty() ? lend::success() : lend::Result<void>{lend::Errc::denied};
}

}  // namespace

int main() {
  return provoke().has_value() ? 0 : 1;
}
