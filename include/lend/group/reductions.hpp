// SPDX-License-Identifier: MIT OR Apache-2.0
// What a group can combine values by: a sum, a maximum, or an operation of the program's. Values;
// any thread.
#pragma once

#include <lend/base/language.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace lend {

/// An operation on elements that are sent as they are in memory: `op(into, from)` sets `into` to
/// (into op from). It is associative; whether it commutes does not matter, because a group combines
/// in the order of ranks. `name` tells it from others in errors. Elements ask for an alignment of
/// at most 64 bytes.
template <class Op>
concept IsReduction = std::is_trivially_copyable_v<typename Op::Element> &&
                          alignof(typename Op::Element) <= 64 &&
                      requires(Op const& op, typename Op::Element& into,
                               typename Op::Element const& from) {
  { op(into, from) }
  noexcept->std::same_as<void>;
  { Op::name } -> std::convertible_to<std::string_view>;
};
/// A reduction that can be kept until the collective is over.
template <class Op>
concept IsKeptReduction = IsReduction<Op> && std::is_trivially_copyable_v<Op> && sizeof(Op) <= 32 &&
                          alignof(Op) <= 16;
/// A reduction of elements that are short enough for calls on one value.
template <class Op>
concept IsOneReduction = IsReduction<Op> && sizeof(typename Op::Element) <= 64;

namespace group {

/// An operation on one element, from a function on two values.
template <class T, class Combine>
requires std::is_arithmetic_v<T>
struct Elementwise {
  using Element = T;
  static constexpr std::string_view name = Combine::name;
  constexpr void operator()(T& into, T const& from) const noexcept {
    into = static_cast<T>(Combine::of(into, from));
  }
};

struct Sum {
  static constexpr std::string_view name = "sum";
  template <class T>
  static constexpr auto of(T one, T other) noexcept {
    if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) {
      // Wraps around, where the signed sum would be undefined.
      using Unsigned = std::make_unsigned_t<T>;
      return static_cast<T>(
          static_cast<Unsigned>(static_cast<Unsigned>(one) + static_cast<Unsigned>(other)));
    } else {
      return one + other;
    }
  }
};
struct Product {
  static constexpr std::string_view name = "product";
  template <class T>
  static constexpr auto of(T one, T other) noexcept {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      // 64 bits: shorter unsigned types would be promoted to int.
      return static_cast<T>(static_cast<std::uint64_t>(one) * static_cast<std::uint64_t>(other));
    } else {
      return one * other;
    }
  }
};
struct Min {
  static constexpr std::string_view name = "min";
  template <class T>
  static constexpr T of(T one, T other) noexcept {
    return other < one ? other : one;
  }
};
struct Max {
  static constexpr std::string_view name = "max";
  template <class T>
  static constexpr T of(T one, T other) noexcept {
    return one < other ? other : one;
  }
};
struct BitAnd {
  static constexpr std::string_view name = "bitwise and";
  template <class T>
  static constexpr auto of(T one, T other) noexcept {
    return one & other;
  }
};
struct BitOr {
  static constexpr std::string_view name = "bitwise or";
  template <class T>
  static constexpr auto of(T one, T other) noexcept {
    return one | other;
  }
};
struct BitXor {
  static constexpr std::string_view name = "bitwise xor";
  template <class T>
  static constexpr auto of(T one, T other) noexcept {
    return one ^ other;
  }
};

}  // namespace group

/// Integers wrap around.
template <class T>
inline constexpr group::Elementwise<T, group::Sum> sum{};
template <class T>
inline constexpr group::Elementwise<T, group::Product> product{};
template <class T>
inline constexpr group::Elementwise<T, group::Min> min{};
template <class T>
inline constexpr group::Elementwise<T, group::Max> max{};
template <std::integral T>
inline constexpr group::Elementwise<T, group::BitAnd> bit_and{};
template <std::integral T>
inline constexpr group::Elementwise<T, group::BitOr> bit_or{};
template <std::integral T>
inline constexpr group::Elementwise<T, group::BitXor> bit_xor{};

/// A value and the rank that has it.
template <class T>
requires std::is_arithmetic_v<T>
struct At {
  T value{};
  std::uint32_t rank = 0;

  friend bool operator==(At const&, At const&) = default;
};

namespace group {

/// The value that is before all others; of equals that of the lowest rank.
template <class T, class Before>
struct FirstAt {
  using Element = At<T>;
  static constexpr std::string_view name = Before::name;
  constexpr void operator()(Element& into, Element const& from) const noexcept {
    bool const is_equal =
        !Before::is(into.value, from.value) && !Before::is(from.value, into.value);
    if (Before::is(from.value, into.value) || (is_equal && from.rank < into.rank)) into = from;
  }
};

struct Less {
  static constexpr std::string_view name = "min with rank";
  template <class T>
  static constexpr bool is(T one, T other) noexcept {
    return one < other;
  }
};
struct Greater {
  static constexpr std::string_view name = "max with rank";
  template <class T>
  static constexpr bool is(T one, T other) noexcept {
    return other < one;
  }
};

}  // namespace group

/// The lowest of values, and the rank that has it; of equals the lowest rank:
///
///     LEND_TRY(worst, group.allreduce(max_at<double>, At<double>{residual, group.rank()}));
///
/// A NaN is equal to every value: the result is then one of them.
template <class T>
inline constexpr group::FirstAt<T, group::Less> min_at{};
/// The highest of values, and the rank that has it, as min_at().
template <class T>
inline constexpr group::FirstAt<T, group::Greater> max_at{};

}  // namespace lend
