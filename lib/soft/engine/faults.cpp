// SPDX-License-Identifier: MIT OR Apache-2.0
// What a planned fault does to the work that it strikes.
#include <soft/engine/faults.hpp>

#include <soft/engine/retry_budgets.hpp>
#include <soft/objects/async_events.hpp>
#include <soft/objects/completion_queue.hpp>
#include <soft/objects/context.hpp>
#include <soft/objects/queue_pair_states.hpp>
#include <soft/platform/clock.hpp>

namespace lend::soft {

namespace {

using Kind = PlannedFault::Kind;

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

void strike(QueuePair& qp, PlannedFault const& fault) noexcept {
  if (fault.kind == Kind::flush) enter_error(qp);
  if (fault.kind == Kind::peer_death && qp.peer != nullptr) qp.peer->mark_dead();
  if (fault.kind == Kind::queue_error) qp.sends().fails.store(true, std::memory_order_relaxed);
  if (fault.kind == Kind::port_down) tell_port(qp.owner(), false);
  if (fault.kind == Kind::port_up) tell_port(qp.owner(), true);
}

std::optional<Outcome> meet_fault(QueuePair& qp, Work const& work) noexcept {
  auto const& fault = *work.fault;
  auto const mark = std::uint64_t{work.position} + 1;
  bool const holds_up = fault.kind == Kind::drop || fault.kind == Kind::delay ||
                        fault.kind == Kind::receiver_not_ready;
  if (!holds_up || qp.meddled == mark) return std::nullopt;
  if (fault.kind != Kind::delay && qp.qp_type != IBV_QPT_RC)  // lost without an error
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
