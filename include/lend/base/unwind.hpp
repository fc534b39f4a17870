// SPDX-License-Identifier: MIT OR Apache-2.0
// Why a scope is being left. Belongs to one thread.
#pragma once

#include <lend/base/language.hpp>

#include <exception>

namespace lend {

/// Made on entry; tells on exit whether an exception thrown since then is unwinding the stack.
///
/// Compares counts: `std::uncaught_exceptions() > 0` alone is wrong for a scope inside a
/// destructor that itself runs during an unrelated unwind.
class UnwindDetector {
 public:
  [[nodiscard]] bool is_unwinding() const noexcept {
    return std::uncaught_exceptions() > at_entry_;
  }

 private:
  int at_entry_ = std::uncaught_exceptions();
};

}  // namespace lend
