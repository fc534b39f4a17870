// SPDX-License-Identifier: MIT OR Apache-2.0
// The steps of a plan, one after the other.
#include <channel/work/access.hpp>
#include <group/state/short_call.hpp>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace lend::group {

namespace {

using Kind = Step::Kind;
using Place = Step::Place;

}  // namespace

// ---- the short way ----

ShortPlan const* ShortCalls::make_plan(Membership& team, Call const& call) noexcept try {
  call_.reserve(team);  // what the general way needs where it goes on
  ShortPlan plan{.collective = call.collective,
                 .root = call.root,
                 .block_bytes = call.block_bytes,
                 .element_bytes = call.op.element_bytes,
                 .op = std::string{call.op.name},
                 .signature = call.signature(),
                 .elements = call.block_bytes / call.op.element_bytes,
                 .is_stored = true};
  std::vector<Step> steps;
  auto const rounds = rounds_of(call.collective, team.ranks.size);
  for (std::uint16_t round = 0; round < rounds; ++round) {
    steps.clear();
    add_round(call.collective, team.ranks, call.root, round, steps);
    for (Step const& step : steps) {
      auto const is_own = step.kind == Kind::combine_own;
      Link* const link = is_own ? nullptr : &links_[team.members[step.peer]];
      plan.is_stored = plan.is_stored && (is_own || link->stores_messages());
      plan.steps.push_back({link, step.block, step.kind, step.place, round});
    }
  }
  return &team.plans.add(std::move(plan));
} catch (std::bad_alloc const&) {
  return nullptr;
}

ShortCalls::Outcome ShortCalls::run(Membership& team, Call const& call,
                                    Deadline deadline) noexcept {
  if (call.block_bytes > ShortCall::bytes_max || call.is_uneven() || team.has_few_links)
    return Outcome::not_begun;
  if (!deadline.is_never() && deadline.has_passed()) return Outcome::not_begun;
  ShortPlan const* plan = team.plans.find(call);
  if (plan == nullptr) plan = make_plan(team, call);
  if (plan == nullptr || !plan->is_stored) return Outcome::not_begun;
  channel::SetAccess const set{links_.set()};
  ++team.number;
  status_.enter(team, call);
  ShortCall values{team, call, *plan};
  if (values.run(std::min(set.spins(), ShortCall::looks_max))) return Outcome::over;
  call_.begin_within(team, call, values.round(), values.steps_done(), values.accumulated());
  return Outcome::under_way;
}

// ---- a call ----

ShortCall::ShortCall(Membership const& team, Call const& call, ShortPlan const& plan) noexcept
    : team_{team},
      call_{call},
      plan_{plan},
      head_{.signature = plan.signature,
            .team = team.id,
            .number = team.number,
            .length = static_cast<std::uint32_t>(call.block_bytes),
            .collective = call.collective,
            .call_bytes = static_cast<std::uint32_t>(call.block_bytes)},
      is_accumulating_{combines_own(call.collective)} {
  keep_own_part();
}

/// Most values have 8 bytes.
inline void ShortCall::copy(std::byte* target, std::byte const* source) const noexcept {
  if (call_.block_bytes == sizeof(std::uint64_t)) [[likely]]
    std::memcpy(target, source, sizeof(std::uint64_t));
  else if (call_.block_bytes != 0)
    std::memcpy(target, source, call_.block_bytes);
}

inline void ShortCall::keep_own_part() noexcept {
  auto const [rank, size] = team_.ranks;
  auto const own = rank * call_.block_bytes;
  std::byte const* const in = call_.in.data();
  std::byte* const out = call_.out.data();
  switch (call_.collective) {
    case Collective::reduce:
    case Collective::allreduce:
    case Collective::scan:
    case Collective::exscan: return copy(accumulator_.data(), in);
    case Collective::gather: return rank == call_.root ? copy(out + own, in) : void();
    case Collective::scatter: return rank == call_.root ? copy(out, in + own) : void();
    case Collective::allgather: return copy(out + own, in);
    case Collective::all_to_all: return copy(out + own, in + own);
    case Collective::reduce_scatter: return size == 1 ? copy(out, in) : void();
    default: return;
  }
}

bool ShortCall::run(std::uint32_t looks) noexcept {
  for (; at_ != plan_.steps.size(); ++at_)
    if (!take(plan_.steps[at_], looks)) return false;
  end();
  return true;
}

inline bool ShortCall::take(ShortPlan::ShortStep const& step, std::uint32_t looks) noexcept {
  head_.round = step.round;
  if (step.kind == Kind::send) return step.link->store_message(head_, place_of(step));
  if (step.kind != Kind::combine_own) return receive(step, looks);
  copy(theirs_.data(), place_of(step));
  combine(step.kind);
  return true;
}

inline bool ShortCall::receive(ShortPlan::ShortStep const& step, std::uint32_t looks) noexcept {
  if (!step.link->takes_messages()) [[unlikely]]
    return false;
  bool const combines = step.kind != Kind::receive;
  auto* const target = combines ? theirs_.data() : place_of(step);
  for (std::uint32_t look = 0;; ++look) {
    auto const found = step.link->take_message(head_, target);
    if (found == Mailbox::Look::expected) [[likely]]
      break;
    if (found == Mailbox::Look::other || look == looks) return false;
    channel::Waiter::relax();
  }
  if (combines) combine(step.kind);
  return true;
}

inline void ShortCall::combine(Kind kind) noexcept {
  if (!std::exchange(is_accumulating_, true)) return copy(accumulator_.data(), theirs_.data());
  auto* const own = accumulator_.data();
  auto* const theirs = theirs_.data();
  if (kind != Kind::combine_reverse)
    return call_.op.combine(call_.op.op, own, theirs, plan_.elements);
  call_.op.combine(call_.op.op, theirs, own, plan_.elements);
  copy(own, theirs);
}

inline void ShortCall::end() noexcept {
  if (is_accumulating_ && call_.has_result(team_.ranks))
    copy(call_.out.data(), accumulator_.data());
}

inline std::byte* ShortCall::place_of(ShortPlan::ShortStep const& step) noexcept {
  switch (step.place) {
    case Place::in: return const_cast<std::byte*>(call_.in.data()) + step.block * call_.block_bytes;
    case Place::out: return call_.out.data() + step.block * call_.block_bytes;
    case Place::accumulator: return accumulator_.data();
    default: return nullptr;  // no values
  }
}

std::size_t ShortCall::steps_done() const noexcept {
  std::size_t done = 0;
  while (done != at_ && plan_.steps[at_ - done - 1].round == round()) ++done;
  return done;
}

}  // namespace lend::group
