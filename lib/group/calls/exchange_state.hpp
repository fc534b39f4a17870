// SPDX-License-Identifier: MIT OR Apache-2.0
// What an exchange keeps: described, then compared with the peers, then under way and idle in turn,
// until it has ended. The thread of the group.
#pragma once

#include <channel/work/access.hpp>
#include <group/calls/rows.hpp>
#include <group/calls/written_rows.hpp>
#include <group/link/row_box.hpp>
#include <group/state/peers_state.hpp>
#include <lend/channel/drain_bound.hpp>
#include <lend/group/exchange.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace lend::group {

struct ExchangeState {
  enum class Phase : std::uint8_t { described, comparing, idle, posting, under_way, ended };
  /// A rank of the rows, and what is compared with it.
  struct Partner {
    std::uint32_t rank;
    RowsNote ours{};
    PendingWork from{}, to{};
    bool copies = true;      // this thread can copy all short rows
    std::size_t box_at = 0;  // of its rows, in the own box
    std::size_t box_bytes = 0;
    PeerBox box{};  // for this rank's rows
  };

  explicit ExchangeState(Peers& connected) : peers{connected}, scope{connected} {}

  template <class Element, class What>
  void add(std::vector<Row<Element>>& rows, std::uint32_t rank, What const& what, SourceLine where);
  [[nodiscard]] Result<void> describe();
  [[nodiscard]] Result<void> join(std::uint32_t rank, std::uint64_t rows);
  template <class Element>
  [[nodiscard]] Result<void> prepare(Row<Element>& row, std::uint32_t most);
  /// Each can be called again after an error: it goes on where it was.
  [[nodiscard]] Result<void> post_notes(Deadline deadline);
  [[nodiscard]] Result<void> compare(Deadline deadline);
  /// Once the notes fit: which rows are written.
  [[nodiscard]] Result<void> choose_written(Partner& partner, RowsNote const& theirs);
  [[nodiscard]] Result<void> post_all(Deadline deadline);
  /// What start() has left, if it was called. Then the rows are under way, or there is no run.
  [[nodiscard]] Result<void> go_on(Deadline deadline);
  /// Of a row that is written. Alike at all ranks of a group, whose devices are of one kind.
  [[nodiscard]] std::size_t short_row_max() const noexcept;
  [[nodiscard]] GroupState& group() const noexcept { return peers.state().group(); }
  [[nodiscard]] channel::ChannelState& channel_of(std::uint32_t rank) const noexcept {
    return channel::ChannelState::of(*peers.state().find(rank));
  }
  /// Whether that row is to be written here.
  [[nodiscard]] bool is_written(std::size_t index) const noexcept {
    return index < received.size() && received[index].place;
  }
  /// Whether the end of that row, which was posted, is still to come.
  [[nodiscard]] bool is_pending(std::size_t index) const noexcept {
    if (!is_written(index)) return channel::HandleAccess::is_pending(works[index]);
    return !received[index].has_come && !received[index].channel->is_broken();
  }
  /// The handles of the rows that were posted. None if all rows are written, which use no handle.
  [[nodiscard]] std::span<PendingWork> posted_works() noexcept {
    return std::span{works}.first(requests > 0 ? posted : 0);
  }
  /// Ends a run whose rows are all over, and as they should be, in one pass. False: the calls below
  /// decide.
  [[nodiscard]] bool ends_at_once();
  /// Until all that were posted are over.
  [[nodiscard]] Result<void> wait_for_posted(Deadline deadline);
  /// Takes results up to the first that is not there, or is a failure. How many.
  [[nodiscard]] std::size_t take_successes(std::span<PendingWork> of) const noexcept;
  /// After that: takes what came. If bytes of it cannot be taken yet, the run is not over.
  [[nodiscard]] Result<void> end();
  void end_run() noexcept;
  /// That of a row that is over. Errors:  its own; another length.
  [[nodiscard]] Result<void> take(std::size_t index);
  [[nodiscard]] Result<void> take_over(std::size_t index);
  [[nodiscard]] Result<void> take_message(Row<ScatterElement>& row, WorkSuccess const& done);
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
  WrittenRows written{group(), received};
  std::vector<PendingWork> works{};  // of the rows: those received come first
  std::size_t posted = 0;            // of these
  std::size_t requests = 0;          // of these: the others are written rows, by this thread
  bool has_told_break = false;       // as a reason why not all of them are
  channel::DrainBound drain{};
  PeerScope scope;  // ends before the memory
};

}  // namespace lend::group
