// SPDX-License-Identifier: MIT OR Apache-2.0
// What a work request does and with which memory, by its type. Any thread.
#pragma once

#include <lend/base/work_failure.hpp>
#include <lend/verbs/work_request.hpp>

namespace lend {

template <class Work>
inline constexpr Operation operation_of = Operation::send;
template <>
inline constexpr Operation operation_of<Receive> = Operation::receive;
template <>
inline constexpr Operation operation_of<Write> = Operation::write;
template <>
inline constexpr Operation operation_of<Read> = Operation::read;

/// The memory of this side.
template <class Work>
[[nodiscard]] auto const& list_of(Work const& work) noexcept {
  if constexpr (operation_of<Work> == Operation::receive || operation_of<Work> == Operation::read)
    return work.target;
  else
    return work.source;
}

}  // namespace lend
