// error: use of deleted function|call to deleted member function
// SPDX-License-Identifier: MIT OR Apache-2.0
// It would be gone before the wait begins.
#include <lend/lend.hpp>

using namespace std::chrono_literals;

bool rule(lend::Cancellation const& kept) {
#ifdef MUST_COMPILE
  return lend::within(1s).unless(kept).has_passed();
#else
  static_cast<void>(kept);
  return lend::within(1s).unless(lend::Cancellation{}).has_passed();  // refused
#endif
}
