// error: use of deleted function|call to (deleted|implicitly-deleted copy) constructor
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

lend::Exposure rule(lend::Exposure& exposure) {
#ifdef MUST_COMPILE
  return std::move(exposure);
#else
  return exposure;
#endif
}
