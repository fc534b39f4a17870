// SPDX-License-Identifier: MIT OR Apache-2.0
// The runs of an exchange, and its end. The thread of the group.
#include <base/copy_bytes.hpp>
#include <base/giving_up.hpp>
#include <group/calls/exchange_state.hpp>
#include <lend/channel/wait_many.hpp>

#include <algorithm>
#include <functional>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace lend {

using group::ExchangeState;
using group::Row;
using group::WrittenRow;

namespace {

// A run that finds all its rows written polls no device, and learns of no loss.
constexpr std::uint32_t runs_per_look = 256;

}  // namespace

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

Result<void> group::ExchangeState::post_all(Deadline deadline) {
  auto& state = peers.state();
  for (; posted < received.size(); ++posted) {
    auto& row = received[posted];
    if (row.place) {
      row.has_come = row.is_told = false;
      ++written_awaited;
      continue;
    }
    auto const target = row.packed ? ScatterList{row.packed->scatter(0, row.bytes)} : row.list();
    LEND_TRY(work, row.scope->post_receive(target, deadline, row.where));
    works[posted] = std::move(work);
    ++requests;
    row.is_to_be_unpacked = row.packed.has_value();
    state.note_posted(row.rank);
  }
  LEND_TRYV(state.tell_posted(deadline));
  for (; posted < works.size(); ++posted) {
    auto& row = sent[posted - received.size()];
    if (row.place) {
      if (!store_at_once(row)) {
        LEND_TRYV(write(row, works[posted], deadline));
      }
      continue;
    }
    auto const found = state.await_receive(row.rank, deadline);
    if (found.has_error() && base::is_given_up(found.error()))
      return base::gave_up(deadline,
                           "rank " + std::to_string(row.rank) + " has no receive for a row of " +
                               std::to_string(row.bytes) + " bytes: it did not start its exchange",
                           ": start() or wait() again");
    LEND_TRYV(found);
    if (row.packed) {
      LEND_TRY(room, row.packed->mutable_bytes());
      LEND_TRYV(row.copy_to(room.data()));
    }
    auto const source = row.packed ? GatherList{row.packed->gather(0, row.bytes)} : row.list();
    LEND_TRY(work, row.scope->post_send(source, deadline, row.where));
    works[posted] = std::move(work);
    ++requests;
    state.note_sent(row.rank);
  }
  phase = Phase::under_way;
  return success();
}

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
    ++state.run;
  }
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
    if (!is_pending(i)) continue;
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
  if (run % runs_per_look == 0) {
    take_written();  // whose ranks may have ended since
    static_cast<void>(group().look());
  }
  if (!take_written()) {
    LEND_TRY(has_come, wait_until([this] { return take_written(); }, deadline));
    is_late = !has_come;
  }
  for (std::size_t i = 0; requests > 0 && i < posted; ++i) {
    auto const waited = works[i].wait(deadline);
    if (!channel::HandleAccess::is_pending(works[i])) continue;
    if (waited.has_error() && !base::is_given_up(waited.error())) return waited.error();
    is_late = true;
  }
  if (is_late) return this->is_late(deadline);
  return success();
}

bool group::ExchangeState::take_at_once(Row<ScatterElement>& row) const noexcept {
  if (!row.place || !row.has_come) return false;
  if (row.is_told) return true;
  std::byte* const to = row.at_once();
  if (to == nullptr) return false;
  base::copy_bytes({to, row.bytes}, {row.came, row.bytes});
  row.is_told = true;
  return true;
}

Result<void> group::ExchangeState::take(std::size_t index) {
  if (is_written(index)) {
    auto& row = received[index];
    if (!row.has_come) {
      row.is_told = true;
      peers.state().tell_of_end(row.rank);
      Error const* const cause = group().first_cause();
      return cause != nullptr ? *cause : row.channel->failures.broken_error();
    }
    if (row.is_told) return success();
    LEND_TRYV(row.copy_from(row.came));
    row.is_told = true;
    return success();
  }
  LEND_TRY(done, works[index].poll());
  if (!done || index >= received.size()) return success();
  return take_message(received[index], *done);
}

Result<void> group::ExchangeState::take_message(Row<ScatterElement>& row, WorkSuccess const& done) {
  if (done.bytes != row.bytes)
    return Error{Errc::disagreement, "rank " + std::to_string(row.rank) + " sent " +
                                         std::to_string(done.bytes) + " bytes to a row of " +
                                         std::to_string(row.bytes)};
  if (!row.is_to_be_unpacked) return success();
  LEND_TRY(packed, row.packed->bytes());
  return row.copy_from(packed.data());
}

/// As take(), but for the error of its work, which the wait tells, and for what is still to come.
Result<void> group::ExchangeState::take_over(std::size_t index) {
  if (is_pending(index)) return success();
  if (is_written(index)) return take(index);
  auto const done = works[index].poll();
  if (done.has_error() || !done.value() || index >= received.size()) return success();
  return take_message(received[index], *done.value());
}

void group::ExchangeState::end_run() noexcept {
  await_no_rows();
  phase = Phase::idle;
  posted = requests = 0;
}

Result<void> group::ExchangeState::end() {
  // Without requests all rows that came were written.
  if (requests == 0 && phase == Phase::under_way &&
      std::ranges::all_of(received, [this](auto& row) { return take_at_once(row); })) {
    end_run();
    return success();
  }
  auto const to_end = std::span{works}.first(requests > 0 ? posted : 0);
  auto const worked = lend::wait_all(to_end, within(std::chrono::nanoseconds{0}));
  Result<void> taken = success();
  bool is_over = true;
  for (std::size_t i = 0; i < (requests > 0 ? posted : std::min(posted, received.size())); ++i) {
    auto const one = take_over(i);
    if (one.has_value()) continue;
    is_over = is_over && one.error() != Errc::already_borrowed;
    if (taken.has_value()) taken = one;
  }
  if (is_over) {
    for (PendingWork& work : to_end) work = PendingWork{};
    end_run();
  }
  return worked.has_error() ? worked : taken;
}

Result<void> Exchange::wait(Deadline deadline) noexcept try {
  // A run under way, as after start(), needs nothing else of go_on().
  if (state_->phase != ExchangeState::Phase::under_way || state_->group().is_inherited()) {
    LEND_TRYV(state_->go_on(deadline));
    if (state_->phase != ExchangeState::Phase::under_way) return success();
  }
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
  if (!state.take_written()) state.look_beside();
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
    state.take_written();
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
    auto const waited = state.wait_beside(has_come, deadline);
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
  state.await_no_rows();
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
