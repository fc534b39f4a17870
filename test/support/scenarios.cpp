// SPDX-License-Identifier: MIT OR Apache-2.0
// The device under test, and which scenarios it could not do. One thread.
#define CATCH_CONFIG_EXTERNAL_INTERFACES  // the listener, in Catch2 2
#include "support/scenarios.hpp"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>

#include "support/two_ends.hpp"

namespace lend::test {

namespace {

std::set<std::string>& skipped_tests() {
  static std::set<std::string> tests;
  return tests;
}

/// Empty: the tests that ran opened none.
std::string& device_opened() {
  static std::string name;
  return name;
}

char const* what_is_lacking(bool DeviceCapabilities::*capability) {
  if (capability == &DeviceCapabilities::endpoints) return "is not connected by endpoints";
  if (capability == &DeviceCapabilities::rdma_cm) return "is not connected by rdma_cm";
  if (capability == &DeviceCapabilities::immediates) return "carries no immediates";
  if (capability == &DeviceCapabilities::unreliable) return "has no unreliable connections";
  if (capability == &DeviceCapabilities::datagrams) return "has no datagrams";
  if (capability == &DeviceCapabilities::windows) return "has no memory windows";
  if (capability == &DeviceCapabilities::peer_loans) return "does not hold a peer to a loan";
  if (capability == &DeviceCapabilities::timestamps) return "gives completions no timestamps";
  if (capability == &DeviceCapabilities::waits_for_receives)
    return "lets no message wait for its receive";
  return "does not tell a sender what the peer refuses";
}

#if CATCH_VERSION_MAJOR >= 3
using Listener = Catch::EventListenerBase;
#else
using Listener = Catch::TestEventListenerBase;
#endif

class Count : public Listener {
 public:
  using Listener::Listener;
  void testRunEnded(Catch::TestRunStats const& run) override {
    if (device_opened().empty()) return;
    auto const& tests = run.totals.testCases;
    std::printf("scenarios on %s: %zu passed, %zu skipped, %zu failed\n", device_opened().c_str(),
                static_cast<std::size_t>(tests.passed) - skipped_tests().size(),
                skipped_tests().size(), static_cast<std::size_t>(tests.failed));
    std::fflush(stdout);
  }
};
CATCH_REGISTER_LISTENER(Count)

}  // namespace

Context open_test_device() {
  char const* const name = std::getenv("LEND_TEST_DEVICE");
  auto const choice = name == nullptr ? DeviceChoice::soft() : DeviceChoice::named(name);
  Context context = must(open_device(choice));
  static std::mutex opening;  // several threads may open it
  std::lock_guard const lock{opening};
  device_opened() = context.name();
  return context;
}

void skip(Context const& context, char const* why) {
  auto const test = Catch::getResultCapture().getCurrentTestName();
  if (skipped_tests().insert(test).second) {
    std::printf("skipped: \"%s\": %s %s\n", test.c_str(), context.name().c_str(), why);
    std::fflush(stdout);
  }
}

bool lacks(Context const& context, bool DeviceCapabilities::*capability) {
  if (context.capabilities().*capability) return false;
  skip(context, what_is_lacking(capability));
  return true;
}

}  // namespace lend::test
