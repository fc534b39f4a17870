// SPDX-License-Identifier: MIT OR Apache-2.0
// What collectives take: values in a row or of registered memory, and reductions without their
// type. Any thread.
#pragma once

#include <lend/group/collective.hpp>
#include <lend/group/reductions.hpp>
#include <lend/verbs/memory_piece.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <string_view>
#include <type_traits>

namespace lend {

/// How many values each rank's part has, in the order of ranks; of registered memory, bytes.
using Counts = std::span<std::uint32_t const>;

namespace group {

template <class T>
concept IsRow = std::ranges::contiguous_range<T> && std::ranges::sized_range<T> &&
    std::is_trivially_copyable_v<std::ranges::range_value_t<T>>;
template <class T, class Element>
concept IsElement = std::same_as<std::remove_cvref_t<T>, Element>;

}  // namespace group

/// Values that are sent as they are in memory: a row of them, which is a vector, an array or a
/// span; or those of registered memory.
template <class T>
concept IsValues = group::IsRow<T> || group::IsElement<T, GatherElement>;
/// Values that can be set.
template <class T>
concept IsPlace = group::IsElement<T, ScatterElement> ||
    (group::IsRow<T> &&
     !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<T>>>);
/// One value that is sent as it is in memory.
template <class T>
concept IsOneValue = std::is_trivially_copyable_v<T> && sizeof(T) <= 64 && !std::is_pointer_v<T> &&
                     !std::ranges::range<T> && !group::IsElement<T, GatherElement> &&
                     !group::IsElement<T, ScatterElement>;
/// A row of such values that can be set.
template <class T, class Value>
concept IsPlaceOf =
    IsPlace<T> && group::IsRow<T> && std::same_as<std::ranges::range_value_t<T>, Value>;
/// Rows of the same type, or both of registered memory.
template <class One, class Other>
concept OfOneType =
    (group::IsElement<One, GatherElement> && group::IsElement<Other, ScatterElement>) ||
    (group::IsRow<One> && group::IsRow<Other> &&
     std::same_as<std::ranges::range_value_t<One>, std::ranges::range_value_t<Other>>);
template <class T, class Op>
concept IsPlaceFor = IsPlace<T> &&
    ((group::IsElement<T, ScatterElement> && IsKeptReduction<Op>) ||
     (group::IsRow<T> && std::same_as<std::ranges::range_value_t<T>, typename Op::Element>));

namespace group {

/// A row; or a part of registered memory, which is lent.
struct GivenValues {
  std::span<std::byte const> row{};
  GatherElement lent{};
  bool is_one = false;  ///< a value, of which the group keeps a copy until the call is over
};
struct GivenPlace {
  std::span<std::byte> row{};
  ScatterElement lent{};
  bool is_one = false;  ///< likewise
};
template <IsValues Values>
[[nodiscard]] GivenValues given_values(Values const& values) noexcept {
  if constexpr (IsElement<Values, GatherElement>)
    return {.lent = values};
  else
    return {.row = std::as_bytes(std::span{values})};
}
template <IsPlace Values>
[[nodiscard]] GivenPlace given_place(Values&& values) noexcept {
  if constexpr (IsElement<Values, ScatterElement>)
    return {.lent = values};
  else
    return {.row = std::as_writable_bytes(std::span{values})};
}
/// One value.
template <class T>
[[nodiscard]] GivenValues given_value(T const& value) noexcept {
  return {.row = std::as_bytes(std::span{&value, 1}), .is_one = true};
}
template <class T>
[[nodiscard]] GivenPlace given_value(T& value) noexcept {
  return {.row = std::as_writable_bytes(std::span{&value, 1}), .is_one = true};
}
/// What parts are multiples of.
template <IsValues Values>
[[nodiscard]] constexpr std::size_t unit_of() noexcept {
  if constexpr (IsElement<Values, GatherElement>)
    return 1;
  else
    return sizeof(std::ranges::range_value_t<Values>);
}

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

/// How long parts are, by ranks, in units of so many bytes. No counts: all of it is one part.
struct PartCounts {
  Counts in{}, out{};
  std::size_t unit = 1;
};

/// What a rank gives to a collective. Borrows all of it.
struct GivenCall {
  Collective collective{};
  std::uint32_t root = 0;
  GivenValues in{};  ///< what it sends, unless that lies in `out`
  GivenPlace out{};  ///< where it receives
  Combining op{};
  PartCounts counts{};  ///< none where parts are equal
};

}  // namespace group

}  // namespace lend
