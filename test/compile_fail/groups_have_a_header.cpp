// error: class Group; +// lend/group.hpp, liblend-group
// SPDX-License-Identifier: MIT OR Apache-2.0
// A program with groups includes lend/group.hpp: the compiler shows the line that says so.
#ifdef MUST_COMPILE
#include <lend/group.hpp>
#else
#include <lend/lend.hpp>
#endif

lend::Result<void> rule(lend::Group& group) {
  return group.barrier(lend::Deadline::never());
}
