// error: address of stack memory associated with local variable 'many' returned
// SPDX-License-Identifier: MIT OR Apache-2.0
// Only clang sees it, through lifetimebound, of an array: a span says nothing of what it views.
#include <lend/lend.hpp>

#include <array>

#ifdef MUST_COMPILE
lend::GatherList rule(std::array<lend::GatherElement, 5> const& many) {
  return lend::GatherList{many};
}
lend::ScatterList of_span(std::span<lend::ScatterElement const> many) {
  return lend::ScatterList{many};
}
#else
lend::GatherList rule() {
  std::array<lend::GatherElement, 5> const many{};
  return lend::GatherList{many};  // refused
}
lend::ScatterList of_array() {
  lend::ScatterElement const many[5]{};
  return lend::ScatterList{many};  // refused
}
#endif
