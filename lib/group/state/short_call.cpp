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
using State = ShortCall::State;

// A posted call that waits sees what comes from the rank that it waits for, and losses. After so
// many looks it sees what all ranks say, too.
constexpr std::uint32_t waits_max = 256;

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
                 .is_stored = true,
                 .combines_own = call.layout().combines_own(),
                 .keeps_own_part = call.keeps_own_part(team.ranks),
                 .has_result = call.has_result(team.ranks)};
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

inline ShortPlan const* ShortCalls::begin(Membership& team, Call const& call) noexcept {
  if (call.block_bytes > ShortCall::bytes_max || call.is_uneven() || team.has_few_links)
    return nullptr;
  ShortPlan const* plan = team.plans.find(call);
  if (plan == nullptr) plan = make_plan(team, call);
  if (plan == nullptr || !plan->is_stored) return nullptr;
  ++team.number;
  status_.enter(team, call);
  return plan;
}

inline std::uint32_t ShortCalls::looks() noexcept {
  return std::min(channel::SetAccess{links_.set()}.spins(), ShortCall::looks_max);
}

ShortCalls::Outcome ShortCalls::run(Membership& team, Call const& call,
                                    Deadline deadline) noexcept {
  if (!deadline.is_never() && deadline.has_passed()) return Outcome::not_begun;
  auto const* const plan = begin(team, call);
  if (plan == nullptr) return Outcome::not_begun;
  ShortCall values{team, call, *plan};
  if (values.run(looks()) == State::over) return Outcome::over;
  go_on_generally(values);
  return Outcome::left;
}

ShortCalls::Outcome ShortCalls::go_on(Membership& team, Call const& call, bool spins) noexcept {
  if (!posted_) {
    auto const* const plan = begin(team, call);
    if (plan == nullptr) return Outcome::not_begun;
    posted_.emplace(team, call, *plan);
    waits_ = 0;
  }
  switch (posted_->run(spins ? looks() : 0)) {
    case State::over: posted_.reset(); return Outcome::over;
    case State::waits:
      if (++waits_ < waits_max) return Outcome::waits;
      [[fallthrough]];
    case State::left: break;
  }
  leave();
  return Outcome::left;
}

void ShortCalls::leave() noexcept {
  go_on_generally(*posted_);
  posted_.reset();
}

void ShortCalls::go_on_generally(ShortCall const& left) noexcept {
  call_.begin_within(left.team(), left.call(), left.round(), left.steps_done(), left.accumulated());
}

// ---- a call ----

ShortCall::ShortCall(Membership& team, Call const& call, ShortPlan const& plan) noexcept
    : team_{team},
      call_{call},
      plan_{plan},
      head_{.signature = plan.signature,
            .team = team.id,
            .number = team.number,
            .length = static_cast<std::uint32_t>(call.block_bytes),
            .collective = call.collective,
            .call_bytes = static_cast<std::uint32_t>(call.block_bytes)},
      is_accumulating_{plan.combines_own} {
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
  if (plan_.combines_own) return copy(accumulator_.data(), call_.in.data());
  if (!plan_.keeps_own_part) return;
  auto const own = team_.ranks.rank * call_.block_bytes;
  auto const& layout = call_.layout();
  copy(call_.out.data() + (layout.out == Parts::all ? own : 0),
       call_.in.data() + (layout.in == Parts::all ? own : 0));
}

State ShortCall::run(std::uint32_t looks) noexcept {
  for (; at_ != plan_.steps.size(); ++at_)
    if (auto const state = take(plan_.steps[at_], looks); state != State::over) return state;
  end();
  return State::over;
}

inline State ShortCall::take(ShortPlan::ShortStep const& step, std::uint32_t looks) noexcept {
  head_.round = step.round;
  if (step.kind == Kind::send)
    return step.link->store_message(head_, place_of(step)) ? State::over : State::left;
  if (step.kind != Kind::combine_own) return receive(step, looks);
  copy(theirs_.data(), place_of(step));
  combine(step.kind);
  return State::over;
}

inline State ShortCall::receive(ShortPlan::ShortStep const& step, std::uint32_t looks) noexcept {
  if (!step.link->takes_messages()) [[unlikely]]
    return State::left;
  bool const combines = step.kind != Kind::receive;
  auto* const target = combines ? theirs_.data() : place_of(step);
  for (std::uint32_t look = 0;; ++look) {
    auto const found = step.link->take_message(head_, target);
    if (found == Mailbox::Look::expected) [[likely]]
      break;
    if (found == Mailbox::Look::other) return State::left;
    if (look == looks) return step.link->peer_has_left() ? State::left : State::waits;
    channel::Waiter::relax();
  }
  if (combines) combine(step.kind);
  return State::over;
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
  if (is_accumulating_ && plan_.has_result) copy(call_.out.data(), accumulator_.data());
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
