// SPDX-License-Identifier: MIT OR Apache-2.0
// Work requests: send, receive, write, read, atomic. Own nothing. Values; any thread.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/verbs/memory_region.hpp>
#include <lend/verbs/remote_region.hpp>
#include <lend/verbs/remote_span.hpp>

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
    // One by one, so that a compiler may keep them in registers.
    std::size_t i = 0;
    std::construct_at(&few_[i], first);
    (std::construct_at(&few_[++i], rest), ...);
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
  /// The only element of a list of one.
  [[nodiscard]] Element only() const noexcept { return many_ != nullptr ? *many_ : few_[0]; }
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

/// How the device treats one request of the send queue.
enum class RequestOption : std::uint8_t {
  none = 0,
  fenced = 1,     ///< begins when the reads and atomic operations before it have ended
  solicited = 2,  ///< its completion at the peer is one for which EventFor::solicited arms
  returning = 4,  ///< it ends a memory window of the peer
};
[[nodiscard]] constexpr RequestOption operator|(RequestOption a, RequestOption b) noexcept {
  return static_cast<RequestOption>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
/// Whether `options` have `option`.
[[nodiscard]] constexpr bool has(RequestOption options, RequestOption option) noexcept {
  return (static_cast<unsigned>(options) & static_cast<unsigned>(option)) != 0;
}

/// A message to the peer's next receive. An empty list needs an immediate, or something to return;
/// a list of empty elements does not.
struct LEND_EXPORT Send {
  GatherList source;
  std::optional<std::uint32_t> immediate{};
  RequestOption options = RequestOption::none;
  std::uint32_t returned_key = 0;  ///< of a message that is returning()

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
  /// The same, which begins only when the reads and atomic operations posted here before it have
  /// ended; so its bytes are not copied as it is posted. Of reliable connections.
  /// Source:  ibv_post_send(3), IBV_SEND_FENCE; InfiniBand Architecture Specification vol. 1,
  ///          10.8.3.3.
  [[nodiscard]] Send fenced() const noexcept {
    Send copy(*this);
    copy.options = options | RequestOption::fenced;
    return copy;
  }
  /// The same, for which a peer wakes that is armed for solicited completions only.
  /// Source:  ibv_post_send(3), IBV_SEND_SOLICITED; ibv_req_notify_cq(3).
  [[nodiscard]] Send solicited() const noexcept {
    Send copy(*this);
    copy.options = options | RequestOption::solicited;
    return copy;
  }
  /// The same, which also returns `lent`: bytes that the peer has lent by PollingScope::post_lend()
  /// or opened by a MemoryWindow. From the completion of its receive on they are the peer's alone.
  /// Of reliable connections; it carries no immediate. The trap: what was not lent, or has been
  /// returned before, breaks the peer's end of the connection, and this end hears of it by its next
  /// request.
  /// Source:  ibv_post_send(3), IBV_WR_SEND_WITH_INV; Linux drivers/infiniband/sw/rxe/rxe_resp.c.
  [[nodiscard]] Send returning(RemoteRegion const& lent) const noexcept {
    Send copy(*this);
    copy.options = options | RequestOption::returning;
    copy.returned_key = lent.key();
    return copy;
  }
  /// A message without bytes.
  [[nodiscard]] static Send only_immediate(std::uint32_t value) noexcept {
    return Send(GatherList{}).with_immediate(value);
  }
  [[nodiscard]] static Send only_returning(RemoteRegion const& lent) noexcept {
    return Send(GatherList{}).returning(lent);
  }
};

/// Memory for one message from the peer.
struct LEND_EXPORT Receive {
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
struct LEND_EXPORT Write {
  GatherList source;
  RemoteSlice target;
  std::optional<std::uint32_t> immediate{};
  RequestOption options = RequestOption::none;

  Write(GatherList from, RemoteSlice to) noexcept : source(from), target(to) {}
  template <class T>
  Write(GatherList from, RemoteSpan<T const> to) = delete;  // values that are only read
  [[nodiscard]] Write with_immediate(std::uint32_t value) const noexcept {
    Write copy(*this);
    copy.immediate = value;
    return copy;
  }
  /// As Send::fenced().
  [[nodiscard]] Write fenced() const noexcept {
    Write copy(*this);
    copy.options = options | RequestOption::fenced;
    return copy;
  }
  /// As Send::solicited(). It needs an immediate, without which the peer has no completion.
  [[nodiscard]] Write solicited() const noexcept {
    Write copy(*this);
    copy.options = options | RequestOption::solicited;
    return copy;
  }
};

/// Reads memory that the peer has exposed.
struct LEND_EXPORT Read {
  ScatterList target;
  RemoteSlice source;
  RequestOption options = RequestOption::none;

  Read(ScatterList into, RemoteSlice from) noexcept : target(into), source(from) {}
  /// As Send::fenced().
  [[nodiscard]] Read fenced() const noexcept {
    Read copy(*this);
    copy.options = options | RequestOption::fenced;
    return copy;
  }
};

/// What an Atomic does to the peer's word.
struct LEND_EXPORT AtomicChange {
  enum class Kind : std::uint8_t { compare_swap, fetch_add };

  RemoteWord word;
  std::uint64_t compare_or_add;
  std::uint64_t swap;
  Kind kind;
  RequestOption options = RequestOption::none;  // beside `kind`, so that one store sets both
};

/// Changes 8 bytes of the peer's in one step, and brings what they were before. The peer's device
/// executes it: no two of them, of any queue pairs of that device, overlap. Whether the peer's own
/// std::atomic takes part depends on the device; on the soft device it does in memory of
/// allocate().
///
/// Shape:   `result` is 8 aligned bytes; values are in the byte order of this host.
/// Source:  ibv_post_send(3); InfiniBand Architecture Specification vol. 1, 9.4.5.
struct LEND_EXPORT Atomic {
  /// Sets the word to `desired` if it is `expected`. It was if `result` says so.
  [[nodiscard]] static Atomic compare_swap(ScatterElement result, RemoteWord word,
                                           std::uint64_t expected, std::uint64_t desired) noexcept {
    return {result, {word, expected, desired, AtomicChange::Kind::compare_swap}};
  }
  /// Adds, modulo 2^64.
  [[nodiscard]] static Atomic fetch_add(ScatterElement result, RemoteWord word,
                                        std::uint64_t addend) noexcept {
    return {result, {word, addend, 0, AtomicChange::Kind::fetch_add}};
  }

  /// As Send::fenced().
  [[nodiscard]] Atomic fenced() const noexcept {
    Atomic copy(*this);
    copy.change.options = change.options | RequestOption::fenced;
    return copy;
  }

  ScatterList result;
  AtomicChange change;
};

}  // namespace lend
