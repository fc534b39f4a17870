// SPDX-License-Identifier: MIT OR Apache-2.0
// How collectives are named.
#include <group/schedule/collective.hpp>
#include <observe/totals.hpp>

namespace lend::group {

static_assert(layouts.size() == observe::call_names.size());

std::string_view name_of(Collective collective) noexcept {
  auto const number = static_cast<std::size_t>(collective);
  return number < observe::call_names.size() ? observe::call_names[number] : "unknown call";
}

std::string text_of(Collective collective, std::uint64_t bytes) {
  std::string text{name_of(collective)};
  bool const is_known = static_cast<std::size_t>(collective) < layouts.size();
  bool const has_length =
      is_known && layout_of(collective).out != Parts::none && !layout_of(collective).is_uneven();
  return has_length ? text + " of " + std::to_string(bytes) + " bytes" : text;
}

}  // namespace lend::group
