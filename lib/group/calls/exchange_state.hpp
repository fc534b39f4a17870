// SPDX-License-Identifier: MIT OR Apache-2.0
// What an exchange keeps: described, then compared with the peers, then under way and idle in turn,
// until it has ended. The thread of the group.
#pragma once

#include <channel/work/access.hpp>
#include <group/calls/rows.hpp>
#include <group/link/row_box.hpp>
#include <group/state/peers_state.hpp>
#include <lend/channel/drain_bound.hpp>
#include <lend/group/exchange.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
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
  [[nodiscard]] Result<RowsNote> take_note(std::size_t index) const;
  /// Once the notes fit: which rows are written.
  [[nodiscard]] Result<void> choose_written(Partner& partner, RowsNote const& theirs);
  /// False: nothing was stored, and write() decides.
  [[nodiscard]] bool store_at_once(Row<GatherElement> const& row) const noexcept;
  [[nodiscard]] Result<void> write(Row<GatherElement>& row, PendingWork& work,
                                   Deadline deadline) noexcept;
  [[nodiscard]] Result<void> post_all(Deadline deadline);
  /// What start() has left, if it was called. Then the rows are under way, or there is no run.
  [[nodiscard]] Result<void> go_on(Deadline deadline);
  /// Takes what has been written here, and says whether nothing is awaited any more.
  bool take_written() noexcept;
  /// Whether what is still awaited does not come, because the channels to its ranks are broken.
  [[nodiscard]] bool is_hopeless() const noexcept;
  /// Breaks the group if an awaited row is of a rank that has left it.
  void look_for_losses() noexcept;
  /// Whether keep-alives go to those whose rows are awaited.
  void set_awaited(bool is_awaited) noexcept;
  /// GroupState::look() and wait_for_any() for rows that are to be written here, with their losses.
  void look_beside() noexcept;
  [[nodiscard]] Result<void> wait_beside(std::function<bool()> const& has_come, Deadline deadline);
  /// Until `has_come()`. False: the deadline has passed.
  [[nodiscard]] Result<bool> wait_until(std::function<bool()> const& has_come, Deadline deadline);
  void await_no_rows() noexcept;
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
  /// Until all that were posted are over.
  [[nodiscard]] Result<void> wait_for_posted(Deadline deadline);
  /// After that: takes what came. If bytes of it cannot be taken yet, the run is not over.
  [[nodiscard]] Result<void> end();
  void end_run() noexcept;
  /// That of a row that is over. Errors:  its own; another length.
  [[nodiscard]] Result<void> take(std::size_t index);
  [[nodiscard]] Result<void> take_over(std::size_t index);
  [[nodiscard]] Result<void> take_message(Row<ScatterElement>& row, WorkSuccess const& done);
  /// That of a row that was written, unless it was taken. False: take() decides.
  [[nodiscard]] bool take_at_once(Row<ScatterElement>& row) const noexcept;
  [[nodiscard]] Result<void> end_all();
  [[nodiscard]] Error is_late(Deadline deadline) const;
  /// Of the first start.
  [[nodiscard]] static Error is_late(Deadline deadline, std::vector<std::uint32_t> const& missing);

  Peers& peers;
  std::vector<Row<ScatterElement>> received{};
  std::vector<Row<GatherElement>> sent{};
  Phase phase = Phase::described;
  std::optional<Error> wrong{};  // since a row was added too late, or rows differ
  std::vector<Partner> partners{};
  std::optional<MemoryRegion> notes{};  // two a partner: its own, and ours
  std::size_t notes_awaited = 0;        // receives posted, by partners
  std::size_t notes_sent = 0;
  std::optional<RowBox> box{};       // for short rows of partners
  std::uint32_t run = 0;             // its number; wraps
  std::size_t written_awaited = 0;   // rows that are to be written here
  std::vector<PendingWork> works{};  // of the rows: those received come first
  std::size_t posted = 0;            // of these
  std::size_t requests = 0;          // of these: the others are written rows, by this thread
  bool has_told_break = false;       // as a reason why not all of them are
  channel::DrainBound drain{};
  PeerScope scope;  // ends before the memory
};

}  // namespace lend::group
