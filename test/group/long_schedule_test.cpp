// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: every rank gets the values that the collective says, whoever is how late; nobody overwrites
// what another still reads; each rank sends and reads as little as the schedule promises. Method:
// the schedules are run on texts instead of values, two pieces after the other on one exposed, with
// one rank that only goes on when no other can, and in random orders.
#include "support/catch.hpp"
#include "support/seed.hpp"

#include <group/schedule/long_schedule.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

using namespace lend;
using namespace lend::group;

namespace {

using LongKind = LongStep::Kind;
using Texts = std::vector<std::string>;

constexpr std::uint32_t runs = 2;

bool is_for_peer(LongKind kind) {
  return kind == LongKind::await || kind == LongKind::read || kind == LongKind::pass_on ||
         kind == LongKind::combine;
}

std::string text_of(std::uint32_t rank, std::uint32_t run, std::uint32_t block) {
  return std::to_string(rank) + "." + std::to_string(run) + "." + std::to_string(block) + ",";
}

/// One rank.
struct Rank {
  std::uint32_t run = 0;
  std::uint16_t round = 0;
  std::vector<LongStep> steps{};
  std::vector<bool> is_done{};
  Texts exposed{};
  std::vector<Texts> out{};  // of each run
  bool is_accumulating = false;
  std::size_t told = 0, blocks_read = 0;
};

class Model {
 public:
  Model(Collective of, std::uint32_t count, std::uint32_t at) : collective_{of}, root_{at} {
    ranks.resize(count);
    for (auto& rank : ranks) {
      rank.exposed.resize(count);
      rank.out.assign(runs, Texts(count));
    }
    for (std::uint32_t i = 0; i < count; ++i) begin_round(i);
  }

  /// Until nobody can go on; `late` only when no other can.
  template <class Random>
  void run(std::optional<std::uint32_t> late, Random& random) {
    std::vector<std::uint32_t> order;
    for (std::uint32_t i = 0; i < ranks.size(); ++i)
      if (i != late) order.push_back(i);
    for (;;) {
      std::ranges::shuffle(order, random);
      bool const has_moved = std::ranges::any_of(order, [&](auto i) { return go_on(i); });
      if (!has_moved && !(late && go_on(*late))) return;
    }
  }
  [[nodiscard]] bool is_over() const {
    return std::ranges::all_of(ranks, [](Rank const& each) { return each.run == runs; });
  }

  std::vector<Rank> ranks{};
  std::size_t waiting_most = 0;  // messages of one rank to another that were not heard

 private:
  using Name = std::pair<std::uint32_t, std::uint16_t>;  // run and round

  void begin_round(std::uint32_t i) {
    Rank& rank = ranks[i];
    rank.steps.clear();
    auto const size = static_cast<std::uint32_t>(ranks.size());
    if (rank.run < runs) add_long_round(collective_, {i, size}, root_, rank.round, rank.steps);
    rank.is_done.assign(rank.steps.size(), false);
    rank.is_accumulating = false;
  }

  /// One step, if there is one that can be done.
  bool go_on(std::uint32_t i) {
    Rank& rank = ranks[i];
    if (rank.run == runs) return false;
    bool are_combined = true;
    for (std::size_t at = 0; at < rank.steps.size(); ++at) {
      LongStep const& step = rank.steps[at];
      bool const is_in_order = step.kind == LongKind::combine ||
                               step.kind == LongKind::combine_own || step.kind == LongKind::take;
      if (rank.is_done[at]) continue;
      if ((!is_in_order || are_combined) && try_step(i, step)) {
        rank.is_done[at] = true;
        return true;
      }
      if (is_in_order) are_combined = false;
    }
    if (std::ranges::count(rank.is_done, false) != 0) return false;
    if (++rank.round == long_rounds_of(collective_)) {
      rank.round = 0;
      ++rank.run;
    }
    begin_round(i);
    return true;
  }

  bool try_step(std::uint32_t i, LongStep const& step) {
    Rank& rank = ranks[i];
    if (is_for_peer(step.kind)) {
      REQUIRE(step.peer < ranks.size());
      REQUIRE(step.peer != i);
      auto& come = under_way_[{step.peer, i}];
      auto const it = std::ranges::find(come, Name{rank.run, rank.round});
      if (it == come.end()) return false;
      come.erase(it);
    }
    // At once, where the device may be as late as its rank: then it is another order of steps.
    std::string const& there = ranks[step.peer].exposed[step.from];
    std::string const own = text_of(i, rank.run, step.from);
    if (is_for_peer(step.kind) && step.kind != LongKind::await) ++rank.blocks_read;
    switch (step.kind) {
      case LongKind::keep: rank.out[rank.run][step.to] = own; break;
      case LongKind::expose: rank.exposed[step.from] = own; break;
      case LongKind::signal: {
        auto& come = under_way_[{i, step.peer}];
        come.emplace_back(rank.run, rank.round);
        waiting_most = std::max(waiting_most, come.size());
        ++rank.told;
        break;
      }
      case LongKind::await: break;
      case LongKind::read: rank.out[rank.run][step.to] = there; break;
      case LongKind::pass_on: rank.exposed[step.from] = rank.out[rank.run][step.to] = there; break;
      case LongKind::take: rank.out[rank.run][step.to] = rank.exposed[step.from]; break;
      default: {
        std::string& sum = rank.exposed[step.from];
        if (!std::exchange(rank.is_accumulating, true)) sum.clear();
        sum += step.kind == LongKind::combine ? there : own;
      }
    }
    return true;
  }

  Collective collective_;
  std::uint32_t root_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<Name>> under_way_{};
};

std::string of_all(std::uint32_t size, std::uint32_t run, std::uint32_t block) {
  std::string all;
  for (std::uint32_t i = 0; i < size; ++i) all += text_of(i, run, block);
  return all;
}

/// What block `block` of rank `rank` must be; nothing where the collective leaves it.
std::optional<std::string> expected(Collective collective, Ranks ranks, std::uint32_t root,
                                    std::uint32_t run, std::uint32_t block) {
  auto const [rank, size] = ranks;
  switch (collective) {
    case Collective::broadcast:
      if (rank == root || block == size - 1) return {};
      return text_of(root, run, block);
    case Collective::gather:
      if (rank != root) return {};
      return text_of(block, run, 0);
    case Collective::scatter:
      if (block != 0) return {};
      return text_of(root, run, rank);
    case Collective::allgather: return text_of(block, run, 0);
    case Collective::all_to_all: return text_of(block, run, rank);
    case Collective::reduce:
      if (rank != root) return {};
      return of_all(size, run, block);
    case Collective::allreduce: return of_all(size, run, block);
    default:  // reduce_scatter
      if (block != 0) return {};
      return of_all(size, run, rank);
  }
}

constexpr std::array collectives{
    Collective::broadcast,  Collective::gather, Collective::scatter,   Collective::allgather,
    Collective::all_to_all, Collective::reduce, Collective::allreduce, Collective::reduce_scatter};

void check(Model const& model, Collective collective, std::uint32_t root) {
  auto const size = static_cast<std::uint32_t>(model.ranks.size());
  REQUIRE(model.is_over());
  for (std::uint32_t rank = 0; rank < size; ++rank)
    for (std::uint32_t run = 0; run < runs; ++run)
      for (std::uint32_t block = 0; block < size; ++block)
        CHECK(model.ranks[rank].out[run][block] ==
              expected(collective, {rank, size}, root, run, block).value_or(""));
  // Less than the smallest window, or messages of one piece could keep those of the other back.
  CHECK(model.waiting_most <= 3);
}

}  // namespace

TEST_CASE("long values reach the ranks that the collective says, whichever rank is late",
          "[group]") {
  for (auto const seed : test::seeds(3))
    for (Collective const collective : collectives)
      for (std::uint32_t const size : {2u, 3u, 4u, 5u, 8u, 13u})
        for (std::uint32_t const root : {0u, size - 1})
          for (std::uint32_t late = 0; late <= size; ++late) {
            CAPTURE(seed, name_of(collective), size, root, late);
            std::mt19937_64 random{seed};
            Model model{collective, size, root};
            model.run(late < size ? std::optional{late} : std::nullopt, random);
            check(model, collective, root);
          }
}

TEST_CASE("of long values each rank reads what the schedule promises, and tells as often",
          "[group]") {
  std::mt19937_64 random{1};  // counts are the same in any order
  for (std::uint32_t const size : {2u, 4u, 7u, 16u}) {
    std::size_t const others = size - 1;
    struct Promise {
      Collective collective;
      std::size_t root_reads, reads, root_tells, tells;  // of one piece; blocks and notes
    };
    std::array const promises{
        Promise{Collective::broadcast, 0, others, others, 2 * others - 1},
        Promise{Collective::reduce, 2 * others, others, 3 * others, 2 * others},
        Promise{Collective::allreduce, 2 * others, 2 * others, 3 * others, 3 * others},
        Promise{Collective::gather, others, 0, others, 1},
        Promise{Collective::scatter, 0, 1, others, 1},
        Promise{Collective::allgather, others, others, 2 * others, 2 * others},
        Promise{Collective::all_to_all, others, others, 2 * others, 2 * others},
        Promise{Collective::reduce_scatter, others, others, 2 * others, 2 * others},
    };
    for (Promise const& promise : promises) {
      CAPTURE(name_of(promise.collective), size);
      Model model{promise.collective, size, 0};
      model.run({}, random);
      for (std::uint32_t i = 0; i < size; ++i) {
        CHECK(model.ranks[i].blocks_read == runs * (i == 0 ? promise.root_reads : promise.reads));
        CHECK(model.ranks[i].told == runs * (i == 0 ? promise.root_tells : promise.tells));
      }
    }
  }
}
