// stops: used by two threads at once
// SPDX-License-Identifier: MIT OR Apache-2.0
// A thread sends on a channel on which another one waits. Neither call can end before the other
// begins: they overlap in any order.
#include "looped.hpp"

#include <thread>

using namespace std::chrono_literals;

namespace {

lend::Result<void> provoke() {
  LEND_TRY(looped, Looped::make());
  std::jthread const other{[&] {
    static_cast<void>(looped.channel.receive(looped.memory.scatter(32, 8), lend::within(10s)));
  }};
  return looped.channel.send(looped.memory.gather(0, 8), lend::within(10s));
}

}  // namespace

int main() {
  return provoke().has_value() ? 0 : 1;
}
