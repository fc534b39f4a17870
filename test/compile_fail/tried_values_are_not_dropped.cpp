// error: LEND_TRYV\(\) would drop the value
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/group/group.hpp>

lend::Result<void> rule(lend::Group& group, lend::PollingScope& scope, lend::Send const& work) {
#ifdef MUST_COMPILE
  LEND_TRY(total, group.allreduce(lend::sum<double>, 1.5));
  if (total > 2) LEND_TRYV(scope.post_send(work));
#else
  LEND_TRYV(group.allreduce(lend::sum<double>, 1.5));
  LEND_TRYV(scope.post_send(work));
#endif
  return group.barrier();
}
