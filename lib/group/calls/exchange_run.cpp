// SPDX-License-Identifier: MIT OR Apache-2.0
// A run of an exchange: its rows are posted or written, waited for, and taken. The thread of the
// group.
#include <base/copy_bytes.hpp>
#include <base/giving_up.hpp>
#include <group/calls/exchange_state.hpp>
#include <lend/channel/wait_many.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

namespace lend::group {

using channel::HandleAccess;

namespace {

// A run that finds all its rows written polls no device, and learns of no loss.
constexpr std::uint32_t runs_per_look = 256;

/// Posts the request of a row. `work` is its handle from then on.
template <class Element>
[[gnu::always_inline]] inline bool post(Row<Element> const& row, PendingWork& work,
                                        Deadline deadline) noexcept {
  using Work = std::conditional_t<std::is_same_v<Element, ScatterElement>, Receive, Send>;
  if (row.only) [[likely]]
    return HandleAccess::post_again<Work>(work, *row.scope, *row.only, deadline, row.where);
  return HandleAccess::post_again<Work>(work, *row.scope, row.list(), deadline, row.where);
}

/// Until its peer has a receive for it.
Result<void> await_receive(PeersState& peers, Row<GatherElement> const& row, Deadline deadline) {
  auto const found = peers.await_receive(row.rank, deadline);
  if (found.has_value() || !base::is_given_up(found.error())) return found;
  return base::gave_up(deadline,
                       "rank " + std::to_string(row.rank) + " has no receive for a row of " +
                           std::to_string(row.bytes) + " bytes: it did not start its exchange",
                       ": start() or wait() again");
}

/// What was written to a row, and has come. False: ExchangeState::take() decides.
bool take_at_once(Row<ScatterElement>& row) noexcept {
  if (row.is_told) return true;
  std::byte* const to = row.at_once();
  if (to == nullptr) return false;
  base::copy_bytes({to, row.bytes}, {row.came, row.bytes});
  row.is_told = true;
  return true;
}

}  // namespace

// ---- posted, or written ----

Result<void> ExchangeState::post_all(Deadline deadline) {
  auto& state = peers.state();
  std::size_t const receives = received.size(), all = works.size();
  for (; posted < receives; ++posted) {
    auto& row = received[posted];
    if (row.place) {
      written.await(row);
      continue;
    }
    if (!post(row, works[posted], deadline)) return HandleAccess::error_of_post(*row.scope);
    ++requests;
    row.is_to_be_unpacked = row.packed.has_value();
    state.note_posted(row.rank);
  }
  LEND_TRYV(state.tell_posted(deadline));
  for (; posted < all; ++posted) {
    auto& row = sent[posted - receives];
    if (row.place) {
      if (!written.store_at_once(row)) {
        LEND_TRY(is_requested, written.write(row, works[posted], deadline));
        requests += is_requested;
      }
      continue;
    }
    if (!state.finds_receive(row.rank)) {
      LEND_TRYV(await_receive(state, row, deadline));
    }
    if (row.packed) {
      LEND_TRY(room, row.packed->mutable_bytes());
      LEND_TRYV(row.copy_to(room.data()));
    }
    if (!post(row, works[posted], deadline)) return HandleAccess::error_of_post(*row.scope);
    ++requests;
    state.note_sent(row.rank);
  }
  phase = Phase::under_way;
  return success();
}

// ---- waited for, and taken ----

Error ExchangeState::is_late(Deadline deadline) const {
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

Result<void> ExchangeState::wait_for_posted(Deadline deadline) {
  bool is_late = false;
  if (!written.take()) {
    LEND_TRY(has_come, written.wait(deadline));
    is_late = !has_come;
  }
  auto const requested = posted_works();
  for (std::size_t i = 0; (i += take_successes(requested.subspan(i))) < requested.size(); ++i) {
    auto const waited = requested[i].wait(deadline);
    if (!HandleAccess::is_pending(requested[i])) continue;
    if (waited.has_error() && !base::is_given_up(waited.error())) return waited.error();
    is_late = true;
  }
  if (is_late) return this->is_late(deadline);
  return success();
}

std::size_t ExchangeState::take_successes(std::span<PendingWork> of) const noexcept {
  if (of.empty()) return 0;
  channel::SetAccess const use{group().links().set()};
  auto const first = std::ranges::find_if_not(
      of, [](PendingWork& work) { return HandleAccess::take_success(work); });
  return static_cast<std::size_t>(first - of.begin());
}

Result<void> ExchangeState::take(std::size_t index) {
  if (is_written(index)) {
    auto& row = received[index];
    if (!row.has_come) {
      row.is_told = true;
      peers.state().tell_of_end(row.rank);
      Error const* const cause = group().failure().cause();
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

Result<void> ExchangeState::take_message(Row<ScatterElement>& row, WorkSuccess const& done) {
  if (done.bytes != row.bytes)
    return Error{Errc::disagreement, "rank " + std::to_string(row.rank) + " sent " +
                                         std::to_string(done.bytes) + " bytes to a row of " +
                                         std::to_string(row.bytes)};
  if (!row.is_to_be_unpacked) return success();
  LEND_TRY(packed, row.packed->bytes());
  return row.copy_from(packed.data());
}

/// As take(), but for the error of its work, which the wait tells, and for what is still to come.
Result<void> ExchangeState::take_over(std::size_t index) {
  if (is_pending(index)) return success();
  if (is_written(index)) return take(index);
  auto const done = works[index].poll();
  if (done.has_error() || !done.value() || index >= received.size()) return success();
  return take_message(received[index], *done.value());
}

bool ExchangeState::ends_at_once() {
  if (phase != Phase::under_way) return false;
  if (written.run() % runs_per_look == 0) {
    written.take();  // whose ranks may have ended since
    static_cast<void>(group().calls().look());
  }
  if (!written.have_come() && !written.take()) return false;
  auto const requested = posted_works();
  if (take_successes(requested) < requested.size()) return false;
  for (std::size_t i = 0; i < received.size(); ++i) {
    auto& row = received[i];
    if (row.place) {
      if (!row.has_come || (!take_at_once(row) && take(i).has_error())) return false;
      continue;
    }
    auto const* const done = HandleAccess::success_of(works[i]);
    if (done->bytes != row.bytes || (row.is_to_be_unpacked && take_message(row, *done).has_error()))
      return false;
  }
  end_run();
  return true;
}

void ExchangeState::end_run() noexcept {
  phase = Phase::idle;
  posted = requests = 0;
}

Result<void> ExchangeState::end() {
  if (ends_at_once()) return success();
  auto const to_end = posted_works();
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
    written.await_none();
    end_run();
  }
  return worked.has_error() ? worked : taken;
}

}  // namespace lend::group
