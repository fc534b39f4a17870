// SPDX-License-Identifier: MIT OR Apache-2.0
// The blocking calls of uneven parts, and scans. The thread of the group.
#include <group/calls/checked_call.hpp>
#include <group/state/group_state.hpp>
#include <lend/group/uneven_calls.hpp>

namespace lend {

using group::bytes_of;
using group::Collective;
using group::Combining;
using group::GivenPlace;
using group::GivenValues;

namespace {

Collective scan_of_kind(bool is_exclusive) noexcept {
  return is_exclusive ? Collective::exscan : Collective::scan;
}

}  // namespace

Result<void> UnevenCalls::gatherv_of(std::uint32_t root, GivenValues own, Lengths lengths,
                                     GivenPlace all, Deadline deadline, SourceLine where) noexcept {
  group::PartCounts const counts{.out = lengths.counts, .unit = lengths.unit};
  LEND_TRY(bytes, bytes_of(own));
  LEND_TRY(place, bytes_of(all));
  return run(checked(where).gatherv(root, bytes, counts, place), own.lent, all.lent, deadline);
}

Result<void> UnevenCalls::scatterv_of(std::uint32_t root, GivenValues all, Lengths lengths,
                                      GivenPlace own, Deadline deadline,
                                      SourceLine where) noexcept {
  group::PartCounts const counts{.in = lengths.counts, .unit = lengths.unit};
  LEND_TRY(bytes, bytes_of(all));
  LEND_TRY(place, bytes_of(own));
  return run(checked(where).scatterv(root, bytes, counts, place), all.lent, own.lent, deadline);
}

Result<void> UnevenCalls::allgatherv_of(GivenValues own, Lengths lengths, GivenPlace all,
                                        Deadline deadline, SourceLine where) noexcept {
  group::PartCounts const counts{.out = lengths.counts, .unit = lengths.unit};
  LEND_TRY(bytes, bytes_of(own));
  LEND_TRY(place, bytes_of(all));
  return run(checked(where).allgatherv(bytes, counts, place), own.lent, all.lent, deadline);
}

Result<void> UnevenCalls::all_to_allv_of(GivenValues from, Lengths sent, GivenPlace to,
                                         Counts received, Deadline deadline,
                                         SourceLine where) noexcept {
  group::PartCounts const counts{.in = sent.counts, .out = received, .unit = sent.unit};
  LEND_TRY(bytes, bytes_of(from));
  LEND_TRY(place, bytes_of(to));
  return run(checked(where).all_to_allv(bytes, counts, place), from.lent, to.lent, deadline);
}

Result<void> UnevenCalls::scan_of(bool is_exclusive, Combining op, GivenPlace values,
                                  Deadline deadline, SourceLine where) noexcept {
  LEND_TRY(place, bytes_of(values));
  return run(checked(where).scan(scan_of_kind(is_exclusive), op, place), {}, values.lent, deadline);
}

Result<void> UnevenCalls::scan_on(std::span<std::byte> value, bool is_exclusive, Combining op,
                                  Deadline deadline, SourceLine where) noexcept {
  LEND_TRY(call, checked(where).scan(scan_of_kind(is_exclusive), op, value));
  return state().run_on_value(*membership_, call, value, deadline);
}

}  // namespace lend
