// SPDX-License-Identifier: MIT OR Apache-2.0
// What a collective of 8 bytes costs a rank, with its messages on the soft device. group_price.py
// counts instructions with it. All ranks are of one thread: it posts and polls them in turn, or
// calls for rank 0 once what the others say to it is there.
// Usage: group_price posted|blocking barrier|allreduce RANKS CALLS
#include "number.hpp"

#include <lend/group.hpp>

#include <cstdio>
#include <optional>
#include <string_view>
#include <vector>

namespace {

using namespace lend;

struct Rank {
  Group group;
  MemoryRegion memory;
};

Result<std::vector<Rank>> ranks_of(std::uint32_t size) {
  std::vector<ProtectionDomain> domains;
  std::vector<PreparedGroup> prepared;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    LEND_TRY(context, open_device(DeviceChoice::soft()));
    LEND_TRY(domain, context.allocate_protection_domain());
    LEND_TRY(one, PreparedGroup::prepare(domain, rank, size));
    domains.push_back(std::move(domain));
    prepared.push_back(std::move(one));
  }
  std::vector<std::vector<RankCard>> theirs(size);
  for (std::uint32_t to = 0; to < size; ++to)
    for (PreparedGroup const& from : prepared) theirs[to].push_back(from.cards()[to]);
  std::vector<Rank> ranks;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    LEND_TRY(group, std::move(prepared[rank]).handshake(theirs[rank]));
    LEND_TRY(memory, domains[rank].allocate(sizeof(double)));
    ranks.push_back({std::move(group), std::move(memory)});
  }
  return ranks;
}

/// group_price.py finds the run by its name.
extern "C" [[gnu::noinline]] bool lend_bench_group(std::vector<Rank>& ranks,
                                                   std::vector<std::optional<GroupScope>>& scopes,
                                                   bool is_barrier, std::uint64_t calls) {
  std::vector<PendingCollective> pending;
  pending.reserve(ranks.size());
  for (std::uint64_t i = 0; i < calls; ++i) {
    pending.clear();
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      auto& scope = *scopes[rank];
      auto posted = is_barrier ? scope.post_barrier()
                               : scope.post_allreduce(sum<double>, ranks[rank].memory.scatter());
      if (!posted) return false;
      pending.push_back(std::move(posted).assume_value());
    }
    for (std::size_t over = 0; over < ranks.size();) {
      over = 0;
      for (PendingCollective& each : pending) {
        auto const is_over = each.poll();
        if (!is_over) return false;
        over += is_over.assume_value();
      }
    }
  }
  return true;
}

/// The same of a call of rank 0 that blocks.
extern "C" [[gnu::noinline]] bool lend_bench_call(Group& group, bool is_barrier, double& value) {
  if (is_barrier) return group.barrier().has_value();
  return group.allreduce(sum<double>, std::span{&value, 1}).has_value();
}

/// The others call until they have said all that rank 0 needs, and then to their end.
Result<void> run_blocking(bool is_barrier, std::uint32_t size, std::uint64_t calls) {
  LEND_TRY(ranks, ranks_of(size));
  std::vector<double> values(size);
  auto const call = [&](std::uint32_t rank) {
    Deadline const now = within(std::chrono::nanoseconds{0});
    return is_barrier ? ranks[rank].group.barrier(now)
                      : ranks[rank].group.allreduce(sum<double>, std::span{&values[rank], 1}, now);
  };
  for (std::uint64_t i = 0; i < calls; ++i) {
    for (std::uint32_t turn = 0; turn < size; ++turn)
      for (std::uint32_t rank = 1; rank < size; ++rank)
        if (call(rank)) return Errc::system_failed;  // without rank 0
    if (!lend_bench_call(ranks[0].group, is_barrier, values[0])) return Errc::system_failed;
    std::vector<bool> is_over(size);
    for (std::uint32_t turn = 0; turn < size; ++turn)
      for (std::uint32_t rank = 1; rank < size; ++rank)
        is_over[rank] = is_over[rank] || call(rank).has_value();
  }
  return success();
}

Result<void> run_posted(bool is_barrier, std::uint32_t size, std::uint64_t calls) {
  LEND_TRY(ranks, ranks_of(size));
  std::vector<std::optional<GroupScope>> scopes(size);
  for (std::uint32_t rank = 0; rank < size; ++rank) scopes[rank].emplace(ranks[rank].group);
  if (!lend_bench_group(ranks, scopes, is_barrier, calls)) return Errc::system_failed;
  for (auto& scope : scopes) {
    LEND_TRYV(scope->finish());
  }
  return success();
}

}  // namespace

int main(int count, char** words) {
  std::string_view const way = count == 5 ? words[1] : "", what = count == 5 ? words[2] : "";
  std::uint32_t size = 0;
  std::uint64_t calls = 0;
  if ((way != "posted" && way != "blocking") || (what != "barrier" && what != "allreduce") ||
      !bench::parse_number(words[3], size) || !bench::parse_number(words[4], calls) || size < 2) {
    std::fputs("group_price posted|blocking barrier|allreduce RANKS CALLS\n", stderr);
    return 2;
  }
  auto* const run = way == "posted" ? run_posted : run_blocking;
  if (auto const done = run(what == "barrier", size, calls); !done) {
    std::fprintf(stderr, "group_price: %s\n", done.error().message().c_str());
    return 1;
  }
  return 0;
}
