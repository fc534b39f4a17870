// error: use of deleted function|call to implicitly-deleted copy constructor
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

lend::MemoryRegion rule(lend::MemoryRegion& memory) {
#ifdef MUST_COMPILE
  return std::move(memory);
#else
  return memory;
#endif
}
