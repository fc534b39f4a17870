// SPDX-License-Identifier: MIT OR Apache-2.0
// What a collective of 8 bytes costs a rank, and a row of an exchange its two ranks, with its
// messages on the soft device. group_price.py counts instructions with it. All ranks are of one
// thread: it posts and polls them in turn, or calls for rank 0 once what the others say to it is
// there.
// Usage: group_price posted|blocking barrier|allreduce RANKS CALLS
//        group_price exchange|raw BYTES ROWS CALLS
#include "number.hpp"
#include "raw_end.hpp"

#include <infiniband/verbs.h>
#include <lend/group.hpp>

#include <array>
#include <chrono>
#include <cstdio>
#include <deque>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using namespace lend;

struct Rank {
  Group group;
  MemoryRegion memory;
};

Result<std::vector<Rank>> ranks_of(std::uint32_t size, std::size_t bytes = sizeof(double)) {
  std::vector<ProtectionDomain> domains;
  std::vector<PreparedGroup> prepared;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    LEND_TRY(context, open_device(DeviceChoice::soft()));
    LEND_TRY(domain, context.allocate_protection_domain());
    // No keep-alives: they go by the clock.
    GroupOptions const options{.keep_alive = std::chrono::hours{1}};
    LEND_TRY(one, PreparedGroup::prepare(domain, rank, size, options));
    domains.push_back(std::move(domain));
    prepared.push_back(std::move(one));
  }
  std::vector<std::vector<RankCard>> theirs(size);
  for (std::uint32_t to = 0; to < size; ++to)
    for (PreparedGroup const& from : prepared) theirs[to].push_back(from.cards()[to]);
  std::vector<Rank> ranks;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    LEND_TRY(group, std::move(prepared[rank]).handshake(theirs[rank]));
    LEND_TRY(memory, domains[rank].allocate(bytes));
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

// ---- rows between two ranks, as many each way ----

struct RowRank {
  Rank& rank;
  Peers peers;
};

/// A thread of its own connects each: a call that waits for the other.
Result<std::deque<RowRank>> peers_of(std::vector<Rank>& ranks) {
  std::array<Result<Peers>, 2> made{Errc::system_failed, Errc::system_failed};
  {
    auto const connect = [&](std::size_t i) {
      made[i] = Peers::connect_all(ranks[i].group, within(std::chrono::seconds{30}));
    };
    std::jthread const other{connect, 1};
    connect(0);
  }
  std::deque<RowRank> all;
  for (std::size_t i = 0; i < 2; ++i) {
    LEND_TRY(peers, std::move(made[i]));
    all.push_back({ranks[i], std::move(peers)});
  }
  return all;
}

/// group_price.py finds the runs by these names. Both have begun before either looks.
extern "C" [[gnu::noinline]] bool lend_bench_exchange(std::deque<Exchange>& exchanges,
                                                      std::uint64_t calls) {
  for (std::uint64_t i = 0; i < calls; ++i) {
    for (Exchange& each : exchanges)
      if (!each.start()) return false;
    for (Exchange& each : exchanges)
      if (!each.wait()) return false;
  }
  return true;
}

/// The same messages by verbs, on the queue pairs of the peers.
struct RawRank {
  bench::RawEnd end;
  ibv_cq* queue;

  bool wait(std::size_t count) {
    ibv_wc completion;
    while (count > 0) {
      int const taken = ibv_poll_cq(queue, 1, &completion);
      if (taken < 0 || (taken > 0 && completion.status != IBV_WC_SUCCESS)) return false;
      // The device's own thread may have the message, and valgrind runs one thread at a time.
      if (taken == 0) std::this_thread::yield();
      count -= static_cast<std::size_t>(taken);
    }
    return true;
  }
};

extern "C" [[gnu::noinline]] bool lend_bench_raw(std::array<RawRank, 2>& ranks, std::size_t bytes,
                                                 std::uint64_t rows, std::uint64_t calls) {
  for (std::uint64_t i = 0; i < calls; ++i) {
    for (RawRank& rank : ranks) {
      for (std::uint64_t row = 0; row < rows; ++row)
        if (!rank.end.receive((rows + row) * bytes, bytes)) return false;
      for (std::uint64_t row = 0; row < rows; ++row)
        if (!rank.end.send(row * bytes, bytes)) return false;
    }
    for (RawRank& rank : ranks)
      if (!rank.wait(2 * rows)) return false;
  }
  return true;
}

Result<void> run_raw(std::deque<RowRank>& ranks, std::size_t bytes, std::uint64_t rows,
                     std::uint64_t calls) {
  auto const raw_of = [&ranks](std::uint32_t rank) {
    ibv_qp* const queue_pair = ranks[rank].peers[1 - rank].native();
    return RawRank{bench::RawEnd{queue_pair, ranks[rank].rank.memory}, queue_pair->send_cq};
  };
  std::array<RawRank, 2> raw{raw_of(0), raw_of(1)};
  if (!lend_bench_raw(raw, bytes, rows, calls)) return Errc::system_failed;
  return success();
}

Result<void> run_rows(bool is_raw, std::size_t bytes, std::uint64_t rows, std::uint64_t calls) {
  LEND_TRY(ranks, ranks_of(2, 2 * rows * bytes));
  LEND_TRY(connected, peers_of(ranks));
  if (is_raw) return run_raw(connected, bytes, rows, calls);
  std::deque<Exchange> exchanges;
  for (std::uint32_t i = 0; i < 2; ++i) {
    auto& exchange = exchanges.emplace_back(connected[i].peers);
    MemoryRegion& memory = connected[i].rank.memory;
    for (std::uint64_t row = 0; row < rows; ++row)
      exchange.receive(1 - i, memory.scatter((rows + row) * bytes, bytes))
          .send(1 - i, memory.gather(row * bytes, bytes));
  }
  // The first run compares the rows, for which both wait.
  for (std::array<bool, 2> is_over{}; !is_over[0] || !is_over[1];)
    for (std::size_t i = 0; i < 2; ++i) {
      if (is_over[i]) continue;
      auto const one = exchanges[i].run(within(std::chrono::nanoseconds{0}));
      if (one.has_error() && one.error() != Errc::timed_out) return one;
      is_over[i] = one.has_value();
    }
  if (!lend_bench_exchange(exchanges, calls)) return Errc::system_failed;
  for (Exchange& each : exchanges) {
    LEND_TRYV(each.finish());
  }
  return success();
}

}  // namespace

int main(int count, char** words) {
  std::string_view const way = count == 5 ? words[1] : "", what = count == 5 ? words[2] : "";
  bool const is_of_rows = way == "exchange" || way == "raw";
  bool const is_of_calls =
      (way == "posted" || way == "blocking") && (what == "barrier" || what == "allreduce");
  std::uint32_t size = 0;  // ranks, or rows each way
  std::uint64_t calls = 0;
  std::size_t bytes = 0;
  if (!(is_of_rows ? bench::parse_number(what, bytes) : is_of_calls) ||
      !bench::parse_number(words[3], size) || !bench::parse_number(words[4], calls) ||
      size < (is_of_rows ? 1 : 2)) {
    std::fputs(
        "group_price posted|blocking barrier|allreduce RANKS CALLS\n"
        "group_price exchange|raw BYTES ROWS CALLS\n",
        stderr);
    return 2;
  }
  auto* const run = way == "posted" ? run_posted : run_blocking;
  auto const done =
      is_of_rows ? run_rows(way == "raw", bytes, size, calls) : run(what == "barrier", size, calls);
  if (!done) {
    std::fprintf(stderr, "group_price: %s\n", done.error().message().c_str());
    return 1;
  }
  return 0;
}
