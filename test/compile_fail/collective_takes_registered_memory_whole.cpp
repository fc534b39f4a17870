// error: no matching (member )?function
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/group.hpp>

#include <vector>

lend::Result<void> rule(lend::Group& group, lend::MemoryRegion& own, lend::MemoryRegion& all,
                        std::vector<std::byte>& row) {
#ifdef MUST_COMPILE
  static_cast<void>(row);
  return group.allgather(own.gather(), all.scatter());
#else
  static_cast<void>(all);
  return group.allgather(own.gather(), row);
#endif
}
