// error: no matching (member )?function
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/group.hpp>

#include <vector>

lend::Result<void> rule(lend::Group& group, std::vector<double>& values) {
#ifdef MUST_COMPILE
  return group.allreduce(lend::sum<double>, values);
#else
  return group.allreduce(lend::sum<float>, values);
#endif
}
