// error: HasAtomics
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

#ifdef MUST_COMPILE
using Scope = lend::PollingScope;
#else
using Scope = lend::UnreliableScope;
#endif

bool rule(Scope& scope, lend::Atomic const& work) {
  return scope.post_atomic(work).has_value();
}
