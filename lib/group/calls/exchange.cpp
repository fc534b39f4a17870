// SPDX-License-Identifier: MIT OR Apache-2.0
// The calls of an exchange. The thread of the group.
#include <base/giving_up.hpp>
#include <group/calls/exchange_state.hpp>
#include <lend/channel/wait_many.hpp>

#include <algorithm>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace lend {

using group::ExchangeState;
using group::Row;

Exchange::Exchange(Peers& peers) : state_{std::make_unique<group::ExchangeState>(peers)} {}
Exchange::~Exchange() = default;

/// A row of `what`, a list or parts, of a rank that there is.
template <class Element, class What>
void group::ExchangeState::add(std::vector<Row<Element>>& rows, std::uint32_t rank,
                               What const& what, SourceLine where) {
  if (phase != Phase::described) {
    wrong = Error{Errc::invalid_argument, "a row was added after the first start()"};
    return;
  }
  if (rank == no_rank) return;
  if constexpr (std::is_same_v<What, ElementList<Element>>) {
    rows.push_back(Row{rank, what, where});
  } else {
    Row<Element> row{rank, where};
    for (auto const& part : what)
      if (auto const added = row.add(part); added.has_error() && !wrong)
        wrong = Error{added.error().code(), "a row of rank " + std::to_string(rank) +
                                                " is refused: " + added.error().message()};
    rows.push_back(std::move(row));
  }
}

Exchange& Exchange::send(std::uint32_t rank, GatherList const& row, SourceLine where) {
  state_->add(state_->sent, rank, row, where);
  return *this;
}
Exchange& Exchange::send(std::uint32_t rank, std::span<GatherParts const> row, SourceLine where) {
  state_->add(state_->sent, rank, row, where);
  return *this;
}
Exchange& Exchange::receive(std::uint32_t rank, ScatterList const& row, SourceLine where) {
  state_->add(state_->received, rank, row, where);
  return *this;
}
Exchange& Exchange::receive(std::uint32_t rank, std::span<ScatterParts const> row,
                            SourceLine where) {
  state_->add(state_->received, rank, row, where);
  return *this;
}

// ---- each run ----

Result<void> group::ExchangeState::go_on(Deadline deadline) {
  if (group().is_inherited()) return group().why_unusable();
  if (phase == Phase::comparing) {
    if (wrong) return *wrong;
    LEND_TRYV(post_notes(deadline));
    LEND_TRYV(compare(deadline));
  }
  if (phase != Phase::posting) return success();
  auto const done = post_all(deadline);
  has_told_break = done.has_error() && done.error() == Errc::channel_broken;
  if (done.has_value()) return success();
  if (!has_told_break) return done;
  auto const rank =
      posted < received.size() ? received[posted].rank : sent[posted - received.size()].rank;
  peers.state().tell_of_end(rank);
  return channel_of(rank).failures.broken_error();
}

Result<void> Exchange::start(Deadline deadline) noexcept try {
  auto& state = *state_;
  if (state.phase == ExchangeState::Phase::ended)
    return Error{Errc::stale_handle, "the exchange has ended"};
  if (state.wrong) return *state.wrong;
  if (state.phase == ExchangeState::Phase::under_way)
    return Error{Errc::invalid_argument, "the exchange is under way: wait() first"};
  if (state.phase == ExchangeState::Phase::described) {
    LEND_TRYV(state.describe());
  }
  if (state.phase == ExchangeState::Phase::idle) {
    state.phase = ExchangeState::Phase::posting;
    state.written.begin_run();
  }
  return state.go_on(deadline);
} catch (std::bad_alloc const&) {
  return Errc::exhausted;
}

Result<void> Exchange::wait(Deadline deadline) noexcept try {
  // A run under way, as after start(), needs nothing else of go_on().
  if (state_->phase != ExchangeState::Phase::under_way || state_->group().is_inherited()) {
    LEND_TRYV(state_->go_on(deadline));
    if (state_->phase != ExchangeState::Phase::under_way) return success();
  }
  if (state_->ends_at_once()) return success();
  LEND_TRYV(state_->wait_for_posted(deadline));
  return state_->end();
} catch (std::bad_alloc const&) {
  return Errc::exhausted;
}

Result<void> Exchange::run(Deadline deadline) noexcept {
  if (state_->phase != ExchangeState::Phase::under_way) {
    LEND_TRYV(start(deadline));
  }
  return wait(deadline);
}

Result<bool> Exchange::poll() noexcept try {
  auto& state = *state_;
  auto const went_on = state.go_on(within(std::chrono::nanoseconds{0}));
  if (went_on.has_error()) {
    if (base::is_given_up(went_on.error())) return false;
    return went_on.error();
  }
  if (state.phase != ExchangeState::Phase::under_way || state.ends_at_once()) return true;
  if (!state.written.take()) state.written.look();
  bool is_over = true;
  for (std::size_t i = 0; i < state.works.size(); ++i) {
    static_cast<void>(state.works[i].poll());
    is_over = is_over && !state.is_pending(i);
  }
  if (!is_over) return false;
  LEND_TRYV(state.end());
  return true;
} catch (std::bad_alloc const&) {
  return Errc::exhausted;
}

Result<std::optional<std::size_t>> Exchange::wait_any(Deadline deadline) noexcept try {
  auto& state = *state_;
  LEND_TRYV(state.go_on(deadline));
  if (state.phase != ExchangeState::Phase::under_way) return std::optional<std::size_t>{};
  auto const next = std::ranges::find_if(state.received,
                                         [](auto const& row) { return row.place && !row.is_told; });
  auto const told = [&](std::size_t row) -> Result<std::optional<std::size_t>> {
    LEND_TRYV(state.take(row));
    return std::optional{row};
  };
  auto const rows = std::span{state.works}.first(state.received.size());
  if (next == state.received.end()) {  // all that are written were told
    LEND_TRY(row, lend::wait_any(rows, deadline));
    return row ? told(*row) : row;
  }
  // One that has come, else one that never does.
  auto const next_written = [&] {
    state.written.take();
    std::size_t lost = rows.size();
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (!state.is_written(row) || state.received[row].is_told) continue;
      if (state.received[row].has_come) return row;
      if (!state.is_pending(row)) lost = row;
    }
    return lost;
  };
  auto const has_come = [&] { return next_written() < rows.size(); };
  for (;;) {
    if (auto const row = next_written(); row < rows.size()) return told(row);
    auto const other = lend::wait_any(rows, within(std::chrono::nanoseconds{0}));
    if (other.has_value() && other.value()) return told(*other.value());
    if (other.has_error() && !base::is_given_up(other.error())) return other;
    auto const waited = state.written.wait_for_any(has_come, deadline);
    if (waited.has_error() && !has_come())
      return base::is_given_up(waited.error()) ? state.is_late(deadline) : waited.error();
  }
} catch (std::bad_alloc const&) {
  return Errc::exhausted;
}

Exchange& Exchange::drain_within(std::chrono::nanoseconds bound) noexcept {
  state_->drain.set(bound);
  state_->scope.drain_within(bound);
  return *this;
}

// ---- its end ----

/// Of the rows under way: posts the rest, waits, and takes all that came in time.
Result<void> group::ExchangeState::end_all() {
  if (phase != Phase::posting && phase != Phase::under_way) return success();
  if (group().is_inherited()) return group().why_unusable();
  auto const until = drain.of_finish();
  scope.drain_until(until);
  bool const was_told = has_told_break;
  auto const went_on = go_on(until);
  auto const waited = wait_for_posted(until);
  auto const taken = end();
  if (was_told) return success();
  for (auto const* const each : {&went_on, &taken, &waited})
    if (each->has_error() && !base::is_given_up(each->error())) return *each;
  return went_on.has_error() ? went_on : waited;
}

Result<void> Exchange::finish() noexcept try {
  auto& state = *state_;
  if (state.phase == ExchangeState::Phase::ended)
    return Error{Errc::stale_handle, "the exchange has ended"};
  auto const own = state.end_all();
  auto const ended = state.scope.finish();
  state.phase = ExchangeState::Phase::ended;
  state.written.await_none();
  for (auto& row : state.received) row.scope = nullptr;
  for (auto& row : state.sent) row.scope = nullptr;
  for (PendingWork& work : state.works) work = PendingWork{};
  // Of rows that were late, the scope says what has become of them.
  if (own.has_error() && (ended.has_value() || !base::is_given_up(own.error()))) return own;
  return ended;
} catch (std::bad_alloc const&) {
  return Errc::exhausted;
}

}  // namespace lend
