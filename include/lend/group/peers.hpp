// SPDX-License-Identifier: MIT OR Apache-2.0
// Channels to other ranks of a team, and a scope over them. The thread of the group.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/result.hpp>
#include <lend/base/source_line.hpp>
#include <lend/channel/channel.hpp>
#include <lend/channel/channel_options.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/channel/polling_scope.hpp>
#include <lend/channel/receive_pool.hpp>
#include <lend/channel/set_scope.hpp>
#include <lend/group/team.hpp>
#include <lend/verbs/work_request.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace lend {

namespace group {
class PeersState;
struct ExchangeState;
}  // namespace group

/// No rank, as MPI_PROC_NULL: what is posted to it is over at once, as PendingWork{} is.
inline constexpr std::uint32_t no_rank = UINT32_MAX;

struct PeerOptions {
  /// Its wait, wait_set, tag, keep_alive, receive_pool, peer_name and queue_pair.connection are
  /// those of the group; with shared receives the group's own links alone keep alive.
  ChannelOptions channel{};
  /// So many messages of so many bytes, of all peers together, may come before receive_any() takes
  /// them, and no other receives can be posted. 0: each message needs a receive that was posted to
  /// its sender.
  std::uint32_t shared_receives = 0;
  std::uint32_t shared_bytes = 4096;
};

/// A message in a shared receive of a Peers. It holds that receive until it is destroyed.
struct PeerMessage {
  std::uint32_t rank;
  Message message;
};

/// Channels to other ranks of a group, made by one collective call.
///
/// Between two ranks the n-th send matches the n-th receive. There are no tags: for another stream
/// of messages, connect another Peers. A send that finds no receive waits at the receiver. On iWARP
/// it breaks the connection (DeviceCapabilities::waits_for_receives): post receives and meet in a
/// barrier before, or use send_receive() at both ends, or an Exchange.
///
/// **They fail with their group.** A channel that breaks, or that ends because a deadline passed or
/// an exception left a scope, breaks the group: the call that detects it informs all ranks, in up
/// to 200 ms. A broken group ends the work of its Peers. So all ranks name the same rank, wherever
/// they wait, within Group's bound plus 100 ms. After Group::rejoin() connect again.
///
///     LEND_TRY(peers, Peers::connect(group, std::array{left, right}, within(30s)));
///     LEND_TRYV(peers.send_receive(right, cells.gather(0, 64), left, cells.scatter(64, 64)));
class LEND_EXPORT Peers {
 public:
  /// Connects this rank to `ranks` of the team, as every member does. Not all need peers.
  /// Shape:   no_rank is passed over; who names a rank is named by it.
  /// Errors:  invalid_argument  no such rank, this one, or one twice: at that rank.
  ///          disagreement      of two ranks only one names the other: at all members.
  ///          timed_out, cancelled  not all came; the group is broken, as by Group::abandon().
  ///          those of Team::barrier(), prepare_channel(), ReceivePool::create() and
  ///          PreparedChannel::handshake(), on iWARP of GroupOptions::connector. If one member has
  ///          an error of its own, the others have one of the same code, which names it, and the
  ///          group goes on.
  [[nodiscard]] static Result<Peers> connect(Team& team, std::span<std::uint32_t const> ranks,
                                             Deadline deadline, PeerOptions const& options = {});
  /// Connects to all other members.
  [[nodiscard]] static Result<Peers> connect_all(Team& team, Deadline deadline,
                                                 PeerOptions const& options = {});
  Peers(Peers&&) noexcept;
  Peers& operator=(Peers&&) noexcept;
  /// Says nothing to the peers: meet them in a barrier before.
  ~Peers();

  /// Ranks of the group, which ascend. All calls name peers by these.
  [[nodiscard]] std::span<std::uint32_t const> ranks() const noexcept LEND_LIFETIMEBOUND;
  /// For blocking calls, and never to be moved from. Stops the process if there is no such peer.
  [[nodiscard]] Channel& operator[](std::uint32_t rank) & noexcept LEND_LIFETIMEBOUND;

  /// Sends to one rank and receives from another, or the same: what was received. Either may be
  /// no_rank. At the deadline both are aborted, which breaks the group. What is refused does not.
  /// On iWARP the message waits for the receive of a send_receive() or Exchange of its receiver.
  /// Borrows: the source shared, the target exclusively, until it returns.
  /// Errors:  those of PeerScope's posts and of PendingWork::wait().
  [[nodiscard]] Result<WorkSuccess> send_receive(std::uint32_t to, Send const& sent,
                                                 std::uint32_t from, Receive const& received,
                                                 Deadline deadline = Deadline::never(),
                                                 SourceLine where = SourceLine::here()) noexcept;
  /// The next message to the shared receives, of any rank.
  /// Errors:  invalid_argument      PeerOptions::shared_receives is 0, or there are no peers.
  ///          timed_out, cancelled  none came.
  ///          peer_lost             all peers have left the group.
  ///          those of Team::barrier() that break a group, once what came before is taken.
  [[nodiscard]] Result<PeerMessage> receive_any(Deadline deadline = Deadline::never()) noexcept;

 private:
  friend struct group::ExchangeState;
  friend class PeerScope;
  friend class Window;
  explicit Peers(std::unique_ptr<group::PeersState> state) noexcept;
  [[nodiscard]] group::PeersState& state() const noexcept;  // stops where it was moved from
  std::unique_ptr<group::PeersState> state_;
};

/// Posts work to any peer, and gets every byte back before it ends, as a SetScope does. It lives on
/// the stack.
///
///     PeerScope scope{peers};
///     LEND_TRY(ghost, scope.post_receive(left, cells.scatter(0, 8)));
///     LEND_TRY(edge, scope.post_send(right, cells.gather(8, 8)));
///     LEND_TRYV(ghost.wait(within(1s)));
///     return scope.finish();
class LEND_EXPORT PeerScope {
 public:
  explicit PeerScope(Peers& peers LEND_LIFETIMEBOUND) noexcept;
  static void* operator new(std::size_t) = delete;
  static void* operator new[](std::size_t) = delete;

  /// As SetScope::drain_within() and drain_until(). Work that is aborted breaks the group.
  PeerScope& drain_within(std::chrono::nanoseconds bound) noexcept;
  PeerScope& drain_until(Deadline deadline) noexcept;

  /// The scope of one peer, for writes, reads, batches and the rest.
  /// Errors:  those of SetScope::on(), and
  ///          invalid_argument  there is no such peer.
  [[nodiscard]] Result<PollingScope*> on(std::uint32_t rank) noexcept LEND_LIFETIMEBOUND;
  /// As PollingScope::post_send() and post_receive(), with on()'s errors.
  [[nodiscard]] Result<PendingWork> post_send(std::uint32_t rank, Send const& work,
                                              Deadline deadline = Deadline::never(),
                                              SourceLine where = SourceLine::here()) noexcept;
  [[nodiscard]] Result<PendingWork> post_receive(std::uint32_t rank, Receive const& work,
                                                 Deadline deadline = Deadline::never(),
                                                 SourceLine where = SourceLine::here()) noexcept;
  /// As SetScope::finish().
  [[nodiscard]] Result<void> finish() noexcept { return scope_.finish(); }

 private:
  Peers& peers_;
  SetScope scope_;
};

}  // namespace lend
