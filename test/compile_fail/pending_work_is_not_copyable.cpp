// error: use of deleted function|call to (implicitly-deleted copy|deleted) constructor
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

void rule(lend::PendingWork& work) {
#ifdef MUST_COMPILE
  lend::PendingWork other{std::move(work)};
#else
  lend::PendingWork other{work};
#endif
  static_cast<void>(other.poll());
}
