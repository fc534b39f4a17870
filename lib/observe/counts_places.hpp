// SPDX-License-Identifier: MIT OR Apache-2.0
// Where in the file of counts its blocks are. Constants.
#pragma once

#include <observe/counts_file.hpp>
#include <observe/observer.hpp>
#include <observe/tally.hpp>

#include <cstddef>

namespace lend::observe {

[[nodiscard]] constexpr std::size_t rounded_up(std::size_t bytes, std::size_t to) noexcept {
  return (bytes + to - 1) / to * to;
}
inline constexpr std::size_t tallies_begin = rounded_up(sizeof(CountsHeader), 4096);
inline constexpr std::size_t tally_stride = rounded_up(sizeof(Tally), 64);
inline constexpr std::size_t observers_begin =
    rounded_up(tallies_begin + tallies_max * tally_stride, 4096);
inline constexpr std::size_t observer_stride = rounded_up(sizeof(Observer), 64);
inline constexpr std::size_t counts_bytes = observers_begin + observers_max * observer_stride;

}  // namespace lend::observe
