// SPDX-License-Identifier: MIT OR Apache-2.0
// Environment variables for a while. One thread.
#pragma once

#include <cstdlib>
#include <string>

namespace lend::test {

/// `name` has `value`, or is unset with null, while this lives.
class EnvironmentVariable {
 public:
  EnvironmentVariable(char const* name, char const* value) : name_{name} {
    if (char const* const present = std::getenv(name)) {
      before_ = present;
      was_set_ = true;
    }
    if (value != nullptr)
      ::setenv(name, value, 1);
    else
      ::unsetenv(name);
  }
  EnvironmentVariable(EnvironmentVariable const&) = delete;
  EnvironmentVariable& operator=(EnvironmentVariable const&) = delete;
  ~EnvironmentVariable() {
    if (was_set_)
      ::setenv(name_, before_.c_str(), 1);
    else
      ::unsetenv(name_);
  }

 private:
  char const* name_;
  std::string before_{};
  bool was_set_ = false;
};

/// The same of LEND_DEVICE.
class DeviceEnvironment : public EnvironmentVariable {
 public:
  explicit DeviceEnvironment(char const* value) : EnvironmentVariable{"LEND_DEVICE", value} {}
};

}  // namespace lend::test
