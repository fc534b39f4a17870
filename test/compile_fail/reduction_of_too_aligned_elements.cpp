// error: IsReduction
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/group.hpp>

#include <cstddef>
#include <string_view>
#include <vector>

template <std::size_t Alignment>
struct Wide {
  struct alignas(Alignment) Element {
    float value;
  };
  static constexpr std::string_view name = "wide sum";
  void operator()(Element& into, Element const& from) const noexcept { into.value += from.value; }
};

lend::Result<void> rule(lend::Group& group) {
#ifdef MUST_COMPILE
  using Sum = Wide<64>;
#else
  using Sum = Wide<128>;
#endif
  std::vector<Sum::Element> values(8);
  return group.allreduce(Sum{}, values);
}
