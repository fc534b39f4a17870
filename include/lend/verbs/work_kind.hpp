// SPDX-License-Identifier: MIT OR Apache-2.0
// What each kind of work request is. Nothing has a default: a new kind that is not described here
// does not compile. Not for programs. Constants; any thread.
#pragma once

#include <lend/base/work_failure.hpp>
#include <lend/verbs/datagram.hpp>
#include <lend/verbs/datagram_work.hpp>
#include <lend/verbs/work_request.hpp>

#include <cstdint>
#include <optional>
#include <type_traits>

namespace lend::verbs {

/// Of one kind of work: `operation`; `memory`, the member with the list of this side's elements;
/// `remote`, of writes and reads, the member with the peer's, which must permit `access`; `change`,
/// of atomic operations, what they do there; and `destination`, of datagrams, where they go.
template <class Work>
struct WorkKind;

template <>
struct WorkKind<Send> {
  static constexpr Operation operation = Operation::send;
  static constexpr auto memory = &Send::source;
};
template <>
struct WorkKind<Receive> {
  static constexpr Operation operation = Operation::receive;
  static constexpr auto memory = &Receive::target;
};
template <>
struct WorkKind<Write> {
  static constexpr Operation operation = Operation::write;
  static constexpr auto memory = &Write::source;
  static constexpr auto remote = &Write::target;
  static constexpr auto access = RemoteAccess::write;
};
template <>
struct WorkKind<Read> {
  static constexpr Operation operation = Operation::read;
  static constexpr auto memory = &Read::target;
  static constexpr auto remote = &Read::source;
  static constexpr auto access = RemoteAccess::read;
};
template <>
struct WorkKind<Atomic> {
  static constexpr Operation operation = Operation::atomic;
  static constexpr auto memory = &Atomic::result;
  static constexpr auto change = &Atomic::change;
};

template <>
struct WorkKind<AddressedSend> {
  static constexpr Operation operation = Operation::send;
  static constexpr auto memory = &AddressedSend::source;
  static constexpr auto destination = &AddressedSend::to;
};
template <>
struct WorkKind<RoomReceive> {
  static constexpr Operation operation = Operation::receive;
  static constexpr auto memory = &RoomReceive::target;
};

template <class Work>
inline constexpr Operation operation_of = WorkKind<Work>::operation;

/// The memory of this side.
template <class Work>
[[nodiscard]] auto const& list_of(Work const& work) noexcept {
  return work.*WorkKind<Work>::memory;
}

/// Whether it names memory of the peer.
template <class Work>
inline constexpr bool is_remote = requires {
  WorkKind<Work>::remote;
};
template <class Work>
requires is_remote<Work>
[[nodiscard]] RemoteSlice const& remote_of(Work const& work) noexcept {
  return work.*WorkKind<Work>::remote;
}

/// Whether it changes a word of the peer.
template <class Work>
inline constexpr bool is_atomic = requires {
  WorkKind<Work>::change;
};

/// Whether it says itself where it goes.
template <class Work>
inline constexpr bool is_addressed = requires {
  WorkKind<Work>::destination;
};

/// What plain work says of the peer's memory, or where it goes. If it says neither, a type of no
/// words.
struct NoPeerPart {};
template <class Work>
using PeerPart = std::conditional_t<
    is_remote<Work>, RemoteSlice const*,
    std::conditional_t<is_atomic<Work>, AtomicChange const*,
                       std::conditional_t<is_addressed<Work>, Destination const*, NoPeerPart>>>;
template <class Work>
[[nodiscard]] PeerPart<Work> peer_part_of(Work const& work) noexcept {
  if constexpr (is_remote<Work>)
    return &remote_of(work);
  else if constexpr (is_atomic<Work>)
    return &(work.*WorkKind<Work>::change);
  else if constexpr (is_addressed<Work>)
    return work.*WorkKind<Work>::destination;
  else
    return {};
}

/// What `work` brings the peer besides bytes.
template <class Work>
[[nodiscard]] std::optional<std::uint32_t> immediate_of(Work const& work) noexcept {
  if constexpr (requires { work.immediate; })
    return work.immediate;
  else
    return std::nullopt;
}

/// How the device treats `work`.
template <class Work>
[[nodiscard]] RequestOption options_of(Work const& work) noexcept {
  if constexpr (requires { work.options; })
    return work.options;
  else if constexpr (is_atomic<Work>)
    return work.change.options;
  else
    return RequestOption::none;
}

/// Whether it has one element, no immediate and no options, as most work.
template <class Work>
[[nodiscard]] bool may_be_plain(Work const& work) noexcept {
  return list_of(work).size() == 1 && !immediate_of(work).has_value() &&
         options_of(work) == RequestOption::none;
}

/// Whether a list of no elements is meant.
template <class Work>
[[nodiscard]] bool may_be_empty(Work const& work) noexcept {
  if constexpr (requires { work.allow_empty; })
    return work.allow_empty;
  else
    return immediate_of(work).has_value() || has(options_of(work), RequestOption::returning);
}

}  // namespace lend::verbs
