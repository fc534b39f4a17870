// error: cannot bind non-const lvalue reference|expects an lvalue|no matching
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/group.hpp>

lend::Group next_group();

void rule(lend::Group& group) {
#ifdef MUST_COMPILE
  lend::GroupScope scope{group};
#else
  lend::GroupScope scope{next_group()};
#endif
  static_cast<void>(scope.finish());
  static_cast<void>(group.size());
}
