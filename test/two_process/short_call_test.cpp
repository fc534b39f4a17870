// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a rank that dies or stops at any instruction of a call of few bytes leaves nothing half
// said to the others, and such calls need nothing of the device; one that dies as it shows or reads
// long parts keeps nobody's memory. Method: the test traces the rank, has it go on instruction by
// instruction, and kills it or makes it wait.
#include "group/ranks.hpp"
#include "support/peer_process.hpp"
#include "support/seed.hpp"
#include "support/thorough.hpp"
#include "two_process/group_ranks.hpp"

#include <infiniband/verbs.h>
#include <sys/ptrace.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
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

/// Makes calls one after the other: calls that block, or posted ones that are polled and then
/// waited for.
class Caller {
 public:
  Caller(Group& group, ProtectionDomain const& domain, bool posts) : group_{group} {
    if (!posts) return;
    value_.emplace(must(domain.allocate<std::uint64_t>(1)));
    scope_.emplace(group);
    scope_->drain_within(0s);
  }

  /// Again after it has timed out: goes on.
  Result<void> allreduce(std::uint64_t& own, Deadline until) {
    if (!scope_) return group_.allreduce(sum<std::uint64_t>, std::span{&own, 1}, until);
    if (!pending_) {
      must(value_->mutable_values())[0] = own;
      LEND_TRY(posted, scope_->post_allreduce(sum<std::uint64_t>, value_->scatter()));
      pending_.emplace(std::move(posted));
    }
    LEND_TRYV(end(until));
    own = must(value_->values())[0];
    return success();
  }
  Result<void> barrier(Deadline until) {
    if (!scope_) return group_.barrier(until);
    if (!pending_) {
      LEND_TRY(posted, scope_->post_barrier());
      pending_.emplace(std::move(posted));
    }
    return end(until);
  }

 private:
  Result<void> end(Deadline until) {
    for (int poll = 0; poll < 50; ++poll) {
      LEND_TRY(is_over, pending_->poll());
      if (!is_over) continue;
      pending_.reset();
      return success();
    }
    LEND_TRYV(pending_->wait(until));
    pending_.reset();
    return success();
  }

  Group& group_;
  std::optional<TypedRegion<std::uint64_t>> value_{};
  std::optional<GroupScope> scope_{};
  std::optional<PendingCollective> pending_{};
};

/// Calls until one fails, or all are over. The victim stops once, and the test traces what it does
/// from then on.
Result<void> call_all(Caller& caller, std::uint32_t rank, std::uint32_t calls, bool is_traced) {
  for (std::uint64_t call = 0; call < calls; ++call) {
    if (is_traced && call == warm_calls) ::raise(SIGSTOP);
    std::uint64_t own = rank + call;
    LEND_TRYV(caller.allreduce(own, within(call_limit)));
    REQUIRE(own == sum_of(call));
    LEND_TRYV(caller.barrier(within(call_limit)));
  }
  return success();
}

/// The same of long parts, which peers read where they are; in the end they are the caller's.
Result<void> exchange_all(Group& group, ProtectionDomain const& domain) {
  constexpr std::size_t count = 2'100;
  auto parts = must(domain.allocate<std::uint64_t>(size * count));
  auto all = must(domain.allocate<std::uint64_t>(size * count));
  for (std::uint64_t call = 0;; ++call) {
    std::ranges::fill(must(parts.mutable_values()), call + group.rank());
    if (group.rank() == victim && call == 3) ::raise(SIGSTOP);
    auto const done = group.all_to_all(parts.gather(), all.scatter(), within(call_limit));
    REQUIRE(parts.region().loans() + all.region().loans() == 0);
    if (!done) return done;
    auto const came = must(all.values());
    for (std::size_t i = 0; i < came.size(); ++i) REQUIRE(came[i] == call + i / count);
  }
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
std::vector<std::uint32_t> moments(std::size_t some, std::uint32_t first_ones = 3'000) {
  std::mt19937 random{seed_of_this_run()};
  std::vector<std::uint32_t> all;
  for (std::size_t i = 0; i < (thorough() ? 20 * some : some); ++i)
    all.push_back(static_cast<std::uint32_t>(random() % first_ones));
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
    std::function<int(Wire const&, Group&, ProtectionDomain const&)> const& body) {
  std::vector<std::unique_ptr<PeerProcess>> ranks;
  for (std::uint32_t rank = 0; rank < size; ++rank)
    ranks.push_back(std::make_unique<PeerProcess>([rank, body](Wire const& wire) {
      Context const context = open_test_device();
      ProtectionDomain const domain = must(context.allocate_protection_domain());
      Group group = meet(wire, rank, size, domain, {.keep_alive = 20ms});
      return body(wire, group, domain);
    }));
  pass_on(ranks);
  return ranks;
}

/// All call until the victim is killed, after so many instructions.
void check_killed(std::uint32_t moment,
                  std::function<Result<void>(Group&, ProtectionDomain const&)> const& call) {
  CAPTURE(moment);
  auto const ranks = ranks_calling([&](Wire const&, Group& group, ProtectionDomain const& domain) {
    auto const done = call(group, domain);
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

}  // namespace

TEST_CASE("a rank killed at any instruction of a call of few bytes is named by the others",
          "[two_process]") {
  if (lacks_what_it_takes()) return;
  bool const posts = GENERATE(false, true);
  for (auto const moment : moments(6)) {
    CAPTURE(posts);
    check_killed(moment, [posts](Group& group, ProtectionDomain const& domain) {
      Caller caller{group, domain, posts};
      return call_all(caller, group.rank(), UINT32_MAX, group.rank() == victim);
    });
  }
}

TEST_CASE("a rank killed as it shows and reads long parts is named by the others",
          "[two_process]") {
  if (lacks_what_it_takes()) return;
  for (auto const moment : moments(5, 30'000)) check_killed(moment, exchange_all);
}

TEST_CASE("a rank stopped at any instruction of a call of few bytes is awaited, and goes on",
          "[two_process]") {
  if (lacks_what_it_takes()) return;
  bool const posts = GENERATE(false, true);
  for (auto const moment : moments(6)) {
    CAPTURE(moment, posts);
    auto const ranks =
        ranks_calling([posts](Wire const& wire, Group& group, ProtectionDomain const& domain) {
          Caller caller{group, domain, posts};
          if (group.rank() == victim) {
            must(call_all(caller, victim, 2 * warm_calls, true));
            return 0;
          }
          // Until a call ends by its time, then until all are over.
          bool has_said = false;
          for (std::uint64_t call = 0; call < 2 * warm_calls; ++call) {
            std::uint64_t own = group.rank() + call;
            for (bool const is_barrier : {false, true}) {
              for (;;) {
                auto const until = within(has_said ? std::chrono::nanoseconds{call_limit} : 20ms);
                auto const done = is_barrier ? caller.barrier(until) : caller.allreduce(own, until);
                if (done) break;
                REQUIRE(done.error() == Errc::timed_out);
                if (call < warm_calls || std::exchange(has_said, true)) continue;
                REQUIRE(wire.say());
              }
              if (!is_barrier) REQUIRE(own == sum_of(call));
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
  bool const posts = GENERATE(false, true);
  auto const ranks =
      ranks_calling([posts](Wire const&, Group& group, ProtectionDomain const& domain) {
        Caller caller{group, domain, posts};
        must(call_all(caller, group.rank(), warm_calls, false));
        Posts::count(domain.context());
        must(call_all(caller, group.rank(), 1'000, false));
        return Posts::others == 0 ? 0 : 1;
      });
  for (auto const& rank : ranks) CHECK(rank->exit_status() == 0);
}

TEST_CASE("a rank whose calls never wait keeps its peers alive all the same", "[two_process]") {
  if (lacks_what_it_takes()) return;
  std::vector<Context> devices;
  auto ranks = group_of(2, {.keep_alive = 1ms}, &devices);
  Posts::count(devices[0]);
  bool const posts = GENERATE(false, true);
  auto const domain_of = [&](std::size_t rank) {
    return must(devices[rank].allocate_protection_domain());
  };
  Caller mine{ranks[0], domain_of(0), posts}, theirs{ranks[1], domain_of(1), false};
  for (int call = 0; call < 1'000'000 && Posts::keep_alives == 0; ++call) {
    std::uint64_t own = 1, other = 2;
    REQUIRE(error_of(theirs.allreduce(other, within(0s))) == Errc::timed_out);
    must(mine.allreduce(own, Deadline::never()));
    must(theirs.allreduce(other, within(0s)));
  }
  CHECK(Posts::keep_alives > 0);
  CHECK(Posts::others == 0);
}
