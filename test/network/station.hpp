// SPDX-License-Identifier: MIT OR Apache-2.0
// One side of a connection before there is one, for tests of listen() and connect().
#pragma once

#include "support/two_ends.hpp"

namespace lend::test {

/// What a channel stands on, and one that is not connected yet.
struct Station {
  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());

  [[nodiscard]] PreparedChannel prepared() const { return must(prepare_channel(domain, {})); }
};

/// What some tests do ends in a channel, which endpoints alone do not make on every device.
inline bool cannot_connect() {
  return lacks(open_test_device(), &DeviceCapabilities::endpoints);
}

}  // namespace lend::test
