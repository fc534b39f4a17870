// SPDX-License-Identifier: MIT OR Apache-2.0
// How collectives are named.
#include <group/schedule/collective.hpp>
#include <observe/totals.hpp>

namespace lend::group {

std::string_view name_of(Collective collective) noexcept {
  static_assert(static_cast<std::size_t>(Collective::all_to_allv) + 1 ==
                observe::call_names.size());
  auto const number = static_cast<std::size_t>(collective);
  return number < observe::call_names.size() ? observe::call_names[number] : "unknown call";
}

std::string text_of(Collective collective, std::uint64_t bytes) {
  std::string text{name_of(collective)};
  bool const has_length = collective != Collective::barrier && !is_uneven(collective);
  return has_length ? text + " of " + std::to_string(bytes) + " bytes" : text;
}

}  // namespace lend::group
