// SPDX-License-Identifier: MIT OR Apache-2.0
// `test/run thorough` sets LEND_TEST_THOROUGH=1: tests then take all of the sizes, moments and
// random programs of which a shorter run takes a part.
#pragma once

#include <lend/verbs/context.hpp>

#include <cstdlib>
#include <string_view>

namespace lend::test {

inline bool thorough() {
  char const* const said = std::getenv("LEND_TEST_THOROUGH");
  return said != nullptr && std::string_view{said} == "1";
}

/// Whether a test takes all of them on this device. A guest emulates those of kernels, which makes
/// them slow: there a run that is not thorough tests that the device carries each kind of request,
/// and the soft device shows for which sizes and moments lend is right.
inline bool takes_all(Context const& device) {
  return device.kind() == DeviceKind::soft || thorough();
}

}  // namespace lend::test
