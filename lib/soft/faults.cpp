// SPDX-License-Identifier: MIT OR Apache-2.0
// Planned faults at work.
#include "faults.hpp"

#include "clock.hpp"
#include "completion_queue.hpp"
#include "context.hpp"
#include "engine.hpp"
#include "fault_plan.hpp"
#include "post.hpp"
#include "queue_pair.hpp"
#include "reason.hpp"
#include "timers.hpp"

#include <lend/verbs/context.hpp>

#include <algorithm>
#include <new>

namespace lend::soft {
namespace {

using Kind = PlannedFault::Kind;

PlannedFault const* find(std::vector<PlannedFault> const& faults, std::uint64_t number) noexcept {
  auto const found =
      std::lower_bound(faults.begin(), faults.end(), number,
                       [](PlannedFault const& fault, std::uint64_t at) { return fault.at < at; });
  return found != faults.end() && found->at == number ? &*found : nullptr;
}

/// How long the work is held up, for ever where the budget says so, and whether it fails then.
struct Hold {
  std::uint64_t time;
  bool fails;
};

Hold hold_of(QueuePair const& qp, PlannedFault const& fault) noexcept {
  auto const& attributes = qp.attributes;
  auto const times = static_cast<std::uint32_t>(fault.amount);
  switch (fault.kind) {
    case Kind::delay: return {fault.amount, false};
    case Kind::drop: {
      bool const fails = times > attributes.retry_cnt;
      auto const tries = fails ? attributes.retry_cnt + 1u : times;
      return {tries == 0 ? 0 : silence_budget(attributes.timeout, tries - 1), fails};
    }
    default: {
      bool const fails = attributes.rnr_retry != 7 && times > attributes.rnr_retry;
      auto const delay = receiver_delay(qp.target->rnr_timer.get());
      return {delay * (fails ? attributes.rnr_retry : times), fails};
    }
  }
}

}  // namespace

void Faults::plan(FaultPlan const& plan) {
  std::vector<PlannedFault> operations;
  std::vector<PlannedFault> calls;
  for (auto const& fault : plan.faults())
    (fault.kind == Kind::control_call ? calls : operations).push_back(fault);
  for (auto* const faults : {&operations, &calls})
    std::stable_sort(
        faults->begin(), faults->end(),
        [](PlannedFault const& one, PlannedFault const& two) { return one.at < two.at; });
  std::lock_guard const guard{control_};
  operations_ = std::move(operations);
  calls_ = std::move(calls);
  operation_.store(0, std::memory_order_relaxed);
  call_.store(0, std::memory_order_relaxed);
  any_.store(!plan.faults().empty(), std::memory_order_relaxed);
}

PlannedFault const* Faults::next_operation() noexcept {
  return find(operations_, operation_.fetch_add(1, std::memory_order_relaxed) + 1);
}

int Faults::next_control_call() noexcept {
  if (!are_planned()) return 0;
  std::lock_guard const guard{control_};
  auto const* const fault = find(calls_, call_.fetch_add(1, std::memory_order_relaxed) + 1);
  return fault == nullptr ? 0 : static_cast<int>(fault->amount);
}

int planned_failure(ibv_context* context) noexcept {
  auto const error = Context::of(context).faults.next_control_call();
  return error == 0 ? 0
                    : fail(error, "a fault was planned for this call: end the plan or try again");
}

void strike(QueuePair& qp, PlannedFault const& fault) noexcept {
  if (fault.kind == Kind::flush) enter_error(qp);
  if (fault.kind == Kind::peer_death && qp.peer != nullptr) qp.peer->mark_dead();
  if (fault.kind == Kind::queue_error) qp.sends().fails.store(true, std::memory_order_relaxed);
}

std::optional<Outcome> meet_fault(QueuePair& qp, Work const& work) noexcept {
  auto const& fault = *work.fault;
  auto const mark = std::uint64_t{work.position} + 1;
  bool const holds_up = fault.kind == Kind::drop || fault.kind == Kind::delay ||
                        fault.kind == Kind::receiver_not_ready;
  if (!holds_up || qp.meddled == mark) return std::nullopt;
  if (fault.kind != Kind::delay && qp.qp_type != IBV_QPT_RC)  // lost, and nobody is told
    return Outcome{Outcome::Kind::done, 0, Fault::planned, IBV_WC_SUCCESS, 0};
  auto const hold = hold_of(qp, fault);
  if (qp.stall.why != Stall::Why::fault) {
    qp.stall.why = Stall::Why::fault;
    qp.stall.deadline = hold.time == for_ever ? 0 : now() + hold.time;
  }
  if (qp.stall.deadline == 0 || now() < qp.stall.deadline)
    return Outcome{Outcome::Kind::held_up, 0, Fault::planned, IBV_WC_SUCCESS, 0};
  qp.stall.why = Stall::Why::none;
  qp.meddled = mark;
  if (!hold.fails) return std::nullopt;
  return Outcome{Outcome::Kind::done, 0, Fault::planned,
                 fault.kind == Kind::drop ? IBV_WC_RETRY_EXC_ERR : IBV_WC_RNR_RETRY_EXC_ERR, 0};
}

}  // namespace lend::soft

namespace lend {

Result<void> inject_faults(Context const& context, FaultPlan const& plan) try {
  if (context.kind() != DeviceKind::soft)
    return Error{Errc::unsupported,
                 "faults can be planned on the soft device only, this is " + context.name()};
  LEND_TRYV(soft::check(plan));
  soft::Context::of(context.native()).faults.plan(plan);
  return success();
} catch (std::bad_alloc const&) {
  return Error{Errc::exhausted};
}

}  // namespace lend
