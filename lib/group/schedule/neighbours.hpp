// SPDX-License-Identifier: MIT OR Apache-2.0
// Between which ranks of a group there are links. A value; any thread.
#pragma once

#include <lend/group/group_options.hpp>

#include <bit>
#include <cstdint>

namespace lend::group {

class Neighbours {
 public:
  /// So many ranks are all linked, unless options say otherwise.
  static constexpr std::uint32_t all_linked_max = 64;

  Neighbours(std::uint32_t size, GroupLinks links) noexcept
      : size_{size},
        are_few_{size > 1 && (links == GroupLinks::few ||
                              (links == GroupLinks::by_size && size > all_linked_max))} {}

  /// The schedules of few links are used, also where few happen to be all.
  [[nodiscard]] bool are_few() const noexcept { return are_few_; }
  /// Shape:   ranks of the group.
  [[nodiscard]] bool are_linked(std::uint32_t one, std::uint32_t other) const noexcept {
    if (one == other || !are_few_) return one != other;
    std::uint32_t const apart = one < other ? other - one : one - other;
    return std::has_single_bit(apart) || std::has_single_bit(size_ - apart);
  }

 private:
  std::uint32_t size_;
  bool are_few_;
};

}  // namespace lend::group
