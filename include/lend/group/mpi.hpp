// SPDX-License-Identifier: MIT OR Apache-2.0
// The ranks of an MPI program as a group: MPI carries their cards. Needs <mpi.h> of MPI 3; lend.hpp
// does not include this. The thread that may call MPI.
#pragma once

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1  // the C++ bindings of MPI 2, which do not compile without warnings
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>
#include <lend/group/group.hpp>
#include <lend/group/group_options.hpp>
#include <lend/group/prepared_group.hpp>
#include <lend/group/rank_card.hpp>
#include <lend/verbs/protection_domain.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// MPI's constants are old casts.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"

namespace lend {

namespace group {

inline Result<void> mpi_succeeded(int code, char const* call) {
  if (code == MPI_SUCCESS) return success();
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  static_cast<void>(MPI_Error_string(code, text.data(), &length));
  return Error{Errc::system_failed, std::string{call} + ": " + text.data()};
}

/// What a nonblocking call of MPI sends and fills; it is MPI's until the request is complete.
struct MpiCall {
  std::vector<std::byte> ours{}, theirs{};
  MPI_Request request = MPI_REQUEST_NULL;
};

/// Errors:  timed_out, cancelled  the call is not complete, and its memory stays MPI's for good.
///          system_failed         MPI_Test failed; likewise.
inline Result<void> finish(std::unique_ptr<MpiCall>& call, Deadline deadline) {
  for (int is_complete = 0;;) {
    MPI_Status status;
    auto tested = mpi_succeeded(MPI_Test(&call->request, &is_complete, &status), "MPI_Test");
    if (!tested) static_cast<void>(call.release());
    if (!tested || is_complete != 0) return tested;
    if (deadline.has_passed()) break;
    std::this_thread::yield();
  }
  static_cast<void>(call.release());
  return Error{deadline.is_cancelled() ? Errc::cancelled : Errc::timed_out,
               "not all ranks of the communicator have called join_over(), or one of them gave up; "
               "this one has told the others that it gave up"};
}

/// "rank 3" or "ranks 3, 5".
inline std::string names_of(std::vector<std::uint32_t> const& ranks) {
  std::string names = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i)
    names += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return names;
}

/// What one rank tells another: whether it is prepared, with which options, and its card.
struct MpiRow {
  static constexpr std::size_t card_at = 10, bytes = card_at + RankCard::encoded_size;

  static void write(std::span<std::byte> row, RankCard const& card, GroupOptions const& options) {
    row[0] = std::byte{1};
    std::ranges::copy(encode(options), row.begin() + 1);
    std::ranges::copy(card.encode(), row.begin() + card_at);
  }
  static bool is_prepared(std::span<std::byte const> row) { return row[0] == std::byte{1}; }
  static bool has(std::span<std::byte const> row, GroupOptions const& options) {
    return std::ranges::equal(row.subspan(1, card_at - 1), encode(options));
  }
  static std::array<std::byte, card_at - 1> encode(GroupOptions const& options) {
    std::array<std::byte, card_at - 1> encoded{};
    for (std::size_t i = 0; i < 4; ++i) {
      encoded[i] = static_cast<std::byte>(options.message_bytes >> 8 * i);
      encoded[4 + i] = static_cast<std::byte>(options.window >> 8 * i);
    }
    encoded.back() = static_cast<std::byte>(options.links);
    return encoded;
  }
};

/// Connects `prepared` by the rows of all ranks.
inline Result<Group> connect_by_rows(PreparedGroup prepared, std::uint32_t rank,
                                     std::span<std::byte const> rows, GroupOptions const& options,
                                     Deadline deadline) {
  std::vector<RankCard> cards(rows.size() / MpiRow::bytes);
  std::vector<std::uint32_t> unprepared, others;
  for (std::uint32_t from = 0; from < cards.size(); ++from) {
    auto const row = rows.subspan(from * MpiRow::bytes, MpiRow::bytes);
    if (from == rank) continue;
    if (!MpiRow::is_prepared(row)) {
      unprepared.push_back(from);
    } else if (!MpiRow::has(row, options)) {
      others.push_back(from);
    } else if (prepared.cards()[from] != RankCard{}) {  // they have a link
      LEND_TRY(card, RankCard::decode(row.subspan(MpiRow::card_at)));
      cards[from] = card;
    }
  }
  if (!unprepared.empty())
    return Error{Errc::peer_lost, names_of(unprepared) +
                                      " could not prepare for the group; the error there says why"};
  if (!others.empty())
    return Error{Errc::incompatible_peer,
                 names_of(others) + " and this one, rank " + std::to_string(rank) +
                     ", join with other message_bytes, links or another window; give all the same"};
  return std::move(prepared).handshake(cards, deadline);
}

}  // namespace group

/// The ranks of `comm` as a group, with the same numbers:
///
///     MPI_Init(&argc, &argv);
///     LEND_TRY(group, join_over(MPI_COMM_WORLD, domain, within(30s)));
///
/// All ranks of `comm` call it, as a collective of MPI: in the same order as those. Polls MPI until
/// all have come, and connects. Afterwards MPI and the group may be used in turns; the group does
/// not need MPI any more. A rank that fails here tells the others.
/// Shape:   an intracommunicator; the same options at all ranks.
/// Errors:  timed_out, cancelled  not all ranks came. Those that come later fail with peer_lost, or
///                            find their group broken. Some bytes stay MPI's for good; call no
///                            collective on `comm` before all ranks have come.
///          invalid_argument  MPI is not initialized, or no such communicator; the others wait.
///                            Options out of range.
///          incompatible_peer  the options of some ranks differ.
///          peer_lost          others failed; the message names them.
///          system_failed      MPI failed, where it returns errors.
///          Those of PreparedGroup.
/// Source:  MPI 3.1 §5.12, nonblocking collectives.
[[nodiscard]] inline Result<Group> join_over(MPI_Comm comm, ProtectionDomain const& domain,
                                             Deadline deadline, GroupOptions const& options = {}) {
  int is_initialized = 0, is_finalized = 0, is_inter = 0, own = 0, all = 0;
  LEND_TRYV(group::mpi_succeeded(MPI_Initialized(&is_initialized), "MPI_Initialized"));
  LEND_TRYV(group::mpi_succeeded(MPI_Finalized(&is_finalized), "MPI_Finalized"));
  if (is_initialized == 0 || is_finalized != 0)
    return Error{Errc::invalid_argument, "join_over() is for after MPI_Init, before MPI_Finalize"};
  if (comm == MPI_COMM_NULL)
    return Error{Errc::invalid_argument, "this process is in no communicator: MPI_COMM_NULL"};
  LEND_TRYV(group::mpi_succeeded(MPI_Comm_test_inter(comm, &is_inter), "MPI_Comm_test_inter"));
  if (is_inter != 0)
    return Error{Errc::invalid_argument,
                 "the ranks of an intercommunicator are in two groups; merge them first"};
  LEND_TRYV(group::mpi_succeeded(MPI_Comm_rank(comm, &own), "MPI_Comm_rank"));
  LEND_TRYV(group::mpi_succeeded(MPI_Comm_size(comm, &all), "MPI_Comm_size"));
  auto const rank = static_cast<std::uint32_t>(own), size = static_cast<std::uint32_t>(all);

  // A rank that fails goes on until it has told the others, which would wait for it.
  auto prepared = PreparedGroup::prepare(domain, rank, size, options);
  auto swap = std::make_unique<group::MpiCall>();
  constexpr auto row_bytes = group::MpiRow::bytes;
  swap->ours.resize(size * row_bytes);
  swap->theirs.resize(swap->ours.size());
  for (std::uint32_t to = 0; prepared && to < size; ++to)
    group::MpiRow::write(std::span{swap->ours}.subspan(to * row_bytes, row_bytes),
                         prepared.assume_value().cards()[to], options);
  LEND_TRYV(group::mpi_succeeded(
      MPI_Ialltoall(swap->ours.data(), row_bytes, MPI_BYTE, swap->theirs.data(), row_bytes,
                    MPI_BYTE, comm, &swap->request),
      "MPI_Ialltoall"));
  auto const swapped = group::finish(swap, deadline);
  auto joined = !swapped   ? Result<Group>{swapped.error()}
                : prepared ? group::connect_by_rows(std::move(prepared).assume_value(), rank,
                                                    swap->theirs, options, deadline)
                           : Result<Group>{prepared.error()};

  auto told = std::make_unique<group::MpiCall>();
  told->ours.resize(1, std::byte{joined.has_value()});
  told->theirs.resize(size);
  LEND_TRYV(group::mpi_succeeded(MPI_Iallgather(told->ours.data(), 1, MPI_BYTE, told->theirs.data(),
                                                1, MPI_BYTE, comm, &told->request),
                                 "MPI_Iallgather"));
  auto const heard = group::finish(told, deadline);
  if (!swapped) return swapped.error();
  LEND_TRYV(heard);
  std::vector<std::uint32_t> failed;
  for (std::uint32_t from = 0; from < size; ++from)
    if (told->theirs[from] == std::byte{0}) failed.push_back(from);
  if (joined && !failed.empty())
    return Error{Errc::peer_lost,
                 group::names_of(failed) + " could not connect; the error there says why"};
  return joined;
}

}  // namespace lend

#pragma GCC diagnostic pop
