// SPDX-License-Identifier: MIT OR Apache-2.0
// LEND_DEVICE for a while. One thread.
#pragma once

#include <cstdlib>
#include <string>

namespace lend::test {

/// LEND_DEVICE has `value`, or is unset with null, while this lives.
class DeviceEnvironment {
 public:
  explicit DeviceEnvironment(char const* value) {
    if (char const* const present = std::getenv("LEND_DEVICE")) {
      before_ = present;
      was_set_ = true;
    }
    if (value != nullptr)
      ::setenv("LEND_DEVICE", value, 1);
    else
      ::unsetenv("LEND_DEVICE");
  }
  DeviceEnvironment(DeviceEnvironment const&) = delete;
  DeviceEnvironment& operator=(DeviceEnvironment const&) = delete;
  ~DeviceEnvironment() {
    if (was_set_)
      ::setenv("LEND_DEVICE", before_.c_str(), 1);
    else
      ::unsetenv("LEND_DEVICE");
  }

 private:
  std::string before_{};
  bool was_set_ = false;
};

}  // namespace lend::test
