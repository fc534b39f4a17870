// SPDX-License-Identifier: MIT OR Apache-2.0
// The runs of an exchange, and its end. The thread of the group.
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

Result<void> group::ExchangeState::post_all(Deadline deadline) noexcept {
  for (; posted < received.size(); ++posted) {
    auto& row = received[posted];
    auto const target = row.packed ? ScatterList{row.packed->scatter(0, row.bytes)} : row.list();
    LEND_TRY(work, row.scope->post_receive(target, deadline, row.where));
    works[posted] = std::move(work);
    row.is_to_be_unpacked = row.packed.has_value();
  }
  for (; posted < works.size(); ++posted) {
    auto& row = sent[posted - received.size()];
    if (row.packed) {
      LEND_TRYV(pack(row));
    }
    auto const source = row.packed ? GatherList{row.packed->gather(0, row.bytes)} : row.list();
    LEND_TRY(work, row.scope->post_send(source, deadline, row.where));
    works[posted] = std::move(work);
  }
  phase = Phase::under_way;
  return success();
}

Result<void> group::ExchangeState::go_on(Deadline deadline) {
  if (phase == Phase::comparing) {
    if (wrong) return *wrong;
    LEND_TRYV(post_notes(deadline));
    LEND_TRYV(compare(deadline));
  }
  if (phase != Phase::posting) return success();
  auto const done = post_all(deadline);
  has_told_break = done.has_error() && done.error() == Errc::channel_broken;
  return done;
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
  if (state.phase == ExchangeState::Phase::idle) state.phase = ExchangeState::Phase::posting;
  return state.go_on(deadline);
} catch (std::bad_alloc const&) {
  return Errc::exhausted;
}

Error group::ExchangeState::is_late(Deadline deadline) const {
  std::string rows;
  auto const add = [&](auto const& row, char const* way) {
    rows += (rows.empty() ? "" : ", ") + std::to_string(row.bytes) + " bytes " + way + " rank " +
            std::to_string(row.rank);
  };
  for (std::size_t i = 0; i < posted; ++i) {
    if (!channel::HandleAccess::is_pending(works[i])) continue;
    if (i < received.size())
      add(received[i], "from");
    else
      add(sent[i - received.size()], "to");
  }
  return base::gave_up(deadline, "an exchange did not end",
                       ": it lacks " + rows + "; wait() again");
}

Result<void> group::ExchangeState::wait_for_posted(Deadline deadline) {
  bool is_late = false;
  for (std::size_t i = 0; i < posted; ++i) {
    auto const waited = works[i].wait(deadline);
    if (!channel::HandleAccess::is_pending(works[i])) continue;
    if (waited.has_error() && !base::is_given_up(waited.error())) return waited.error();
    is_late = true;
  }
  if (is_late) return this->is_late(deadline);
  return success();
}

Result<void> group::ExchangeState::take(std::size_t index) {
  LEND_TRY(done, works[index].poll());
  if (!done || index >= received.size()) return success();
  auto& row = received[index];
  if (done->bytes != row.bytes)
    return Error{Errc::disagreement, "rank " + std::to_string(row.rank) + " sent " +
                                         std::to_string(done->bytes) + " bytes to a row of " +
                                         std::to_string(row.bytes)};
  return row.is_to_be_unpacked ? unpack(row) : success();
}

Result<void> group::ExchangeState::end() {
  auto const worked =
      lend::wait_all(std::span{works}.first(posted), within(std::chrono::nanoseconds{0}));
  Result<void> taken = success();
  bool is_over = true;
  for (std::size_t i = 0; i < posted; ++i) {
    if (channel::HandleAccess::is_pending(works[i]) || works[i].poll().has_error()) continue;
    auto const one = take(i);
    if (one.has_value()) continue;
    is_over = is_over && one.error() != Errc::already_borrowed;
    if (taken.has_value()) taken = one;
  }
  if (is_over) {
    phase = Phase::idle;
    posted = 0;
    for (PendingWork& work : works) work = PendingWork{};
  }
  return worked.has_error() ? worked : taken;
}

Result<void> Exchange::wait(Deadline deadline) noexcept try {
  LEND_TRYV(state_->go_on(deadline));
  if (state_->phase != ExchangeState::Phase::under_way) return success();
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
  if (state.phase != ExchangeState::Phase::under_way) return true;
  bool is_over = true;
  for (PendingWork& work : state.works) {
    static_cast<void>(work.poll());
    is_over = is_over && !channel::HandleAccess::is_pending(work);
  }
  if (!is_over) return false;
  LEND_TRYV(state.end());
  return true;
} catch (std::bad_alloc const&) {
  return Errc::exhausted;
}

Result<std::optional<std::size_t>> Exchange::wait_any(Deadline deadline) noexcept try {
  LEND_TRYV(state_->go_on(deadline));
  if (state_->phase != ExchangeState::Phase::under_way) return std::optional<std::size_t>{};
  auto const rows = std::span{state_->works}.first(state_->received.size());
  LEND_TRY(next, lend::wait_any(rows, deadline));
  if (!next) return next;
  LEND_TRYV(state_->take(*next));
  return next;
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
