// SPDX-License-Identifier: MIT OR Apache-2.0
// What each kind of work request is. Nothing has a default: a new kind that is not described here
// does not compile. Constants; any thread.
#pragma once

#include <lend/base/work_failure.hpp>
#include <lend/verbs/datagram_work.hpp>
#include <lend/verbs/work_request.hpp>

#include <infiniband/verbs.h>
#include <cstdint>
#include <optional>

namespace lend::verbs {

/// Of one kind of work: `operation`; `memory`, the member with the list of this side's elements;
/// `remote`, of writes and reads, the member with the peer's, which must permit `access`; `change`,
/// of atomic operations, what they do there; `destination`, of datagrams, where they go; and
/// `Request`, its form in verbs, which tells the queue.
template <class Work>
struct WorkKind;

template <>
struct WorkKind<Send> {
  static constexpr Operation operation = Operation::send;
  static constexpr auto memory = &Send::source;
  using Request = ibv_send_wr;
};
template <>
struct WorkKind<Receive> {
  static constexpr Operation operation = Operation::receive;
  static constexpr auto memory = &Receive::target;
  using Request = ibv_recv_wr;
};
template <>
struct WorkKind<Write> {
  static constexpr Operation operation = Operation::write;
  static constexpr auto memory = &Write::source;
  static constexpr auto remote = &Write::target;
  static constexpr auto access = RemoteAccess::write;
  using Request = ibv_send_wr;
};
template <>
struct WorkKind<Read> {
  static constexpr Operation operation = Operation::read;
  static constexpr auto memory = &Read::target;
  static constexpr auto remote = &Read::source;
  static constexpr auto access = RemoteAccess::read;
  using Request = ibv_send_wr;
};
template <>
struct WorkKind<Atomic> {
  static constexpr Operation operation = Operation::atomic;
  static constexpr auto memory = &Atomic::result;
  static constexpr auto change = &Atomic::change;
  using Request = ibv_send_wr;
};

template <>
struct WorkKind<AddressedSend> {
  static constexpr Operation operation = Operation::send;
  static constexpr auto memory = &AddressedSend::source;
  static constexpr auto destination = &AddressedSend::to;
  using Request = ibv_send_wr;
};
template <>
struct WorkKind<RoomReceive> {
  static constexpr Operation operation = Operation::receive;
  static constexpr auto memory = &RoomReceive::target;
  using Request = ibv_recv_wr;
};

template <class Work>
inline constexpr Operation operation_of = WorkKind<Work>::operation;
template <class Work>
using RequestOf = typename WorkKind<Work>::Request;

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

/// Whether a list of no elements is meant.
template <class Work>
[[nodiscard]] bool may_be_empty(Work const& work) noexcept {
  if constexpr (requires { work.allow_empty; })
    return work.allow_empty;
  else
    return immediate_of(work).has_value() || has(options_of(work), RequestOption::returning);
}

}  // namespace lend::verbs
