// SPDX-License-Identifier: MIT OR Apache-2.0
// The ranks of an MPI program are a group of lend, too, and both compute the same. Built where MPI
// is found:
//
//   mpirun -n 4 mpi
#include <lend/group.hpp>
#include <lend/group/mpi.hpp>

#include <cstdint>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

using namespace std::chrono_literals;

namespace {

constexpr std::size_t count = 1000;  // of each rank, or for each

std::vector<double> values_of(std::uint32_t rank, std::size_t length) {
  std::vector<double> values(length);
  std::iota(values.begin(), values.end(), rank + 0.25);
  return values;
}

lend::Result<void> compare(bool is_same, char const* what) {
  if (is_same) return lend::success();
  return lend::Error{lend::Errc::disagreement, "MPI and lend differ after " + std::string{what}};
}

lend::Result<void> allreduce(lend::Group& group) {
  auto by_lend = values_of(group.rank(), count);
  auto const ours = by_lend;
  std::vector<double> by_mpi(count);
  MPI_Allreduce(ours.data(), by_mpi.data(), count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  LEND_TRYV(group.allreduce(lend::sum<double>, by_lend, lend::within(60s)));
  return compare(by_lend == by_mpi, "allreduce");  // the sums are exact
}

lend::Result<void> broadcast(lend::Group& group) {
  auto by_lend = values_of(group.rank(), count), by_mpi = by_lend;
  auto const root = group.size() - 1;
  MPI_Bcast(by_mpi.data(), count, MPI_DOUBLE, static_cast<int>(root), MPI_COMM_WORLD);
  LEND_TRYV(group.broadcast(root, by_lend, lend::within(60s)));
  return compare(by_lend == by_mpi, "broadcast");
}

lend::Result<void> allgather(lend::Group& group) {
  auto const ours = values_of(group.rank(), count);
  std::vector<double> by_lend(count * group.size()), by_mpi(by_lend.size());
  MPI_Allgather(ours.data(), count, MPI_DOUBLE, by_mpi.data(), count, MPI_DOUBLE, MPI_COMM_WORLD);
  LEND_TRYV(group.allgather(ours, by_lend, lend::within(60s)));
  return compare(by_lend == by_mpi, "allgather");
}

lend::Result<void> all_to_all(lend::Group& group) {
  auto const ours = values_of(group.rank(), count * group.size());
  std::vector<double> by_lend(ours.size()), by_mpi(ours.size());
  MPI_Alltoall(ours.data(), count, MPI_DOUBLE, by_mpi.data(), count, MPI_DOUBLE, MPI_COMM_WORLD);
  LEND_TRYV(group.all_to_all(ours, by_lend, lend::within(60s)));
  return compare(by_lend == by_mpi, "all_to_all");
}

lend::Result<void> run() {
  LEND_TRY(context, lend::open_device());
  LEND_TRY(domain, context.allocate_protection_domain());
  // excerpt join
  LEND_TRY(group, lend::join_over(MPI_COMM_WORLD, domain, lend::within(60s)));
  // end of excerpt
  for (auto* const collective : {allreduce, broadcast, allgather, all_to_all}) {
    LEND_TRYV(collective(group));
  }
  std::printf("rank %u of %u: lend and MPI computed the same\n", group.rank(), group.size());
  return group.barrier(lend::within(60s));
}

}  // namespace

int main(int argument_count, char** arguments) {
  MPI_Init(&argument_count, &arguments);
  auto const done = run();
  if (!done) {
    std::fprintf(stderr, "%s\n", done.error().message().c_str());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
