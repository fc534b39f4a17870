// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what changes or ends something of ours does not wait for ever for a process that holds a
// lock of it, and takes nothing back that this process may still touch. Method: the lock is taken
// by one that lives in this process.
#include <lend/lend.hpp>
#include <soft/context.hpp>
#include <soft/holders.hpp>
#include <soft/queue_pair.hpp>

#include <algorithm>
#include <chrono>
#include <vector>

#include "soft/support.hpp"
#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

/// For the time of a test.
class ShortPatience {
 public:
  ShortPatience() { soft::holders_patience() = 20ms; }
  ShortPatience(ShortPatience const&) = delete;
  ShortPatience& operator=(ShortPatience const&) = delete;
  ~ShortPatience() { soft::holders_patience() = 10s; }
};

}  // namespace

TEST_CASE("who holds a lock of a queue pair is waited for, but not for ever", "[soft]") {
  ShortPatience const shorter;
  auto const near = open_context();
  auto const far = open_context();
  End end{near.get()};
  End peer{far.get()};
  bring_to(end.qp.get(), IBV_QPS_RTS, peer.qp->qp_num, {});
  std::vector<std::byte> bytes(64);
  HeldRegion region{verbs().reg_mr(end.domain.get(), bytes.data(), bytes.size(), all_access)};
  auto& qp = *static_cast<soft::QueuePair*>(end.qp.get());
  auto& lock = GENERATE(true, false) ? qp.shared->rx : qp.receives().shared->lock;
  auto const try_all = [&] {
    return std::vector<int>{
        move(&qp, IBV_QPS_ERR, {}, IBV_QP_STATE), verbs().destroy_qp(&qp),
        verbs().dereg_mr(region.get()),
        soft::rereg_mr(region.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0)};
  };

  lock.lock(soft::Context::of(far.get()).claimant);
  std::vector<int> const refused{EBUSY, EBUSY, EBUSY, IBV_REREG_MR_ERR_CMD};
  CHECK(try_all() == refused);
  CHECK_THAT(verbs().last_reason(), Catch::Contains("let it go on, or end it"));
  soft::holders_patience() = 1h;
  CHECK(try_all() == refused);  // at once: nobody waits twice
  lock.unlock();

  CHECK(move(&qp, IBV_QPS_ERR, {}, IBV_QP_STATE) == 0);
  CHECK(verbs().dereg_mr(region.release()) == 0);
}

TEST_CASE("bytes that a stopped peer may touch stay on loan for good, and no end waits for it",
          "[soft]") {
  ShortPatience const shorter;
  auto const far = open_context();
  soft::RobustLock* lock = nullptr;
  {
    auto ends = two_ends();
    auto memory = must(ends.domain.allocate(64));
    auto& context = soft::Context::of(ends.context.native());
    auto const* const first = std::ranges::find_if(
        context.queue_pairs, [](auto const& entry) { return entry.load() != nullptr; });
    lock = &first->load()->shared->rx;  // of `a`, which was made first
    lock->lock(soft::Context::of(far.get()).claimant);
    PollingScope scope{ends.a};
    scope.drain_within(0s);
    static_cast<void>(must(scope.post_receive(memory.scatter(0, 8))));

    auto const error = error_of(scope.finish());

    CHECK(error == Errc::timed_out);
    CHECK_THAT(error.describe(), Catch::Contains("let it go on, or end it"));
    CHECK(memory.loans() == 1);
  }
  lock->unlock();
}
