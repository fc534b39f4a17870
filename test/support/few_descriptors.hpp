// SPDX-License-Identifier: MIT OR Apache-2.0
// Want of descriptors, for a while. One thread.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <string>

#include "support/catch.hpp"

namespace lend::test {

/// No file can be opened whose number is `more` or more above the first free one.
class FewDescriptors {
 public:
  explicit FewDescriptors(unsigned more = 0) {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    auto const first = ::dup(0);
    REQUIRE(first >= 0);
    ::close(first);
    rlimit const few{static_cast<rlim_t>(first) + more, before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  }
  FewDescriptors(FewDescriptors const&) = delete;
  FewDescriptors& operator=(FewDescriptors const&) = delete;
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

  /// What an error says of the limit.
  [[nodiscard]] static std::string words() {
    rlimit now{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &now) == 0);
    return "RLIMIT_NOFILE is " + std::to_string(now.rlim_cur) + ' ';
  }

 private:
  rlimit before_{};
};

}  // namespace lend::test
