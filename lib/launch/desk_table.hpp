// SPDX-License-Identifier: MIT OR Apache-2.0
// Who sits at a desk, and what that allows. No I/O. One thread at a time.
//
//   collecting ─all have handed in cards─▶ asking ─all are ready─▶ going ─all know it─▶ over
//       ▲                                    │
//       └─────────── a rank leaves ──────────┘   the others hand in other cards
//
// Where ranks of a group that broke come again, those that have handed in cards may be enough: they
// are asked without the others. Each list of members that is asked is of a generation of its own.
#pragma once

#include <launch/seat_frames.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace lend::launch {

/// "rank 3" or "ranks 0, 2 to 5 and 9 more"; `ranks` ascend.
[[nodiscard]] std::string list_of(std::vector<std::uint32_t> const& ranks);

class DeskTable {
 public:
  enum class Phase : std::uint8_t { collecting, asking, going, over };
  enum class State : std::uint8_t {
    empty,
    seated,   ///< owes its cards
    offered,  ///< has handed them in
    asked,    ///< is given the others'
    ready,    ///< is connected
    told,     ///< may go
  };

  /// `generation`: the last that this desk has proposed.
  DeskTable(std::uint32_t size, std::string group, std::uint32_t generation = 0)
      : group_{std::move(group)}, seats_(size), empty_{size} {
    members_.generation = generation;
  }

  [[nodiscard]] Phase phase() const noexcept { return phase_; }
  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(seats_.size());
  }
  [[nodiscard]] State state(std::uint32_t rank) const noexcept { return seats_[rank].state; }
  /// Who has a seat, as others learn it.
  [[nodiscard]] std::string const& holder(std::uint32_t rank) const noexcept {
    return seats_[rank].holder;
  }

  /// agreed: `holder` has the seat. Otherwise why not: a clause that follows "this side".
  [[nodiscard]] network::Status sit(Sit const& sit, std::string holder);

  /// collecting: whether so many have handed in cards that they may begin without the others,
  /// patience_ms() after.
  [[nodiscard]] bool are_enough() const;
  [[nodiscard]] std::uint32_t patience_ms() const;
  /// Asks those that have handed in cards, unless one that sits has yet to. True: it did.
  [[nodiscard]] bool begin_without_the_others();
  /// collecting: of the last proposal. Later: which ranks are asked.
  [[nodiscard]] Members const& members() const noexcept { return members_; }

  // Events of a rank that sits; false: it came out of turn.

  /// Its cards are complete.
  [[nodiscard]] bool offers(std::uint32_t rank);
  /// It has connected all its links.
  [[nodiscard]] bool is_ready(std::uint32_t rank);
  /// It is let go. Shape: phase() is going.
  void tell(std::uint32_t rank);
  /// Its connection is over. True: what had been handed out is withdrawn, from all others.
  [[nodiscard]] bool leaves(std::uint32_t rank, std::string const& why);

  /// What keeps the ranks waiting: "rank 3 has not come".
  [[nodiscard]] std::string awaited() const;

 private:
  struct Seat {
    State state = State::empty;
    std::string holder{};
    Coming coming{};
  };
  [[nodiscard]] std::vector<std::uint32_t> all_in(State state) const;
  /// All in `from` are in `to` from now on.
  void move_all(State from, State to);
  void propose();
  void end_if_all_are_told();

  std::string group_;
  std::vector<Seat> seats_;  // by rank
  Terms terms_{};            // of the first that sat
  Members members_{};
  Phase phase_ = Phase::collecting;
  std::uint32_t empty_;      // seats
  std::uint32_t count_ = 0;  // collecting: have handed in cards; later: have yet to be ready, told
  std::string last_left_{};
};

}  // namespace lend::launch
