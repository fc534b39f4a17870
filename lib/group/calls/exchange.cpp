// SPDX-License-Identifier: MIT OR Apache-2.0
// Described, then compared with the peers, then under way and idle in turn, until it has ended. The
// thread of the group.
#include <base/giving_up.hpp>
#include <channel/work/access.hpp>
#include <group/calls/rows.hpp>
#include <group/state/peers_state.hpp>
#include <launch/desk_table.hpp>
#include <lend/channel/drain_bound.hpp>
#include <lend/channel/wait_many.hpp>
#include <lend/group/exchange.hpp>

#include <cstring>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lend {

using group::Row;
using group::RowsNote;

struct Exchange::State {
  enum class Phase : std::uint8_t { described, comparing, idle, posting, under_way, ended };
  /// A rank of the rows, and what is compared with it.
  struct Partner {
    std::uint32_t rank;
    RowsNote ours{};
    PendingWork from{}, to{};
  };

  explicit State(Peers& connected) : peers{connected}, scope{connected} {}

  [[nodiscard]] Result<void> describe();
  [[nodiscard]] Result<void> join(std::uint32_t rank, std::uint64_t rows);
  template <class Element>
  [[nodiscard]] Result<void> prepare(Row<Element>& row, std::uint32_t most);
  /// Each can be called again after an error: it goes on where it was.
  [[nodiscard]] Result<void> post_notes(Deadline deadline) noexcept;
  [[nodiscard]] Result<void> compare(Deadline deadline);
  [[nodiscard]] Result<void> check(Partner const& partner, std::size_t index) const;
  [[nodiscard]] Result<void> post_all(Deadline deadline) noexcept;
  /// What start() has left, if it was called. Then the rows are under way, or there is no run.
  [[nodiscard]] Result<void> go_on(Deadline deadline);
  /// Until all that were posted are over.
  [[nodiscard]] Result<void> wait_for_posted(Deadline deadline);
  /// After that: takes what came. If bytes of it cannot be taken yet, the run is not over.
  [[nodiscard]] Result<void> end();
  /// That of a row that is over. Errors:  its own; another length.
  [[nodiscard]] Result<void> take(std::size_t index);
  [[nodiscard]] Result<void> end_all();
  [[nodiscard]] Error is_late(Deadline deadline) const;

  Peers& peers;
  std::vector<Row<ScatterElement>> received{};
  std::vector<Row<GatherElement>> sent{};
  Phase phase = Phase::described;
  std::optional<Error> wrong{};  // since a row was added too late, or rows differ
  std::vector<Partner> partners{};
  std::optional<MemoryRegion> notes{};  // two a partner: its own, and ours
  std::size_t notes_awaited = 0;        // receives posted, by partners
  std::size_t notes_sent = 0;
  std::vector<PendingWork> works{};  // of the rows: those received come first
  std::size_t posted = 0;            // of these
  bool has_told_break = false;       // as a reason why not all of them are
  channel::DrainBound drain{};
  PeerScope scope;  // ends before the memory
};

Exchange::Exchange(Peers& peers) : state_{std::make_unique<State>(peers)} {}
Exchange::~Exchange() = default;

Exchange& Exchange::send(std::uint32_t rank, GatherList const& row, SourceLine where) {
  if (state_->phase != State::Phase::described)
    state_->wrong = Error{Errc::invalid_argument, "a row was added after the first start()"};
  else if (rank != no_rank)
    state_->sent.push_back(Row{rank, row, where});
  return *this;
}

Exchange& Exchange::receive(std::uint32_t rank, ScatterList const& row, SourceLine where) {
  if (state_->phase != State::Phase::described)
    state_->wrong = Error{Errc::invalid_argument, "a row was added after the first start()"};
  else if (rank != no_rank)
    state_->received.push_back(Row{rank, row, where});
  return *this;
}

// ---- the first start ----

/// Posts nothing, so that it can be repeated.
Result<void> Exchange::State::describe() {
  partners.clear();
  std::map<std::uint32_t, RowsNote> by_rank;
  for (auto const& row : received) by_rank[row.rank].received.add(row.bytes);
  for (auto const& row : sent) by_rank[row.rank].sent.add(row.bytes);
  for (auto const& [rank, note] : by_rank) {
    LEND_TRYV(join(rank, note.received.count));
    partners.push_back({rank, note});
  }
  for (auto& row : received) {
    auto const& channel = channel::ChannelState::of(peers[row.rank]);
    LEND_TRYV(prepare(row, channel.connection.raw().receive_elements));
  }
  for (auto& row : sent) {
    auto const& channel = channel::ChannelState::of(peers[row.rank]);
    LEND_TRYV(prepare(row, channel.connection.raw().elements));
  }
  works.resize(received.size() + sent.size());
  if (!partners.empty()) {
    LEND_TRY(memory, peers[partners.front().rank].protection_domain().allocate(
                         2 * sizeof(RowsNote) * partners.size()));
    notes = std::move(memory);
    LEND_TRY(bytes, notes->mutable_bytes());
    for (std::size_t i = 0; i < partners.size(); ++i)
      std::memcpy(bytes.data() + (2 * i + 1) * sizeof(RowsNote), &partners[i].ours,
                  sizeof(RowsNote));
  }
  phase = Phase::comparing;
  return success();
}

/// Whether `rank` is a peer whose channel takes so many rows.
Result<void> Exchange::State::join(std::uint32_t rank, std::uint64_t rows) {
  LEND_TRYV(without_value(scope.on(rank)));
  auto const& channel = channel::ChannelState::of(peers[rank]);
  if (channel.has_pool)
    return Error{Errc::invalid_argument,
                 "these peers share their receives, and each row needs one of its own: connect "
                 "Peers without PeerOptions::shared_receives for an exchange"};
  if (rows > channel.receive_depth)
    return Error{Errc::invalid_argument, std::to_string(rows) + " rows come from rank " +
                                             std::to_string(rank) + ", and its channel takes " +
                                             std::to_string(channel.receive_depth) +
                                             " receives: say more in PeerOptions"};
  return success();
}

template <class Element>
Result<void> Exchange::State::prepare(Row<Element>& row, std::uint32_t most) {
  LEND_TRY(own, scope.on(row.rank));
  row.scope = own;
  if (row.elements.size() <= most || row.packed) return success();
  LEND_TRY(memory, peers[row.rank].protection_domain().allocate(row.bytes));
  row.packed = std::move(memory);
  return success();
}

Result<void> Exchange::State::post_notes(Deadline deadline) noexcept {
  constexpr std::size_t size = sizeof(RowsNote);
  for (; notes_awaited < partners.size(); ++notes_awaited) {
    auto& partner = partners[notes_awaited];
    auto const into = notes->scatter(2 * notes_awaited * size, size);
    LEND_TRY(work, scope.post_receive(partner.rank, into, deadline));
    partner.from = std::move(work);
  }
  for (; notes_sent < partners.size(); ++notes_sent) {
    auto& partner = partners[notes_sent];
    auto const note = notes->gather((2 * notes_sent + 1) * size, size);
    LEND_TRY(work, scope.post_send(partner.rank, note, deadline));
    partner.to = std::move(work);
  }
  return success();
}

Result<void> Exchange::State::compare(Deadline deadline) {
  std::vector<std::uint32_t> missing;
  for (Partner& partner : partners)
    for (PendingWork* const work : {&partner.from, &partner.to}) {
      auto const waited = work->wait(deadline);
      if (waited.has_value()) continue;
      if (!channel::HandleAccess::is_pending(*work) || !base::is_given_up(waited.error()))
        return waited.error();
      if (missing.empty() || missing.back() != partner.rank) missing.push_back(partner.rank);
    }
  if (!missing.empty())
    return base::gave_up(deadline,
                         launch::list_of(missing) + " did not start an exchange with this rank",
                         ": start() again");
  for (std::size_t i = 0; i < partners.size() && !wrong; ++i)
    if (auto const alike = check(partners[i], i); alike.has_error()) wrong = alike.error();
  if (wrong) return *wrong;
  phase = Phase::posting;
  return success();
}

Result<void> Exchange::State::check(Partner const& partner, std::size_t index) const {
  RowsNote theirs;
  LEND_TRY(bytes, notes->bytes(2 * index * sizeof(RowsNote), sizeof(RowsNote)));
  std::memcpy(&theirs, bytes.data(), sizeof theirs);
  return group::compare(partner.ours, theirs, partner.rank);
}

// ---- each run ----

Result<void> Exchange::State::post_all(Deadline deadline) noexcept {
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

Result<void> Exchange::State::go_on(Deadline deadline) {
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
  if (state.phase == State::Phase::ended)
    return Error{Errc::stale_handle, "the exchange has ended"};
  if (state.wrong) return *state.wrong;
  if (state.phase == State::Phase::under_way)
    return Error{Errc::invalid_argument, "the exchange is under way: wait() first"};
  if (state.phase == State::Phase::described) {
    LEND_TRYV(state.describe());
  }
  if (state.phase == State::Phase::idle) state.phase = State::Phase::posting;
  return state.go_on(deadline);
} catch (std::bad_alloc const&) {
  return Errc::exhausted;
}

Error Exchange::State::is_late(Deadline deadline) const {
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

Result<void> Exchange::State::wait_for_posted(Deadline deadline) {
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

Result<void> Exchange::State::take(std::size_t index) {
  LEND_TRY(done, works[index].poll());
  if (!done || index >= received.size()) return success();
  auto& row = received[index];
  if (done->bytes != row.bytes)
    return Error{Errc::disagreement, "rank " + std::to_string(row.rank) + " sent " +
                                         std::to_string(done->bytes) + " bytes to a row of " +
                                         std::to_string(row.bytes)};
  return row.is_to_be_unpacked ? unpack(row) : success();
}

Result<void> Exchange::State::end() {
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
  if (state_->phase != State::Phase::under_way) return success();
  LEND_TRYV(state_->wait_for_posted(deadline));
  return state_->end();
} catch (std::bad_alloc const&) {
  return Errc::exhausted;
}

Result<void> Exchange::run(Deadline deadline) noexcept {
  if (state_->phase != State::Phase::under_way) {
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
  if (state.phase != State::Phase::under_way) return true;
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
  if (state_->phase != State::Phase::under_way) return std::optional<std::size_t>{};
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
Result<void> Exchange::State::end_all() {
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
  if (state.phase == State::Phase::ended)
    return Error{Errc::stale_handle, "the exchange has ended"};
  auto const own = state.end_all();
  auto const ended = state.scope.finish();
  state.phase = State::Phase::ended;
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
