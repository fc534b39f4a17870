// error: use of deleted function|call to (implicitly-)?deleted|implicitly deleted
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

#include <utility>

lend::PeerLoan rule(lend::PeerLoan& loan) {
#ifdef MUST_COMPILE
  return std::move(loan);
#else
  return loan;
#endif
}
