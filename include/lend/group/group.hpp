// SPDX-License-Identifier: MIT OR Apache-2.0
// Ranks 0 … N − 1, with channels to each other or to few: barriers and collectives. One thread at a
// time.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/group/group_options.hpp>
#include <lend/group/team.hpp>
#include <lend/launch/seat.hpp>
#include <lend/verbs/protection_domain.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace lend {

namespace launch {
struct Coming;
}  // namespace launch

/// Processes that call collectives together; Team declares the collectives.
///
/// A rank that dies breaks the group: calls return peer_lost and name that rank, as soon as a
/// keep-alive of any waiting rank detects the loss. A call that needs no more messages from it
/// succeeds. A rank whose Group is destroyed has *left*: that breaks the group when a call of
/// another rank receives from it or sends to it, or at once if it left in the middle of a call.
///
/// **A rank tells all others why its group is broken before its links end**, which takes at most
/// 200 ms. So all name the same rank, also those that call after the first ones have ended. A
/// waiting rank names a dead rank within GroupOptions::keep_alive + 10 ms + (ack_retries + 1) ·
/// ack_timeout + 200 ms; the others name it in their next call that needs a message. If several
/// ranks die at once, each survivor names one of them, but not all the same one. A rank that dies
/// while it sends the reason may be named in place of the reason.
///
/// The surviving ranks can rejoin(), with processes started in place of the lost ranks.
class LEND_EXPORT Group : public Team {
 public:
  /// Meets the other ranks and connects to those that GroupOptions::links says:
  ///
  ///     LEND_TRY(seat, Seat::from_environment());
  ///     LEND_TRY(group, Group::join(domain, seat, within(30s)));
  ///
  /// The ranks come in any order. Unless the desk is served by another process, rank 0 serves it
  /// within this call, without a thread. If a rank dies before all are connected, its place is free
  /// for one that is started again until the deadline. The deadline does not bound the resolver.
  /// A rank that was started in place of a lost one joins the others when they rejoin(): then
  /// size() may be lower than that of the seat, and rank() too.
  /// Shape:   the same options at all ranks.
  /// Errors:  timed_out, cancelled  not all came; the message names those that are missing.
  ///          incompatible_peer  this rank has another size, group, secret or other options than
  ///                             the others, or its rank sits already; both values are named.
  ///          peer_lost          the desk's process is gone, or the launcher at "pmi:fd=N".
  ///          invalid_argument   no such seat, or options out of range.
  ///          Those of Listener::open() at rank 0, and of connect() at the others. Those of
  ///          PreparedGroup.
  [[nodiscard]] static Result<Group> join(ProtectionDomain const& domain, Seat const& seat,
                                          Deadline deadline, GroupOptions const& options = {});
  Group(Group&&) noexcept;
  Group& operator=(Group&&) noexcept;
  /// Leaves: the other ranks need not wait for anything that was sent. Takes up to 1 s if one of
  /// them has died.
  ~Group();

  /// The team of these ranks, in this order. Local: says nothing to the others. The same list gives
  /// the same team again, whose calls are counted together; other members or another order is
  /// another team. All ranks in their order are the group itself.
  ///
  ///     std::array const even{0u, 2u, 4u};
  ///     LEND_TRY(evens, group.team(even));
  ///     LEND_TRYV(evens.barrier(within(1s)));
  ///
  /// Once the Group has ended, its teams' calls return stale_handle. Keeps 4 bytes a member until
  /// then.
  /// Errors:  invalid_argument  no rank, one twice, one that does not exist, or not this one; two
  ///                            that have no link (GroupLinks::few), at each of the members. Or
  ///                            another team of this rank has the same number, a hash of the list.
  ///                            Each member of both teams gets this error for the one that it makes
  ///                            second: make teams in the same order at all ranks, so that it is
  ///                            the same one.
  [[nodiscard]] Result<Team> team(std::span<std::uint32_t const> members);

  /// Gives up the call under way, of this group or a team: the memory that it was given is the
  /// caller's again. That breaks the group, because what was sent cannot be taken back; the others
  /// learn it, in up to 200 ms. Does nothing if no call is under way.
  void abandon() noexcept;
  /// The same with a reason, which first_cause() then has, and also between calls: a rank that
  /// cannot go on ends the work of all, in up to 200 ms. Does nothing if the group is broken.
  void abandon(std::string_view why) noexcept;

  /// Takes what has come, without waiting: a rank that computes for long learns here whether the
  /// others can go on.
  /// Errors:  as Team::barrier(), of what breaks the group; channel_broken if it was broken before.
  [[nodiscard]] Result<void> check() noexcept;

  // ---- in the program's own event loop: as WaitSet's ----

  /// The same as check(), and goes on with what GroupScopes have posted. True if anything has come.
  [[nodiscard]] Result<bool> poll() noexcept;
  /// The last call before a sleep on descriptor(). True: nothing is there, sleep. False: poll().
  /// Errors:  those of check() and WaitSet::arm().
  [[nodiscard]] Result<bool> arm() noexcept;
  /// For poll(2) or epoll(7), after arm(). The group's: never read or close it.
  [[nodiscard]] int descriptor() const noexcept;
  /// When to poll() though the descriptor is silent: a short message is a write, which wakes no
  /// thread. Never, where GroupOptions::wait is Wait::event.
  [[nodiscard]] Deadline look_again() const noexcept;

  /// Ends this group, and makes another with the ranks that are left and those that were started in
  /// place of lost ones, which call join() with that seat:
  ///
  ///     LEND_TRY(next, group.rejoin(seat, within(30s), {.at_least = 3}));
  ///
  /// The desk takes the ranks that come until all seats are taken, or so many as `how` says. If
  /// some stay empty, the group has fewer ranks, numbered from 0 in the order of seats. `seat` is
  /// that of join(), also if this rank has another number now; the same size and desk at all ranks,
  /// which may be others than before. A desk makes no two groups of one generation. Without one in
  /// another process, that of seat 0 serves it: if that was lost, the others wait until it is
  /// started again, and `at_least` of more than half keeps two halves from going on apart.
  ///
  /// A call under way is abandoned. May be called again after an error.
  /// Errors:  those of join() with the domain and the options of this group, and
  ///          invalid_argument  at_least is more than the seats, or fewer where ranks have few
  ///                            links; patience out of range. This group goes on.
  ///          system_failed     in a forked child: the group is the parent's.
  [[nodiscard]] Result<Group> rejoin(Seat const& seat, Deadline deadline, Rejoin const& how = {});
  /// Which one it is of those that its ranks have been in: 1, and more after each rejoin().
  [[nodiscard]] std::uint32_t generation() const noexcept;
  /// Calls that this rank has finished, of this group without its teams.
  [[nodiscard]] std::uint64_t finished() const noexcept;
  /// Calls of the group before that were finished by all its ranks that are in this one; 0 where
  /// there is none. A rank whose finished() was higher goes back so many calls, to go on together:
  /// one, if each call was an allreduce or a barrier.
  [[nodiscard]] std::uint64_t finished_by_all() const noexcept;

 private:
  friend class PreparedGroup;
  explicit Group(std::shared_ptr<group::GroupState> state) noexcept;
  [[nodiscard]] static Result<Group> meet(ProtectionDomain const& domain, Seat const& seat,
                                          Deadline deadline, GroupOptions const& options,
                                          launch::Coming& coming);
};

}  // namespace lend
