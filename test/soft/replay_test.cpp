// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a plan of faults that was drawn by lot strikes the same way each time, so that what a test
// found can be found again. Method: one program of verbs, run with a plan and again with its text;
// what the program saw of each call and each completion is the same.
#include <lend/soft/faults.hpp>
#include <soft/objects/context.hpp>

#include <set>

#include "soft/support.hpp"
#include "support/seed.hpp"
#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;

namespace {

constexpr int queue_failed = -1;
constexpr unsigned rounds = 12;
constexpr unsigned batch = 3;

/// A program that connects, posts a batch and takes its ends, again and again; and what it saw.
class Program {
 public:
  explicit Program(FaultPlan const& plan) {
    soft::Context::of(context_.get()).faults.plan(plan.faults());
    for (round_ = 0; round_ < rounds; ++round_) run();
  }
  [[nodiscard]] std::vector<int> const& seen() const noexcept { return seen_; }

 private:
  bool succeeds(int error) {
    seen_.push_back(error);
    return error == 0;
  }
  template <class Made>
  bool succeeds(Made const& made) {
    return succeeds(made ? 0 : errno);
  }

  void run() {
    HeldDomain const domain{ibv().alloc_pd(context_.get())};
    if (!succeeds(domain)) return;
    HeldQueue const queue{ibv().create_cq(context_.get(), 16, nullptr, nullptr, 0)};
    if (!succeeds(queue)) return;
    ibv_qp_init_attr asked{};
    asked.send_cq = asked.recv_cq = queue.get();
    asked.qp_type = round_ % 4 == 3 ? IBV_QPT_UC : IBV_QPT_RC;
    asked.cap = {8, 8, 1, 1, 0};
    HeldQueuePair const qp{ibv().create_qp(domain.get(), &asked)};
    if (!succeeds(qp)) return;
    End const peer{other_.get(), {.type = asked.qp_type}};
    Terms terms;
    terms.retries = 1;
    terms.rnr_retries = 1;
    auto const attributes = attributes_for(peer.qp->qp_num, terms);
    auto const needs = needs_of(asked.qp_type);
    if (!succeeds(move(qp.get(), IBV_QPS_INIT, attributes, needs.init)) ||
        !succeeds(move(qp.get(), IBV_QPS_RTR, attributes, needs.rtr)) ||
        !succeeds(move(qp.get(), IBV_QPS_RTS, attributes, needs.rts)))
      return;
    bring_to(peer.qp.get(), IBV_QPS_RTS, qp->qp_num);
    for (unsigned i = 0; i < batch; ++i) REQUIRE(post_receive(peer, i) == 0);
    ibv_send_wr works[batch] = {};
    for (unsigned i = 0; i < batch; ++i) {
      works[i].wr_id = i;
      works[i].opcode = IBV_WR_SEND;
      works[i].send_flags = IBV_SEND_SIGNALED;
      works[i].next = i + 1 < batch ? &works[i + 1] : nullptr;
    }
    ibv_send_wr* bad = nullptr;
    if (succeeds(ibv_post_send(qp.get(), works, &bad))) take_ends(queue);
  }

  void take_ends(HeldQueue const& queue) {
    auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds{10};
    auto const before = seen_.size();
    for (unsigned taken = 0; taken < batch;) {
      REQUIRE(std::chrono::steady_clock::now() < limit);
      ibv_wc end{};
      auto const count = ibv_poll_cq(queue.get(), 1, &end);
      if (count < 0) {
        // How much it gave before depends on how fast this thread was.
        seen_.resize(before);
        seen_.push_back(queue_failed);
        return;
      }
      if (count == 0) continue;
      CHECK(end.wr_id == taken++);
      seen_.push_back(end.status);
    }
  }

  HeldContext context_ = open_context();
  HeldContext other_ = open_context();
  unsigned round_ = 0;
  std::vector<int> seen_;
};

}  // namespace

TEST_CASE("a plan drawn by lot strikes the same way each time, and from its words", "[soft]") {
  auto const undisturbed = Program{{}}.seen();
  std::set<int> statuses;
  unsigned disturbed = 0;
  auto const all = seeds(40);
  for (auto const seed : all) {
    auto const plan = FaultPlan::random(seed, 6, rounds * batch);
    INFO("LEND_TEST_SEED=" << seed << ": " << plan.text());

    auto const first = Program{plan}.seen();
    auto const again = Program{must(FaultPlan::parse(plan.text()))}.seen();

    CHECK(first == again);
    statuses.insert(first.begin(), first.end());
    disturbed += first != undisturbed;
  }
  CHECK(disturbed * 10 >= all.size() * 9);
  if (all.size() == 1) return;
  // Each kind that can be seen was, and each errno.
  for (int const status :
       {int{queue_failed}, int{IBV_WC_RETRY_EXC_ERR}, int{IBV_WC_RNR_RETRY_EXC_ERR},
        int{IBV_WC_WR_FLUSH_ERR}, ENOMEM, EAGAIN, EACCES})
    CHECK(statuses.count(status) == 1);
}
