// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a rank that dies or stops at any instruction of a call of few bytes leaves nothing half
// said to the others, and such calls need nothing of the device. Method: the test traces the rank,
// has it go on instruction by instruction, and kills it or makes it wait.
#include "group/ranks.hpp"
#include "support/peer_process.hpp"
#include "support/seed.hpp"
#include "support/thorough.hpp"
#include "two_process/group_ranks.hpp"

#include <infiniband/verbs.h>
#include <sys/ptrace.h>

#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t size = 3, victim = 1;
constexpr auto call_limit = 120s;  // ends a call only if nothing else does
constexpr std::uint32_t warm_calls = 20;

/// Of all ranks, each of which gives `call` and its own rank.
constexpr std::uint64_t sum_of(std::uint64_t call) {
  return size * call + size * (size - 1) / 2;
}

/// Calls until one fails, or all are over. The victim stops once, and the test traces what it does
/// from then on.
Result<void> call_all(Group& group, std::uint32_t calls, bool is_traced) {
  for (std::uint64_t call = 0; call < calls; ++call) {
    if (is_traced && call == warm_calls) ::raise(SIGSTOP);
    std::array own{group.rank() + call};
    LEND_TRYV(group.allreduce(sum<std::uint64_t>, own, within(call_limit)));
    REQUIRE(own[0] == sum_of(call));
    LEND_TRYV(group.barrier(within(call_limit)));
  }
  return success();
}

/// Traces the rank, which stops itself, over so many instructions. False: it may not be traced.
[[nodiscard]] bool step(pid_t rank, std::uint32_t instructions) {
  int status = 0;
  if (::waitpid(rank, &status, WUNTRACED) != rank || !WIFSTOPPED(status)) return false;
  if (::ptrace(PTRACE_SEIZE, rank, nullptr, nullptr) != 0) return false;
  ::kill(rank, SIGCONT);
  for (std::uint32_t done = 0; done < instructions;) {
    if (::waitpid(rank, &status, 0) != rank || !WIFSTOPPED(status)) return false;
    done += status >> 8 == SIGTRAP;  // else its stop, or the end of that
    if (::ptrace(PTRACE_SINGLESTEP, rank, nullptr, nullptr) != 0) return false;
  }
  return ::waitpid(rank, &status, 0) == rank && WIFSTOPPED(status);
}

/// The numbers of instructions after which something happens: some of the first ones, which are
/// those of one or two calls.
std::vector<std::uint32_t> moments(std::size_t some) {
  std::mt19937 random{seed_of_this_run()};
  std::vector<std::uint32_t> all;
  for (std::size_t i = 0; i < (thorough() ? 20 * some : some); ++i)
    all.push_back(static_cast<std::uint32_t>(random() % 3'000));
  return all;
}

/// Counts what is posted to send queues of a device.
struct Posts {
  static inline ibv_context_ops device{};
  static inline std::uint64_t keep_alives = 0, others = 0;

  static void count(Context const& context) {
    keep_alives = others = 0;
    auto& ops = context.native()->ops;
    device = ops;
    ops.post_send = [](ibv_qp* queue_pair, ibv_send_wr* work, ibv_send_wr** bad) {
      ++(work->opcode == IBV_WR_RDMA_WRITE && work->num_sge == 0 ? keep_alives : others);
      return device.post_send(queue_pair, work, bad);
    };
  }
};

bool lacks_what_it_takes() {
  auto const device = open_test_device();
  if (lacks(device, &DeviceCapabilities::endpoints)) return true;
  if (device.kind() == DeviceKind::soft) return false;
  skip(device, "peers map its memory");
  return true;
}

std::vector<std::unique_ptr<PeerProcess>> ranks_calling(
    std::function<int(Wire const&, Group&, Context const&)> const& body) {
  std::vector<std::unique_ptr<PeerProcess>> ranks;
  for (std::uint32_t rank = 0; rank < size; ++rank)
    ranks.push_back(std::make_unique<PeerProcess>([rank, body](Wire const& wire) {
      Context const context = open_test_device();
      Group group =
          meet(wire, rank, size, must(context.allocate_protection_domain()), {.keep_alive = 20ms});
      return body(wire, group, context);
    }));
  pass_on(ranks);
  return ranks;
}

}  // namespace

TEST_CASE("a rank killed at any instruction of a call of few bytes is named by the others",
          "[two_process]") {
  if (lacks_what_it_takes()) return;
  for (auto const moment : moments(12)) {
    CAPTURE(moment);
    auto const ranks = ranks_calling([](Wire const&, Group& group, Context const&) {
      auto const done = call_all(group, UINT32_MAX, group.rank() == victim);
      CAPTURE(done.error().message());
      REQUIRE(done.error() == Errc::peer_lost);
      REQUIRE(group.lost_rank() == victim);
      return 0;
    });
    if (!step(ranks[victim]->pid(), moment))
      return skip(open_test_device(), "a process is traced instruction by instruction");
    ranks[victim]->kill();
    for (std::uint32_t rank = 0; rank < size; ++rank)
      CHECK(ranks[rank]->exit_status() == (rank == victim ? 128 + SIGKILL : 0));
  }
}

TEST_CASE("a rank stopped at any instruction of a call of few bytes is awaited, and goes on",
          "[two_process]") {
  if (lacks_what_it_takes()) return;
  for (auto const moment : moments(12)) {
    CAPTURE(moment);
    auto const ranks = ranks_calling([](Wire const& wire, Group& group, Context const&) {
      if (group.rank() == victim) {
        must(call_all(group, 2 * warm_calls, true));
        return 0;
      }
      // Until a call ends by its time, then until all are over.
      bool has_said = false;
      for (std::uint64_t call = 0; call < 2 * warm_calls; ++call) {
        std::array own{group.rank() + call};
        for (bool const is_barrier : {false, true}) {
          for (;;) {
            auto const until = within(has_said ? std::chrono::nanoseconds{call_limit} : 20ms);
            auto const done =
                is_barrier ? group.barrier(until) : group.allreduce(sum<std::uint64_t>, own, until);
            if (done) break;
            REQUIRE(done.error() == Errc::timed_out);
            if (call < warm_calls || std::exchange(has_said, true)) continue;
            REQUIRE(wire.say());
          }
          if (!is_barrier) REQUIRE(own[0] == sum_of(call));
        }
      }
      return has_said ? 0 : 1;
    });
    if (!step(ranks[victim]->pid(), moment))
      return skip(open_test_device(), "a process is traced instruction by instruction");
    for (std::uint32_t rank = 0; rank < size; ++rank)
      if (rank != victim) CHECK(ranks[rank]->wire().hear());
    REQUIRE(::ptrace(PTRACE_DETACH, ranks[victim]->pid(), nullptr, nullptr) == 0);
    for (auto const& rank : ranks) CHECK(rank->exit_status() == 0);
  }
}

TEST_CASE("calls of few bytes post nothing but keep-alives, whoever waits", "[two_process]") {
  if (lacks_what_it_takes()) return;
  auto const ranks = ranks_calling([](Wire const&, Group& group, Context const& context) {
    must(call_all(group, warm_calls, false));
    Posts::count(context);
    must(call_all(group, 1'000, false));
    return Posts::others == 0 ? 0 : 1;
  });
  for (auto const& rank : ranks) CHECK(rank->exit_status() == 0);
}

TEST_CASE("a rank whose calls never wait keeps its peers alive all the same", "[two_process]") {
  if (lacks_what_it_takes()) return;
  std::vector<Context> devices;
  auto ranks = group_of(2, {.keep_alive = 1ms}, &devices);
  Posts::count(devices[0]);
  for (int call = 0; call < 1'000'000 && Posts::keep_alives == 0; ++call) {
    std::array mine{1}, theirs{2};
    auto const first = error_of(ranks[1].allreduce(sum<int>, theirs, within(0s)));
    REQUIRE(first == Errc::timed_out);
    must(ranks[0].allreduce(sum<int>, mine));
    must(ranks[1].allreduce(sum<int>, theirs, within(0s)));
  }
  CHECK(Posts::keep_alives > 0);
  CHECK(Posts::others == 0);
}
