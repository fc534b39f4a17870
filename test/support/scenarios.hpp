// SPDX-License-Identifier: MIT OR Apache-2.0
// Scenarios run unchanged on every device; one that a device cannot do says so and is counted. In a
// program that opens the test device, the run's end prints how many passed there. One thread.
#pragma once

#include <lend/verbs/context.hpp>

namespace lend::test {

/// The device that LEND_TEST_DEVICE names (default: soft).
[[nodiscard]] Context open_test_device();

/// Says that the running test, which then returns, is not for `context`, and why:
///     skipped: "the test": siw0 carries no immediates
void skip(Context const& context, char const* why);

/// Whether `context` cannot do what the running test is about; then it is skipped.
[[nodiscard]] bool lacks(Context const& context, bool DeviceCapabilities::*capability);

}  // namespace lend::test
