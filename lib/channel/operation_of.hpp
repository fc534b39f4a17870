// SPDX-License-Identifier: MIT OR Apache-2.0
// What a work request does, by its type. Constants; any thread.
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

}  // namespace lend
