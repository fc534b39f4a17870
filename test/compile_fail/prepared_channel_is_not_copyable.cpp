// error: use of deleted function|call to implicitly-deleted copy constructor
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

lend::PreparedChannel rule(lend::PreparedChannel& prepared) {
#ifdef MUST_COMPILE
  return std::move(prepared);
#else
  return prepared;
#endif
}
