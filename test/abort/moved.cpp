// SPDX-License-Identifier: MIT OR Apache-2.0
// An object is used under the name that it was moved away from.
#include <lend/doctor/examine_pair.hpp>
#include <lend/group.hpp>

#include "cases.hpp"
#include "looped.hpp"

#include <array>

namespace {

/// A queue pair of the same domain that is its own peer.
lend::Result<lend::QueuePair> queue_pair_of(Looped const& looped) {
  LEND_TRY(prepared, lend::channel_builder().protection_domain(looped.domain).build());
  auto bare = prepared.take_queue_pair();
  auto const self = prepared.endpoint();
  return std::move(bare).connect(self);
}

/// A MultiChannel whose only peer is itself.
lend::Result<lend::MultiChannel> itself_as_peer(Looped const& looped) {
  LEND_TRY(set, lend::WaitSet::create(looped.domain.context()));
  LEND_TRY(prepared, lend::PreparedMultiChannel::prepare(looped.domain, set, 1));
  auto const self = prepared.endpoints();
  return std::move(prepared).handshake(self);
}

// A channel is asked for its depth under the name it was moved away from.
ABORT_CASE(channel_asked_after_move, "moved from") {
  LEND_TRY(looped, Looped::make());
  lend::Channel const elsewhere{std::move(looped.channel)};
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  return looped.channel.send_depth() > 0 ? lend::success() : lend::Result<void>{lend::Errc::denied};
}

// A channel is used under the name it was moved away from.
ABORT_CASE(channel_used_after_move, "moved from") {
  LEND_TRY(looped, Looped::make());
  lend::Channel const elsewhere{std::move(looped.channel)};
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  return looped.channel.send(looped.memory.gather(0, 8));
}

// A set is woken under the name it was moved away from.
ABORT_CASE(wait_set_woken_after_move, "a WaitSet was used after it had been moved from") {
  LEND_TRY(looped, Looped::make());
  LEND_TRY(set, lend::WaitSet::create(looped.domain.context()));
  lend::WaitSet const elsewhere{std::move(set)};
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  set.wake();
  return lend::success();
}

// A MultiChannel is asked for its size under the name it was moved away from.
ABORT_CASE(multi_channel_asked_after_move, "a MultiChannel was used after it had been moved from") {
  LEND_TRY(looped, Looped::make());
  LEND_TRY(peers, itself_as_peer(looped));
  lend::MultiChannel const elsewhere{std::move(peers)};
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  return peers.size() > 0 ? lend::success() : lend::Result<void>{lend::Errc::denied};
}

// A peer is asked for that a MultiChannel does not have.
ABORT_CASE(peer_that_does_not_exist, "peer 1 of a MultiChannel of 1 was asked for") {
  LEND_TRY(looped, Looped::make());
  LEND_TRY(peers, itself_as_peer(looped));
  return peers[1].send_depth() > 0 ? lend::success() : lend::Result<void>{lend::Errc::denied};
}

// A listener is asked where it listens under the name it was moved away from.
ABORT_CASE(listener_asked_after_move, "a Listener was used after it had been moved from") {
  LEND_TRY(listener, lend::Listener::open("127.0.0.1:0"));
  lend::Listener const elsewhere{std::move(listener)};
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  return listener.address().empty() ? lend::success() : lend::Result<void>{lend::Errc::denied};
}

// The same of one for examinations.
ABORT_CASE(examination_listener_asked_after_move,
           "an ExaminationListener was used after it had been moved from") {
  LEND_TRY(listener, lend::ExaminationListener::open("127.0.0.1:0"));
  lend::ExaminationListener const elsewhere{std::move(listener)};
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  return listener.address().empty() ? lend::success() : lend::Result<void>{lend::Errc::denied};
}

// A desk is asked where it is under the name it was moved away from.
ABORT_CASE(desk_asked_after_move, "a Desk was used after it had been moved from") {
  LEND_TRY(desk, lend::Desk::open("127.0.0.1:0"));
  lend::Desk const elsewhere{std::move(desk)};
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  return desk.address().empty() ? lend::success() : lend::Result<void>{lend::Errc::denied};
}

// A prepared channel is asked for its endpoint under the name it was moved away from.
ABORT_CASE(prepared_channel_asked_after_move,
           "a PreparedChannel was used after it had been moved from") {
  LEND_TRY(looped, Looped::make());
  LEND_TRY(prepared, lend::channel_builder().protection_domain(looped.domain).build());
  lend::PreparedChannel const elsewhere{std::move(prepared)};
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  return prepared.endpoint() == elsewhere.endpoint() ? lend::success()
                                                     : lend::Result<void>{lend::Errc::denied};
}

// A queue pair is taken out of a prepared channel under the name that was moved away from.
ABORT_CASE(prepared_channel_taken_from_after_move,
           "a PreparedChannel was used after it had been moved from") {
  LEND_TRY(looped, Looped::make());
  LEND_TRY(prepared, lend::channel_builder().protection_domain(looped.domain).build());
  lend::PreparedChannel const elsewhere{std::move(prepared)};
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  auto const taken = prepared.take_queue_pair();
  return taken.native() != nullptr ? lend::success() : lend::Result<void>{lend::Errc::denied};
}

// A queue pair that was taken out of its prepared channel is asked for its endpoint there again.
ABORT_CASE(prepared_queue_pair_asked_after_move, "a PreparedQueuePair was used after it had been") {
  LEND_TRY(looped, Looped::make());
  LEND_TRY(prepared, lend::channel_builder().protection_domain(looped.domain).build());
  auto const taken = prepared.take_queue_pair();
  auto const again = prepared.take_queue_pair();
  return again.endpoint() == taken.endpoint() ? lend::success()
                                              : lend::Result<void>{lend::Errc::denied};
}

// A queue pair is asked for its number under the name it was moved away from.
ABORT_CASE(queue_pair_asked_after_move, "a QueuePair was used after it had been moved from") {
  LEND_TRY(looped, Looped::make());
  LEND_TRY(connected, queue_pair_of(looped));
  lend::QueuePair const elsewhere{std::move(connected)};
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  return connected.number() == elsewhere.number() ? lend::success()
                                                  : lend::Result<void>{lend::Errc::denied};
}

// Work is posted on a queue pair under the name it was moved away from.
ABORT_CASE(queue_pair_posted_after_move, "a QueuePair was used after it had been moved from") {
  LEND_TRY(looped, Looped::make());
  LEND_TRY(connected, queue_pair_of(looped));
  lend::QueuePair const elsewhere{std::move(connected)};
  // SAFETY: it is not posted.
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  return connected.unsafe_post_receive(1, looped.memory.scatter(0, 8));
}

// A Group is asked for its size under the name it was moved away from, as a Team would be.
ABORT_CASE(group_asked_after_move, "moved from") {
  LEND_TRY(looped, Looped::make());
  LEND_TRY(prepared, lend::PreparedGroup::prepare(looped.domain, 0, 1));
  LEND_TRY(group, std::move(prepared).handshake(std::array{lend::RankCard{}}));
  lend::Group const elsewhere{std::move(group)};
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  return group.size() > 0 ? lend::success() : lend::Result<void>{lend::Errc::denied};
}

}  // namespace
