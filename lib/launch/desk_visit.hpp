// SPDX-License-Identifier: MIT OR Apache-2.0
// A rank's side of a meeting at a desk. It knows no device. One thread at a time.
//
//   rank                     desk
//   hello            →
//                    ←       hello, proof     as in exchange.hpp
//   proof, sit       →
//                    ←       agreed           it sits
//   cards            →
//                    ←       members, cards   once all have handed in theirs, or enough
//        …connects its links…
//   ready            →
//                    ←       ready            once all are: it may go
//
// From the first cards on the desk may say `again`: a rank was lost; all hand in other cards. To
// `awaited` it answers which ranks are missing. Any other status ends the meeting.
#pragma once

#include <launch/desk_state.hpp>
#include <launch/seat_frames.hpp>
#include <network/wire/talk.hpp>

#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>
#include <lend/launch/seat.hpp>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lend::launch {

/// Ranks that are to be a group, and what they have for this one.
struct Proposal {
  Members members{};
  std::vector<Card> cards{};
};

class DeskVisit {
 public:
  /// Sits at the desk, which this rank serves while it waits if it is the one to. Tries again while
  /// there is no desk, or it has no place.
  /// Errors:  invalid_argument  no such seat.  unsupported  as Secret::of(). Those of find_desk().
  ///          timed_out, cancelled, incompatible_peer, denied, exhausted, system_failed.
  [[nodiscard]] static Result<DeskVisit> sit(Seat const& seat, Terms const& terms,
                                             Deadline deadline, Coming const& coming = {});

  /// Hands in a card for each link, and waits for those of the other ends that are members, in the
  /// same order. None: again, with other ones.
  /// Shape:   each rank once.
  /// Errors:  timed_out, cancelled  names the missing ranks. peer_lost  the desk is gone.
  ///          incompatible_peer     the ranks do not have the same links.
  [[nodiscard]] Result<std::optional<Proposal>> swap(std::span<Card const> cards);
  /// Until one of the descriptors is readable, or the deadline; serves the desk meanwhile.
  /// Errors:  what was asked of this rank is withdrawn, and begins_again() is true; or the desk
  ///          ended the meeting, or is gone.
  [[nodiscard]] Result<void> sleep_on(std::span<int const> descriptors, Deadline deadline);
  /// Says that all links are connected. True: all are, at all ranks. False: again.
  /// Errors:  those of swap(). This rank is in no group then.
  [[nodiscard]] Result<bool> confirm();
  /// After a link could not be connected: whether the reason is a rank that was lost, so that all
  /// begin again. The desk learns of that at once; without its word within 2 s this rank gives up,
  /// and tells the desk, and by it the others, why.
  [[nodiscard]] bool begins_again(std::string const& why);
  void give_up(std::string const& why);
  /// After give_up(): comes again, as one that was started again does.
  /// Errors:  those of sit().
  [[nodiscard]] Result<void> sit_again();

 private:
  DeskVisit(Seat const& seat, network::Secret secret, Sit sit, Deadline deadline) noexcept;
  [[nodiscard]] Result<void> sit_once();
  [[nodiscard]] Result<void> send(network::Frame const& frame);
  /// The next frame that is no answer to a question.
  [[nodiscard]] Result<void> next_frame();
  /// Adds a frame of members. True: these are all.
  [[nodiscard]] Result<bool> take_members(Members& members) const;
  [[nodiscard]] Result<std::vector<Card>> in_order_of(std::span<Card const> cards,
                                                      std::vector<Card> theirs,
                                                      Members const& members) const;
  /// The status in reader_ is `again`, or the end of the meeting.
  [[nodiscard]] Result<void> take_withdrawal();
  [[nodiscard]] Error gave_up() const;
  [[nodiscard]] Error about_desk(Errc code, std::string const& clause) const;

  std::uint32_t rank_, size_;
  std::string desk_name_;
  network::Secret secret_;
  Sit sit_;
  Deadline deadline_, asks_at_;
  std::unique_ptr<DeskState> desk_{};  // where this rank serves it
  network::Socket socket_{};
  std::unique_ptr<network::Sealing> sealing_{};
  std::unique_ptr<network::FrameReader> reader_ =
      std::make_unique<network::FrameReader>();  // keeps its place
  bool has_asked_ = false;
  bool is_withdrawn_ = false;  // sleep_on() has heard it
  std::string awaited_{};      // what the desk said last
};

/// Whether there can be such a seat.
/// Errors:  invalid_argument.
[[nodiscard]] Result<void> check(Seat const& seat);

}  // namespace lend::launch
