// SPDX-License-Identifier: MIT OR Apache-2.0
// Described, then compared with the peers, then under way and idle in turn. The thread of the
// group.
#include <base/giving_up.hpp>
#include <channel/work/access.hpp>
#include <group/peers_state.hpp>
#include <group/rows.hpp>
#include <launch/desk_table.hpp>
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
using group::RowsDigest;
using group::RowsNote;

namespace {

std::string text_of(RowsDigest const& rows) {
  return std::to_string(rows.count) + (rows.count == 1 ? " row" : " rows");
}

}  // namespace

struct Exchange::State {
  enum class Phase : std::uint8_t { described, comparing, idle, posting, under_way };
  /// A rank of the rows, and what is compared with it.
  struct Partner {
    std::uint32_t rank;
    RowsNote ours{};
    PendingWork from{}, to{};
  };

  explicit State(Peers& connected) : peers{connected}, scope{connected} {}

  [[nodiscard]] Result<void> begin_comparing();
  template <class Element>
  [[nodiscard]] Result<void> prepare(Row<Element>& row, std::uint32_t most);
  [[nodiscard]] Result<void> compare(Deadline deadline);
  [[nodiscard]] Result<void> check(Partner const& partner, std::size_t index) const;
  [[nodiscard]] Result<void> post_all(Deadline deadline) noexcept;
  /// After all are over.
  [[nodiscard]] Result<void> end() noexcept;
  [[nodiscard]] Result<void> check_length(std::size_t index) noexcept;
  [[nodiscard]] Error is_late(Deadline deadline) const;

  Peers& peers;
  std::vector<Row<ScatterElement>> received{};
  std::vector<Row<GatherElement>> sent{};
  Phase phase = Phase::described;
  std::optional<Error> wrong{};  // since a row was added too late, or rows differ
  std::vector<Partner> partners{};
  std::optional<MemoryRegion> notes{};  // two a partner: its own, and ours
  std::vector<PendingWork> works{};     // of the rows: those received come first
  std::size_t posted = 0;               // of these
  PeerScope scope;                      // ends before the memory
};

Exchange::Exchange(Peers& peers) : state_{std::make_unique<State>(peers)} {}
Exchange::~Exchange() = default;

Exchange& Exchange::send(std::uint32_t rank, GatherList const& row, SourceLine where) {
  if (rank != no_rank) state_->sent.push_back(Row{rank, row, where});
  if (state_->phase != State::Phase::described)
    state_->wrong = Error{Errc::invalid_argument, "a row was added after the first start()"};
  return *this;
}

Exchange& Exchange::receive(std::uint32_t rank, ScatterList const& row, SourceLine where) {
  if (rank != no_rank) state_->received.push_back(Row{rank, row, where});
  if (state_->phase != State::Phase::described)
    state_->wrong = Error{Errc::invalid_argument, "a row was added after the first start()"};
  return *this;
}

// ---- the first start ----

Result<void> Exchange::State::begin_comparing() {
  partners.clear();
  std::map<std::uint32_t, RowsNote> by_rank;
  for (auto const& row : received) by_rank[row.rank].received.add(row.bytes);
  for (auto const& row : sent) by_rank[row.rank].sent.add(row.bytes);
  for (auto const& [rank, note] : by_rank) {
    LEND_TRYV(without_value(scope.on(rank)));
    partners.push_back({rank, note});
  }
  for (auto& row : received) {
    auto const& channel = channel::ChannelState::of(peers[row.rank]);
    LEND_TRYV(prepare(row, channel.connection.raw().receive_elements));
    if (by_rank[row.rank].received.count > channel.receive_depth)
      return Error{Errc::invalid_argument, std::to_string(by_rank[row.rank].received.count) +
                                               " rows come from rank " + std::to_string(row.rank) +
                                               ", and its channel takes " +
                                               std::to_string(channel.receive_depth) +
                                               " receives: say more in PeerOptions"};
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
  for (std::size_t i = 0; i < partners.size(); ++i) {
    LEND_TRY(from, scope.post_receive(partners[i].rank,
                                      notes->scatter(2 * i * sizeof(RowsNote), sizeof(RowsNote))));
    partners[i].from = std::move(from);
  }
  for (std::size_t i = 0; i < partners.size(); ++i) {
    LEND_TRY(to, scope.post_send(partners[i].rank,
                                 notes->gather((2 * i + 1) * sizeof(RowsNote), sizeof(RowsNote))));
    partners[i].to = std::move(to);
  }
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

Result<void> Exchange::State::compare(Deadline deadline) {
  std::vector<std::uint32_t> missing;
  for (Partner& partner : partners)
    for (PendingWork* const work : {&partner.from, &partner.to}) {
      auto const waited = work->wait(deadline);
      if (waited.has_value()) continue;
      if (!base::is_given_up(waited.error())) return waited.error();
      if (missing.empty() || missing.back() != partner.rank) missing.push_back(partner.rank);
    }
  if (!missing.empty())
    return base::gave_up(deadline,
                         launch::list_of(missing) + " did not start an exchange with this rank",
                         ": start() again");
  for (std::size_t i = 0; i < partners.size() && !wrong; ++i)
    if (auto const alike = check(partners[i], i); alike.has_error()) wrong = alike.error();
  if (wrong) return *wrong;
  phase = Phase::idle;
  return success();
}

Result<void> Exchange::State::check(Partner const& partner, std::size_t index) const {
  RowsNote theirs;
  LEND_TRY(bytes, notes->bytes(2 * index * sizeof(RowsNote), sizeof(RowsNote)));
  std::memcpy(&theirs, bytes.data(), sizeof theirs);
  auto const other = "rank " + std::to_string(partner.rank);
  auto const differs = [&](RowsDigest const& sends, RowsDigest const& receives,
                           std::string const& sender, std::string const& receiver) {
    return Error{
        Errc::disagreement,
        sender + " sends " + text_of(sends) + " to " + receiver + ", which receives " +
            (sends.count == receives.count ? "as many, of other lengths" : text_of(receives)) +
            ": the n-th row sent meets the n-th received, of as many bytes"};
  };
  if (partner.ours.sent != theirs.received)
    return differs(partner.ours.sent, theirs.received, "this rank", other);
  if (partner.ours.received != theirs.sent)
    return differs(theirs.sent, partner.ours.received, other, "this rank");
  return success();
}

// ---- each run ----

Result<void> Exchange::State::post_all(Deadline deadline) noexcept {
  if (phase == Phase::idle) posted = 0;
  phase = Phase::posting;
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

Result<void> Exchange::start(Deadline deadline) noexcept try {
  if (state_->wrong) return *state_->wrong;
  if (state_->phase == State::Phase::under_way)
    return Error{Errc::invalid_argument, "the exchange is under way: wait() first"};
  if (state_->phase == State::Phase::described) {
    LEND_TRYV(state_->begin_comparing());
  }
  if (state_->phase == State::Phase::comparing) {
    LEND_TRYV(state_->compare(deadline));
  }
  return state_->post_all(deadline);
} catch (std::bad_alloc const&) {
  return Errc::exhausted;
}

Error Exchange::State::is_late(Deadline deadline) const {
  std::string rows;
  auto const add = [&](auto const& row, char const* way) {
    rows += (rows.empty() ? "" : ", ") + std::to_string(row.bytes) + " bytes " + way + " rank " +
            std::to_string(row.rank);
  };
  for (std::size_t i = 0; i < works.size(); ++i) {
    if (!channel::HandleAccess::is_pending(works[i])) continue;
    if (i < received.size())
      add(received[i], "from");
    else
      add(sent[i - received.size()], "to");
  }
  return base::gave_up(deadline, "an exchange did not end",
                       ": it lacks " + rows + "; wait() again");
}

Result<void> Exchange::State::check_length(std::size_t index) noexcept {
  LEND_TRY(done, works[index].poll());
  if (!done || index >= received.size() || done->bytes == received[index].bytes) return success();
  return Error{Errc::disagreement, "rank " + std::to_string(received[index].rank) + " sent " +
                                       std::to_string(done->bytes) + " bytes to a row of " +
                                       std::to_string(received[index].bytes)};
}

Result<void> Exchange::State::end() noexcept {
  std::optional<Error> first;
  for (std::size_t i = 0; i < works.size() && !first; ++i)
    if (auto const checked = check_length(i); checked.has_error()) first = checked.error();
  for (auto& row : received)
    if (row.is_to_be_unpacked && !first) {
      LEND_TRYV(unpack(row));
    }
  phase = Phase::idle;
  for (PendingWork& work : works) work = PendingWork{};
  if (first) return *first;
  return success();
}

Result<void> Exchange::wait(Deadline deadline) noexcept try {
  if (state_->phase == State::Phase::posting) {
    LEND_TRYV(state_->post_all(deadline));
  }
  if (state_->phase != State::Phase::under_way) return success();
  bool is_late = false;
  for (PendingWork& work : state_->works) {
    static_cast<void>(work.wait(deadline));
    is_late |= channel::HandleAccess::is_pending(work);
  }
  if (is_late) return state_->is_late(deadline);
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

Result<bool> Exchange::poll() noexcept {
  if (state_->phase == State::Phase::posting) return false;
  if (state_->phase != State::Phase::under_way) return true;
  bool is_over = true;
  for (PendingWork& work : state_->works) {
    static_cast<void>(work.poll());
    is_over = is_over && !channel::HandleAccess::is_pending(work);
  }
  if (!is_over) return false;
  LEND_TRYV(state_->end());
  return true;
}

Result<std::optional<std::size_t>> Exchange::wait_any(Deadline deadline) noexcept {
  if (state_->phase != State::Phase::under_way) return std::optional<std::size_t>{};
  auto const rows = std::span{state_->works}.first(state_->received.size());
  LEND_TRY(next, lend::wait_any(rows, deadline));
  if (!next) return next;
  LEND_TRYV(state_->check_length(*next));
  if (auto& row = state_->received[*next]; row.is_to_be_unpacked) {
    LEND_TRYV(unpack(row));
  }
  return next;
}

Exchange& Exchange::drain_within(std::chrono::nanoseconds bound) noexcept {
  state_->scope.drain_within(bound);
  return *this;
}

Result<void> Exchange::finish() noexcept {
  return state_->scope.finish();
}

}  // namespace lend
