// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: ranks of MPI that join over it are a group, or each learns why not. Method: four ranks, of
// which one does otherwise; test/examples/mpi_test.py starts them. A rank prints what is wrong.
#include <lend/group.hpp>
#include <lend/group/mpi.hpp>

#include <cstdio>
#include <string>

using namespace lend;
using namespace std::chrono_literals;

namespace {

constexpr auto patience = 60s;
int rank = 0, failures = 0;

void check(bool is_so, char const* what, std::string const& seen = "") {
  if (is_so) return;
  std::printf("FAILED at rank %d: %s: %s\n", rank, what, seen.c_str());
  ++failures;
}

void fails(Result<Group> const& joined, Errc code, char const* words) {
  auto const text = joined ? "it succeeded" : joined.error().message();
  check(!joined && joined.error() == code && text.find(words) != std::string::npos, words, text);
}

/// What the others learn of rank 2 with other options, and rank 2 itself.
void try_options(ProtectionDomain const& domain) {
  auto const joined_with = [&](GroupOptions const& others) {
    return join_over(MPI_COMM_WORLD, domain, within(patience), rank == 2 ? others : GroupOptions{});
  };
  auto const different = joined_with({.window = 16});
  fails(different, Errc::incompatible_peer,
        rank == 2 ? "ranks 0, 1, 3 and this one, rank 2" : "rank 2 and this one");
  auto const impossible = joined_with({.message_bytes = 100});
  if (rank == 2) {
    fails(impossible, Errc::invalid_argument, "multiple of 64");
  } else {
    fails(impossible, Errc::peer_lost, "rank 2 could not prepare");
  }
}

/// Ranks of a part of MPI's are a group of their own, in the order of the communicator.
void try_parts(ProtectionDomain const& domain) {
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &part);
  {
    auto joined = join_over(part, domain, within(patience));
    check(joined.has_value(), "a part joins", joined ? "" : joined.error().message());
    if (joined) {
      auto& group = joined.assume_value();
      check(group.size() == 2 && group.rank() == (rank < 2 ? 1u : 0u), "ranks are those of MPI");
      auto const total = group.allreduce(sum<int>, rank, within(patience));
      check(total && total.assume_value() == (rank % 2 == 0 ? 2 : 4), "a part adds up its ranks");
      check(group.barrier(within(patience)).has_value(), "a part has a barrier");
    }
  }
  MPI_Comm_free(&part);
}

/// Rank 3 does not come before the others have given up, and then finds nobody.
void try_absence(ProtectionDomain const& domain) {
  MPI_Comm other = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  if (rank == 3) MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 3)
    fails(join_over(other, domain, within(patience)), Errc::peer_lost, "ranks 0, 1, 2");
  else
    fails(join_over(other, domain, within(200ms)), Errc::timed_out, "have called join_over()");
  if (rank != 3) MPI_Barrier(MPI_COMM_WORLD);
  // All have come to the first, so that the next one is as any.
  auto const joined = join_over(other, domain, within(patience));
  if (!joined) fails(joined, Errc{}, "no error");
}

}  // namespace

int main(int argument_count, char** arguments) {
  auto const context = open_device();
  auto const domain = context ? context.assume_value().allocate_protection_domain()
                              : Result<ProtectionDomain>{context.error()};
  if (!domain) return 1;
  auto const& in = domain.assume_value();
  fails(join_over(MPI_COMM_WORLD, in, within(patience)), Errc::invalid_argument, "after MPI_Init");
  MPI_Init(&argument_count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  fails(join_over(MPI_COMM_NULL, in, within(patience)), Errc::invalid_argument, "MPI_COMM_NULL");
  try_options(in);
  try_parts(in);
  try_absence(in);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  if (failures == 0) std::printf("rank %d: ok\n", rank);
  return failures == 0 ? 0 : 1;
}
