// SPDX-License-Identifier: MIT OR Apache-2.0
// What an operation takes from the heap once it is warm. Of programs that link
// allocation_counter.cpp.
#pragma once

#include <lend/base/result.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "support/allocation_counter.hpp"
#include "support/catch.hpp"

namespace lend::test {

inline constexpr int warm_up = 300, counted = 1000;  // more than twice round every ring

/// What `operation` allocates in all its counted runs. Nothing but it runs between the two counts:
/// assertions allocate.
inline std::uint64_t allocated_by(std::function<Result<void>()> const& operation) {
  std::optional<Error> error;
  auto const run = [&](int times) {
    for (int i = 0; i < times && !error; ++i) {
      if (auto result = operation(); !result) error = std::move(result).assume_error();
    }
  };
  run(warm_up);
  auto const before = allocations();
  run(counted);
  auto const after = allocations();
  if (error) FAIL(error->message());
  return after - before;
}

}  // namespace lend::test
