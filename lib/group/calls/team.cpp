// SPDX-License-Identifier: MIT OR Apache-2.0
// The blocking calls. The thread of the group.
#include <group/calls/checked_call.hpp>
#include <group/state/group_state.hpp>
#include <lend/group/team.hpp>

namespace lend {

using group::bytes_of;
using group::Combining;
using group::GivenPlace;
using group::GivenValues;

Result<void> Team::barrier(Deadline deadline, SourceLine where) noexcept {
  return state().run(*membership_, checked(where).barrier(), deadline);
}

Result<void> Team::broadcast_of(std::uint32_t root, GivenPlace values, Deadline deadline,
                                SourceLine where) noexcept {
  LEND_TRY(place, bytes_of(values));
  return run(checked(where).broadcast(root, place), {}, values.lent, deadline);
}

Result<void> Team::gather_of(std::uint32_t root, GivenValues own, GivenPlace all, Deadline deadline,
                             SourceLine where) noexcept {
  LEND_TRY(bytes, bytes_of(own));
  LEND_TRY(place, bytes_of(all));
  return run(checked(where).gather(root, bytes, place), own.lent, all.lent, deadline);
}

Result<void> Team::scatter_of(std::uint32_t root, GivenValues all, GivenPlace own,
                              Deadline deadline, SourceLine where) noexcept {
  LEND_TRY(bytes, bytes_of(all));
  LEND_TRY(place, bytes_of(own));
  return run(checked(where).scatter(root, bytes, place), all.lent, own.lent, deadline);
}

Result<void> Team::allgather_of(GivenValues own, GivenPlace all, Deadline deadline,
                                SourceLine where) noexcept {
  LEND_TRY(bytes, bytes_of(own));
  LEND_TRY(place, bytes_of(all));
  return run(checked(where).allgather(bytes, place), own.lent, all.lent, deadline);
}

Result<void> Team::allgather_value(std::span<std::byte const> own, std::span<std::byte> all,
                                   Deadline deadline, SourceLine where) noexcept {
  LEND_TRY(call, checked(where).allgather(own, all));
  return state().run_from_value(*membership_, call, deadline);
}

Result<void> Team::all_to_all_of(GivenValues from, GivenPlace to, std::size_t unit,
                                 Deadline deadline, SourceLine where) noexcept {
  LEND_TRY(bytes, bytes_of(from));
  LEND_TRY(place, bytes_of(to));
  return run(checked(where).all_to_all(bytes, place, unit), from.lent, to.lent, deadline);
}

Result<void> Team::reduce_of(std::uint32_t root, Combining op, GivenPlace values, Deadline deadline,
                             SourceLine where) noexcept {
  LEND_TRY(place, bytes_of(values));
  return run(checked(where).reduce(root, op, place), {}, values.lent, deadline);
}

Result<void> Team::allreduce_of(Combining op, GivenPlace values, Deadline deadline,
                                SourceLine where) noexcept {
  LEND_TRY(place, bytes_of(values));
  return run(checked(where).allreduce(op, place), {}, values.lent, deadline);
}

Result<void> Team::call_on(std::span<std::byte> value, std::optional<std::uint32_t> root,
                           Combining op, Deadline deadline, SourceLine where) noexcept {
  auto const calls = checked(where);
  LEND_TRY(call, op.combine == nullptr ? calls.broadcast(*root, value)
                 : root                ? calls.reduce(*root, op, value)
                                       : calls.allreduce(op, value));
  return state().run_on_value(*membership_, call, value, deadline);
}

Result<void> Team::reduce_scatter_of(Combining op, GivenValues values, GivenPlace own,
                                     Deadline deadline, SourceLine where) noexcept {
  LEND_TRY(bytes, bytes_of(values));
  LEND_TRY(place, bytes_of(own));
  return run(checked(where).reduce_scatter(op, bytes, place), values.lent, own.lent, deadline);
}

}  // namespace lend
