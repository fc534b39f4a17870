// SPDX-License-Identifier: MIT OR Apache-2.0
// A scope: many operations at a time, all of which end with it. The thread of its channel.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/result.hpp>
#include <lend/base/source_line.hpp>
#include <lend/base/unwind.hpp>
#include <lend/channel/batch.hpp>
#include <lend/channel/calls.hpp>
#include <lend/channel/drain_bound.hpp>
#include <lend/channel/peer_loan.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/verbs/work_request.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace lend {

class Channel;
namespace channel {
struct PartsCalls;
struct ScopeRecord;
}  // namespace channel

/// Posts work and gets every byte back before it ends: on success, on error or under an exception.
///
/// Use it for overlapping operations; for one at a time use Channel's blocking calls. It lives on
/// the stack: no copy, no move, no new. (std::optional can hold one.) Scopes may nest, also on one
/// channel, and each reports the failures of its own work, in the order in which they were seen.
/// But a queue pair is aborted as a whole: a scope that aborts (at its bound, during an exception,
/// after a failed poll) ends the work of all scopes of the channel. The trap: if the peer never
/// sends, an outstanding receive keeps finish() waiting. Set a bound by drain_within(): then the
/// scope aborts the work and breaks the channel.
///
///     PollingScope scope{channel};
///     LEND_TRY(reply, scope.post_receive(memory.scatter(64, 64)));
///     LEND_TRYV(scope.post_send(memory.gather(0, 5)));
///     LEND_TRY(done, reply.wait(within(2s)));
///     return scope.finish();
class LEND_EXPORT PollingScope {
 public:
  explicit PollingScope(Channel& channel LEND_LIFETIMEBOUND) noexcept;
  PollingScope(PollingScope const&) = delete;
  PollingScope& operator=(PollingScope const&) = delete;
  static void* operator new(std::size_t) = delete;
  static void* operator new[](std::size_t) = delete;

  /// Waits for all work like finish(), but for at most drain_max; then it aborts the work. During
  /// an exception it does not wait for the peer's program: with a receive outstanding it aborts at
  /// once, with other work after 100 ms. channel.last_failures() keeps the failures.
  ~PollingScope();

  /// Bounds the drain of a scope that ends without finish(), or by a closure's error, because the
  /// peer may never answer an outstanding receive.
  static constexpr std::chrono::seconds drain_max{30};

  /// Bounds every wait of this scope for its outstanding work, from the start of that wait. At the
  /// bound the work is aborted, which breaks the channel. That takes up to 2 s if the device
  /// returns nothing, and 2 s more on the soft device if a peer is stopped in the middle of a copy:
  /// its bytes stay on loan. Without a bound finish() waits as long as the work takes.
  PollingScope& drain_within(std::chrono::nanoseconds bound) noexcept;
  /// The same by a point in time, or by a cancellation; the earlier one counts. The cancellation
  /// must outlive the scope: declare it first.
  ///     scope.drain_until(Deadline::never().unless(stopping));
  PollingScope& drain_until(Deadline deadline) noexcept;

  /// Posts one work request. If the depth is used up, first waits for room.
  ///
  /// Shape:   at most ChannelBuilder::elements() elements, together at most message_bytes_max(). A
  ///          write or read has as many bytes here as at the peer. Empty elements are skipped; a
  ///          list of empty elements is a message without bytes. An empty list needs an immediate,
  ///          or Receive::only_immediate().
  /// Borrows: the source shared, the target exclusively, until the program sees the completion: in
  ///          the handle, in any other poll of the channel, or in a post that waits for room. A
  ///          source of up to Channel::inline_bytes() is copied: until this returns.
  /// Errors:  already_borrowed  names the other loan; nothing was posted.
  ///          invalid_argument  says what is wrong with range, list, region or length; nothing was
  ///                            posted.
  ///          timed_out, cancelled  no room in time; nothing was posted, the scope is as before.
  ///          queue_full        no room, and waiting would make none: handles, or batches that are
  ///                            not posted, hold every slot. Post the batches; take the results of
  ///                            finished work, or drop its handles.
  ///          system_failed     the device refused, was full with nothing outstanding, or could not
  ///                            be polled; nothing was posted. Or it failed without saying whether
  ///                            it took the work, which was aborted: the channel is broken.
  ///          unsupported       an immediate on iWARP, an atomic operation on a device without.
  ///          channel_broken    an earlier failure; only finish(), destruction and the channel's
  ///                            prepare_again() remain.
  ///          stale_handle      the scope has ended, or its channel is gone.
  /// Source:  ibv_post_send(3), ibv_post_recv(3).
  [[nodiscard]] Result<PendingWork> post_send(Send const& work,
                                              Deadline deadline = Deadline::never(),
                                              SourceLine where = SourceLine::here()) noexcept {
    return post(work, deadline, where);
  }
  [[nodiscard]] Result<PendingWork> post_receive(Receive const& work,
                                                 Deadline deadline = Deadline::never(),
                                                 SourceLine where = SourceLine::here()) noexcept {
    return post(work, deadline, where);
  }
  [[nodiscard]] Result<PendingWork> post_write(Write const& work,
                                               Deadline deadline = Deadline::never(),
                                               SourceLine where = SourceLine::here()) noexcept {
    return post(work, deadline, where);
  }
  [[nodiscard]] Result<PendingWork> post_read(Read const& work,
                                              Deadline deadline = Deadline::never(),
                                              SourceLine where = SourceLine::here()) noexcept {
    return post(work, deadline, where);
  }
  [[nodiscard]] Result<PendingWork> post_atomic(Atomic const& work,
                                                Deadline deadline = Deadline::never(),
                                                SourceLine where = SourceLine::here()) noexcept {
    return post(work, deadline, where);
  }

  /// The same without waiting: if there is no room it polls once, then returns queue_full.
  [[nodiscard]] Result<PendingWork> try_post_send(Send const& work,
                                                  SourceLine where = SourceLine::here()) noexcept {
    return try_post(work, where);
  }
  [[nodiscard]] Result<PendingWork> try_post_receive(
      Receive const& work, SourceLine where = SourceLine::here()) noexcept {
    return try_post(work, where);
  }
  [[nodiscard]] Result<PendingWork> try_post_write(Write const& work,
                                                   SourceLine where = SourceLine::here()) noexcept {
    return try_post(work, where);
  }
  [[nodiscard]] Result<PendingWork> try_post_read(Read const& work,
                                                  SourceLine where = SourceLine::here()) noexcept {
    return try_post(work, where);
  }
  [[nodiscard]] Result<PendingWork> try_post_atomic(
      Atomic const& work, SourceLine where = SourceLine::here()) noexcept {
    return try_post(work, where);
  }

  /// Lends bytes to the peer, to read what is to be gathered, or to write where is to be scattered,
  /// until it returns them, they are recalled, this scope ends, or the connection does; see
  /// PeerLoan. Takes room for one request, and waits for it. The end of the scope recalls what is
  /// still lent, after its work and within the same bound.
  ///
  /// Shape:   1 byte or more of a region of the channel's protection domain.
  /// Borrows: the bytes, shared or exclusively, until the loan is over.
  /// Errors:  as post_send(), and
  ///          unsupported  the device cannot hold a peer to such a loan: capabilities().peer_loans;
  ///                       nothing was lent.
  ///          exhausted    the device has no more windows, or there is no memory; nothing was lent.
  [[nodiscard]] Result<PeerLoan> post_lend(GatherElement bytes,
                                           Deadline deadline = Deadline::never(),
                                           SourceLine where = SourceLine::here()) noexcept;
  [[nodiscard]] Result<PeerLoan> post_lend(ScatterElement bytes,
                                           Deadline deadline = Deadline::never(),
                                           SourceLine where = SourceLine::here()) noexcept;

  /// Starts a batch, which posts several requests together; see Batch.
  ///     auto batch = scope.batch();
  [[nodiscard]] Batch batch() LEND_LIFETIMEBOUND;

  /// Number of requests posted here whose completion was not seen yet. Like drain_within(),
  /// drain_until() and Batch::size() it does not detect a call by another thread.
  [[nodiscard]] std::uint32_t outstanding() const noexcept;

  /// Waits for all work, ends the scope and reports the failures that no handle reported.
  ///
  /// Errors:  work_failed    the first failure, if possible one that was not only flushed;
  ///                         drained() has all of them.
  ///          peer_lost      rdma_cm or a keep-alive found the peer gone; the channel is broken.
  ///          system_failed  the completion queue could not be polled; all work was aborted, the
  ///                         channel is broken. Or the device kept the queue pair of a broken
  ///                         channel: the bytes stay on loan for good.
  ///          timed_out, cancelled  the bound of drain_within() or drain_until() passed; all work
  ///                         was aborted, the channel is broken; drained() has every failure.
  ///          as Batch::post()  work of a batch was not posted, and no handle took that result;
  ///                         queue_full also if there was no room until the bound.
  ///          stale_handle   the channel is gone and has aborted the work, whose failures drained()
  ///                         has. Or the scope has ended already.
  [[nodiscard]] Result<void> finish() noexcept;

 private:
  friend class Channel;
  friend class DatagramBatch;
  friend class DatagramScope;
  friend class SetScope;
  friend class UnreliableBatch;
  friend class UnreliableScope;
  friend struct channel::HandleAccess;
  friend struct channel::PartsCalls;
  template <class Work>
  friend struct channel::ScopeCalls;
  [[nodiscard]] bool has_ended() const noexcept { return ended_; }
  /// Bounds every drain by `deadline`, too.
  void end_before(Deadline deadline) noexcept { drain_bound_.end_before(deadline); }
  /// finish() with the closure's error, if any, and the rule for manual scopes.
  [[nodiscard]] std::optional<Error> end(std::optional<Error> closure_error, bool manual) noexcept;

  [[nodiscard]] channel::ScopeRecord& record() noexcept;
  [[nodiscard]] Result<PeerLoan> lend(GatherElement bytes, RemoteAccess access, Deadline deadline,
                                      SourceLine where) noexcept;
  void end_unpolled() noexcept;  // what the destructor does
  void forget_batches() noexcept;
  template <class Work>
  Result<PendingWork> post(Work const& work, Deadline deadline, SourceLine where) noexcept {
    using Calls = channel::ScopeCalls<Work>;
    return handle_for(verbs::may_be_plain(work) && deadline.is_never()
                          ? channel::pass(Calls::post, *this, work, where.file, where.line)
                          : Calls::post_any(*this, work, deadline, where));
  }
  template <class Work>
  Result<PendingWork> try_post(Work const& work, SourceLine where) noexcept {
    return handle_for(channel::ScopeCalls<Work>::try_post(*this, work, where));
  }
  [[nodiscard]] Result<PendingWork> handle_for(std::uint64_t id) const noexcept {
    if (id == 0) [[unlikely]]
      return error_of_post();
    return PendingWork{channel_, id};
  }
  /// Of the last one that failed.
  [[nodiscard]] Error error_of_post() const noexcept;

  ChannelReference channel_;
  static constexpr std::size_t record_bytes = 160;
  alignas(8) std::byte record_[record_bytes];  // a ScopeRecord
  UnwindDetector unwind_{};
  channel::DrainBound drain_bound_{};
  bool ended_ = false;
  std::uint32_t left_before_;  // open scopes of the channel before this one
};

}  // namespace lend
