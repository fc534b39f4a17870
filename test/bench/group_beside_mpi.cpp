// SPDX-License-Identifier: MIT OR Apache-2.0
// Collectives of lend beside those of MPI in one program. One thread.
//   mpirun -n RANKS group_beside_mpi [posted_]WHAT BYTES ROUNDS
//
// WHAT is barrier, broadcast, allreduce, allgather or all_to_all; the last two can be posted in a
// GroupScope, from and to memory of allocate(). MPI and lend take turns, in blocks of rounds; rank
// 0 prints the medians of the blocks as a line of JSON. BYTES are of one rank's values, which are
// doubles. Fails where the two do not compute the same.
#include "number.hpp"

#include <lend/group.hpp>
#include <lend/group/mpi.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace lend;

namespace {

constexpr int blocks = 9;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
void* const in_place = MPI_IN_PLACE;
#pragma GCC diagnostic pop

struct Task {
  std::string_view name, what;  // with and without posted_
  std::size_t doubles = 0;
  int rounds = 0;
  int rank = 0, size = 1;
};

/// What the collective needs: `own` values, or those for `all`; and what comes `to` this rank.
struct Values {
  std::vector<double> own, all, to;

  explicit Values(Task const& task) {
    auto const of_all = task.doubles * static_cast<std::size_t>(task.size);
    if (task.what == "all_to_all") {
      all.resize(of_all);
    } else {
      own.resize(task.doubles);
    }
    if (task.what == "all_to_all" || task.what == "allgather") to.resize(of_all);
    for (std::size_t i = 0; i < own.size(); ++i) own[i] = task.rank + static_cast<double>(i) / 8;
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = task.rank + static_cast<double>(i) / 4;
  }
};

Result<void> once(Task const& task, Values& values) {
  int const count = static_cast<int>(task.doubles);
  if (task.what == "barrier") MPI_Barrier(MPI_COMM_WORLD);
  if (task.what == "broadcast") MPI_Bcast(values.own.data(), count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  if (task.what == "allreduce")
    MPI_Allreduce(in_place, values.own.data(), count, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  if (task.what == "allgather")
    MPI_Allgather(values.own.data(), count, MPI_DOUBLE, values.to.data(), count, MPI_DOUBLE,
                  MPI_COMM_WORLD);
  if (task.what == "all_to_all")
    MPI_Alltoall(values.all.data(), count, MPI_DOUBLE, values.to.data(), count, MPI_DOUBLE,
                 MPI_COMM_WORLD);
  return success();
}

Result<void> once(Task const& task, Values& values, Group& group) {
  if (task.what == "barrier") return group.barrier();
  if (task.what == "broadcast") return group.broadcast(0, values.own);
  if (task.what == "allreduce") return group.allreduce(max<double>, values.own);
  if (task.what == "allgather") return group.allgather(values.own, values.to);
  return group.all_to_all(values.all, values.to);
}

/// What is sent, and the place of what comes.
struct Allocated {
  TypedRegion<double> from, to;

  static Result<Allocated> of(ProtectionDomain const& domain, Values const& values) {
    auto const& from = values.all.empty() ? values.own : values.all;
    LEND_TRY(sent, domain.allocate<double>(from.size()));
    LEND_TRY(place, domain.allocate<double>(values.to.size()));
    LEND_TRY(target, sent.mutable_values());
    std::ranges::copy(from, target.begin());
    return Allocated{std::move(sent), std::move(place)};
  }
};

Result<void> once(Task const& task, Allocated& values, Group& group) {
  GroupScope scope{group};
  auto const from = values.from.gather();
  auto const to = values.to.scatter();
  LEND_TRYV(task.what == "allgather" ? scope.post_allgather(from, to)
                                     : scope.post_all_to_all(from, to));
  return scope.finish();
}

/// A block of rounds, until all ranks are over: the root of a broadcast may be far ahead.
/// Microseconds a round.
template <class Kind, class... Over>
Result<double> run(Task const& task, Kind& values, Over&... over) {
  MPI_Barrier(MPI_COMM_WORLD);
  auto const begin = std::chrono::steady_clock::now();
  for (int round = 0; round < task.rounds; ++round) {
    LEND_TRYV(once(task, values, over...));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  std::chrono::duration<double, std::micro> const took = std::chrono::steady_clock::now() - begin;
  return took.count() / task.rounds;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

Result<void> measure(Task const& task) {
  LEND_TRY(device, open_device());
  LEND_TRY(domain, device.allocate_protection_domain());
  LEND_TRY(group, join_over(MPI_COMM_WORLD, domain, within(std::chrono::minutes{1})));
  Values over_mpi{task}, over_lend{task};
  std::optional<Allocated> allocated;
  if (task.name != task.what) {
    LEND_TRY(regions, Allocated::of(domain, over_lend));
    allocated.emplace(std::move(regions));
  }
  std::vector<double> mpi, lend, ratios;
  for (int block = 0; block < blocks; ++block) {
    LEND_TRY(by_mpi, run(task, over_mpi));
    LEND_TRY(by_lend, allocated ? run(task, *allocated, group) : run(task, over_lend, group));
    if (allocated) {
      LEND_TRY(came, allocated->to.values());
      std::ranges::copy(came, over_lend.to.begin());
    }
    if (over_mpi.own != over_lend.own || over_mpi.to != over_lend.to)
      return Error{Errc::work_failed, "MPI and lend computed different values"};
    mpi.push_back(by_mpi);
    lend.push_back(by_lend);
    ratios.push_back(by_mpi / by_lend);
  }
  if (task.rank == 0)
    std::printf(
        "{\"what\": \"%s\", \"ranks\": %d, \"bytes\": %zu, \"mpi_us\": %.3f, \"lend_us\": %.3f, "
        "\"ratio\": %.3f}\n",
        std::string{task.name}.c_str(), task.size, task.doubles * sizeof(double), median(mpi),
        median(lend), median(ratios));
  return success();
}

}  // namespace

int main(int argument_count, char** arguments) {
  constexpr std::array<std::string_view, 5> known{"barrier", "broadcast", "allreduce", "allgather",
                                                  "all_to_all"};
  std::span const words{arguments, static_cast<std::size_t>(argument_count)};
  Task task;
  std::size_t bytes = 0;
  constexpr std::string_view posted = "posted_";
  task.name = task.what = words.size() == 4 ? words[1] : "";
  bool const is_posted = task.name.starts_with(posted);
  if (is_posted) task.what.remove_prefix(posted.size());
  auto const place = std::ranges::find(known, task.what);
  bool const is_known = place != known.end() && (!is_posted || place >= known.end() - 2);
  if (!is_known || !bench::parse_number(words[2], bytes) ||
      !bench::parse_number(words[3], task.rounds) || bytes % sizeof(double) != 0 ||
      task.rounds <= 0) {
    std::fputs(
        "usage: mpirun -n RANKS group_beside_mpi "
        "barrier|broadcast|allreduce|[posted_]allgather|[posted_]all_to_all BYTES ROUNDS\n",
        stderr);
    return 2;
  }
  task.doubles = bytes / sizeof(double);
  MPI_Init(&argument_count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &task.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &task.size);
  auto const measured = measure(task);
  if (measured.has_error()) {
    std::fprintf(stderr, "rank %d: %s\n", task.rank, measured.error().describe().c_str());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
