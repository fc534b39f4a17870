// error: has no member named .solicited|no member named 'solicited'
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

#ifdef MUST_COMPILE
using Work = lend::Send;
#else
using Work = lend::Read;
#endif

Work rule(Work const& work) {
  return work.solicited();
}
