// SPDX-License-Identifier: MIT OR Apache-2.0
// What each kind of work request is, and how its memory is lent. Nothing has a default: a new kind
// that is not described here does not compile. Constants; any thread.
#pragma once

#include <base/borrow.hpp>
#include <lend/base/work_failure.hpp>
#include <lend/verbs/work_request.hpp>

#include <infiniband/verbs.h>

namespace lend::verbs {

/// Of one kind of work: `operation`; `memory`, the member with the list of this side's elements;
/// and `Request`, its form in verbs, which tells the queue.
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
  using Request = ibv_send_wr;
};
template <>
struct WorkKind<Read> {
  static constexpr Operation operation = Operation::read;
  static constexpr auto memory = &Read::target;
  using Request = ibv_send_wr;
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

/// How an element's bytes are lent.
template <class Element>
struct ElementKind;

template <>
struct ElementKind<GatherElement> {
  static constexpr base::LoanKind loan = base::LoanKind::shared;  // the device reads
};
template <>
struct ElementKind<ScatterElement> {
  static constexpr base::LoanKind loan = base::LoanKind::exclusive;  // and writes
};

}  // namespace lend::verbs
