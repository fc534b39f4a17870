// SPDX-License-Identifier: MIT OR Apache-2.0
// What collectives take: values in a row, and reductions without their type. Any thread.
#pragma once

#include <lend/group/reductions.hpp>

#include <concepts>
#include <cstddef>
#include <ranges>
#include <span>
#include <string_view>
#include <type_traits>

namespace lend {

/// Values in a row, which are sent as they are in memory: a vector, an array, a span.
template <class T>
concept IsValues = std::ranges::contiguous_range<T> && std::ranges::sized_range<T> &&
    std::is_trivially_copyable_v<std::ranges::range_value_t<T>>;
/// Values that can be set.
template <class T>
concept IsPlace =
    IsValues<T> && !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<T>>>;
template <class One, class Other>
concept OfOneType =
    std::same_as<std::ranges::range_value_t<One>, std::ranges::range_value_t<Other>>;
template <class T, class Op>
concept IsPlaceFor = IsPlace<T> && std::same_as < std::ranges::range_value_t<T>,
typename Op::Element > ;

namespace group {

/// A reduction without its type. Borrows the operation.
struct Combining {
  void const* op = nullptr;
  void (*combine)(void const* op, std::byte* into, std::byte const* from,
                  std::size_t elements) noexcept = nullptr;
  std::size_t element_bytes = 1;
  std::string_view name{};
  std::size_t op_bytes = 0;  // of the operation itself
};

/// Rows of constant length, for which compilers use vector instructions at -O2, too.
template <class Element>
inline constexpr std::size_t row_of = sizeof(Element) < 256 ? 256 / sizeof(Element) : 1;
template <IsReduction Op, class Element = typename Op::Element>
inline void combine_row(Op const& op, Element* __restrict into,
                        Element const* __restrict from) noexcept {
  for (std::size_t i = 0; i < row_of<Element>; ++i) op(into[i], from[i]);
}

template <IsReduction Op>
[[nodiscard]] Combining combining(Op const& op) noexcept {
  using Element = typename Op::Element;
  constexpr auto combine = [](void const* erased, std::byte* into, std::byte const* from,
                              std::size_t elements) noexcept {
    auto const& own = *static_cast<Op const*>(erased);
    auto* const values = reinterpret_cast<Element*>(into);
    auto const* const others = reinterpret_cast<Element const*>(from);
    std::size_t i = 0;
    for (; elements - i >= row_of<Element>; i += row_of<Element>)
      combine_row(own, values + i, others + i);
    for (; i < elements; ++i) own(values[i], others[i]);
  };
  return {&op, combine, sizeof(Element), Op::name, sizeof(Op)};
}

template <class Values>
[[nodiscard]] std::span<std::byte> place_of(Values&& values) noexcept {
  return std::as_writable_bytes(std::span{values});
}
template <class Values>
[[nodiscard]] std::span<std::byte const> bytes_of(Values const& values) noexcept {
  return std::as_bytes(std::span{values});
}

}  // namespace group

}  // namespace lend
