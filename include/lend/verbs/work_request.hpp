// SPDX-License-Identifier: MIT OR Apache-2.0
// Work requests: send, receive, write, read. Own nothing. Values; any thread.
#pragma once

#include <lend/base/lifetime.hpp>
#include <lend/verbs/memory_region.hpp>
#include <lend/verbs/remote_region.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>  // and std::ranges::enable_borrowed_range

namespace lend {

/// Up to four elements by value, or a view of the caller's array, which must outlive it.
template <class Element>
class ElementList {
 public:
  static constexpr std::size_t by_value_max = 4;

  ElementList() noexcept {}
  // NOLINTBEGIN(google-explicit-constructor): so that send(memory.gather(0, 5)) reads as it does.
  template <std::same_as<Element>... Rest>
  requires(sizeof...(Rest) < by_value_max) ElementList(Element first, Rest... rest)
  noexcept : count_{1 + sizeof...(Rest)} {
    Element* next = few_;
    for (Element const& each : {first, rest...}) std::construct_at(next++, each);
  }
  ElementList(std::span<Element const> many LEND_LIFETIMEBOUND) noexcept
      : many_{many.data()}, count_{many.size()} {}
  /// The same for an array or vector, so that clang warns about a local one.
  template <class Array>
  requires std::convertible_to<Array const&, std::span<Element const>> &&
      (!std::ranges::enable_borrowed_range<Array>)
          ElementList(Array const& many LEND_LIFETIMEBOUND) noexcept
      : ElementList{std::span<Element const>{many}} {}
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] std::span<Element const> elements() const noexcept {
    return {many_ != nullptr ? many_ : few_, count_};
  }
  /// Sum of the lengths.
  [[nodiscard]] std::uint64_t bytes() const noexcept {
    std::uint64_t sum = 0;
    for (auto const& element : elements()) sum += element.range.length;
    return sum;
  }

 private:
  union {  // unused elements are not initialised, which would take longer than posting
    Element few_[by_value_max];
  };
  Element const* many_ = nullptr;
  std::size_t count_ = 0;
};

using GatherList = ElementList<GatherElement>;
using ScatterList = ElementList<ScatterElement>;

/// A message to the peer's next receive. An empty list needs an immediate; a list of empty elements
/// does not.
struct Send {
  GatherList source;
  std::optional<std::uint32_t> immediate{};

  // NOLINTNEXTLINE(google-explicit-constructor)
  Send(GatherList list) noexcept : source(list) {}
  template <std::same_as<GatherElement>... Rest>
  requires(sizeof...(Rest) < GatherList::by_value_max)
      // NOLINTNEXTLINE(google-explicit-constructor)
      Send(GatherElement first, Rest... rest)
  noexcept : source(first, rest...) {}

  [[nodiscard]] Send with_immediate(std::uint32_t value) const noexcept {
    Send copy(*this);
    copy.immediate = value;
    return copy;
  }
  /// A message without bytes.
  [[nodiscard]] static Send only_immediate(std::uint32_t value) noexcept {
    return Send(GatherList{}).with_immediate(value);
  }
};

/// Memory for one message from the peer.
struct Receive {
  ScatterList target;

  // NOLINTNEXTLINE(google-explicit-constructor)
  Receive(ScatterList list) noexcept : target(list) {}
  template <std::same_as<ScatterElement>... Rest>
  requires(sizeof...(Rest) < ScatterList::by_value_max)
      // NOLINTNEXTLINE(google-explicit-constructor)
      Receive(ScatterElement first, Rest... rest)
  noexcept : target(first, rest...) {}

  /// For a message without bytes: a send or write with an immediate.
  [[nodiscard]] static Receive only_immediate() noexcept {
    Receive receive(ScatterList{});
    receive.allow_empty = true;
    return receive;
  }
  bool allow_empty = false;
};

/// Writes into memory that the peer has exposed. With an immediate it consumes one of the peer's
/// receives; without, the peer's program gets no completion.
struct Write {
  GatherList source;
  RemoteSlice target;
  std::optional<std::uint32_t> immediate{};

  Write(GatherList from, RemoteSlice to) noexcept : source(from), target(to) {}
  [[nodiscard]] Write with_immediate(std::uint32_t value) const noexcept {
    Write copy(*this);
    copy.immediate = value;
    return copy;
  }
};

/// Reads memory that the peer has exposed.
struct Read {
  ScatterList target;
  RemoteSlice source;

  Read(ScatterList into, RemoteSlice from) noexcept : target(into), source(from) {}
};

}  // namespace lend
