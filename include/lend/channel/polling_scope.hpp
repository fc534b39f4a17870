// SPDX-License-Identifier: MIT OR Apache-2.0
// Many operations at once, all of them over when the scope is. The thread of its channel.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/result.hpp>
#include <lend/base/source_line.hpp>
#include <lend/base/unwind.hpp>
#include <lend/channel/batch.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/verbs/work_request.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace lend {

class Channel;

/// What a channel keeps about one scope, at a fixed address: in the PollingScope, or the channel.
struct ScopeRecord {
  std::uint32_t outstanding = 0;         ///< posted, no completion seen
  std::uint32_t finished = 0;            ///< completed, and a handle may still ask
  std::uint64_t unpolled = 0;            ///< over, and no handle ever had the result
  std::vector<Error> failures{};         ///< of work that no handle had the result of
  std::vector<std::uint64_t> seen_as{};  ///< the number of each, by which they stand
  bool has_lost_failure = false;         ///< for which there was no memory
  Batch* batches = nullptr;              ///< that are open
};

/// Posts work and gets every byte back before it ends: by return, by error or by exception.
///
/// Use it when operations overlap; for one at a time use Channel's blocking calls. It lives on the
/// stack: no copy, no move, no new. (std::optional can hold one all the same.) Scopes may nest, on
/// one channel too, and each accounts for its own work; but a queue pair is flushed as a whole: a
/// scope whose drain flushes (at its bound, unwinding, after a failed poll) ends the work of all,
/// each of which then tells its own failures. The trap: a receive that the peer never answers keeps
/// finish() waiting; give drain_within() a bound, after which the queue pair is flushed and the
/// channel broken. Failures come in the order in which they were seen.
///
///     PollingScope scope{channel};
///     LEND_TRY(reply, scope.post_receive(memory.scatter(64, 64)));
///     LEND_TRYV(scope.post_send(memory.gather(0, 5)));
///     LEND_TRY(done, reply.wait(within(2s)));
///     return scope.finish();
class PollingScope {
 public:
  explicit PollingScope(Channel& channel LEND_LIFETIMEBOUND) noexcept;
  PollingScope(PollingScope const&) = delete;
  PollingScope& operator=(PollingScope const&) = delete;
  static void* operator new(std::size_t) = delete;
  static void* operator new[](std::size_t) = delete;

  /// Drains as finish() does, but bounded by drain_max, as drain_within() says. Unwinding with a
  /// receive outstanding it flushes at once. Failures it finds are kept in channel.last_failures().
  ~PollingScope();

  /// Bounds the drain of a scope left without finish(), or by a closure's error: a receive then
  /// outstanding may well be one that nobody will answer.
  static constexpr std::chrono::seconds drain_max{30};

  /// Bounds every drain of this scope, counted from the drain's beginning; then what is outstanding
  /// is flushed, which breaks the channel. That takes up to 2 s where the device brings nothing
  /// back; on the soft device beside a peer that was stopped in the middle of a copy, until that
  /// goes on or dies. Without a bound finish() waits as long as the work takes.
  PollingScope& drain_within(std::chrono::nanoseconds bound) noexcept;
  /// The same by a moment, or by whoever cancels; whichever comes first.
  /// A cancellation must outlive the scope: declare it first.
  ///     scope.drain_until(Deadline::never().unless(stopping));
  PollingScope& drain_until(Deadline deadline) noexcept;

  /// Posts one work request, first waiting for room if the depth is used up.
  ///
  /// Shape:   at most ChannelBuilder::elements() elements of message_bytes_max() together; of a
  ///          write or read as many bytes here as at the peer. Elements of no bytes are left out; a
  ///          list of nothing but these is a message of no bytes. An empty list needs an immediate,
  ///          or Receive::only_immediate().
  /// Borrows: the source shared, the target exclusively, until the work's completion is seen: by
  ///          its handle, by any other poll of the channel, or by a post that waits for room.
  /// Errors:  already_borrowed  names the other loan; nothing was posted.
  ///          invalid_argument  what is wrong of range, list, region or length; nothing was posted.
  ///          timed_out, cancelled  no room before that; nothing was posted, the scope goes on.
  ///          queue_full        no room, and waiting would not make any: handles, and batches not
  ///                            posted, hold every slot. Post those; ask or drop handles of
  ///                            finished work.
  ///          system_failed     the device refused, was full with nothing outstanding, or could not
  ///                            be polled; nothing was posted. Or it failed and does not say
  ///                            whether it took the work, which was flushed: the channel is broken.
  ///          unsupported       an immediate on iWARP.
  ///          channel_broken    an earlier failure; only finish(), destruction and the channel's
  ///                            prepare_again() remain.
  ///          stale_handle      the scope has ended, or its channel is gone.
  /// Source:  ibv_post_send(3), ibv_post_recv(3).
  [[nodiscard]] Result<PendingWork> post_send(Send const& work,
                                              Deadline deadline = Deadline::never(),
                                              SourceLine where = SourceLine::here()) noexcept;
  [[nodiscard]] Result<PendingWork> post_receive(Receive const& work,
                                                 Deadline deadline = Deadline::never(),
                                                 SourceLine where = SourceLine::here()) noexcept;
  [[nodiscard]] Result<PendingWork> post_write(Write const& work,
                                               Deadline deadline = Deadline::never(),
                                               SourceLine where = SourceLine::here()) noexcept;
  [[nodiscard]] Result<PendingWork> post_read(Read const& work,
                                              Deadline deadline = Deadline::never(),
                                              SourceLine where = SourceLine::here()) noexcept;

  /// The same without waiting: where there is no room it polls once, and answers queue_full if
  /// there still is none.
  [[nodiscard]] Result<PendingWork> try_post_send(Send const& work,
                                                  SourceLine where = SourceLine::here()) noexcept;
  [[nodiscard]] Result<PendingWork> try_post_receive(
      Receive const& work, SourceLine where = SourceLine::here()) noexcept;
  [[nodiscard]] Result<PendingWork> try_post_write(Write const& work,
                                                   SourceLine where = SourceLine::here()) noexcept;
  [[nodiscard]] Result<PendingWork> try_post_read(Read const& work,
                                                  SourceLine where = SourceLine::here()) noexcept;

  /// Collects work to post it together; see Batch.
  ///     auto batch = scope.batch();
  [[nodiscard]] Batch batch() LEND_LIFETIMEBOUND { return {channel_, ended_ ? nullptr : &record_}; }

  /// Work posted here whose completion was not seen yet. Of the channel's thread, as all of this;
  /// but like drain_within(), drain_until() and Batch::size() it does not notice another.
  [[nodiscard]] std::uint32_t outstanding() const noexcept { return record_.outstanding; }

  /// Waits until all work is over, ends the scope and reports what nobody polled and failed.
  ///
  /// Errors:  work_failed    the first failure that was not flushed along, if there is one;
  ///                         drained() has every one.
  ///          peer_lost      rdma_cm or a keep-alive found the peer gone; the channel is broken.
  ///          system_failed  the completion queue could not be polled; everything was flushed, the
  ///                         channel is broken. Or the device kept the queue pair of a broken
  ///                         channel: the bytes stay on loan for good.
  ///          timed_out, cancelled  the bound of drain_within() or drain_until() passed;
  ///                         everything was flushed, the channel is broken; drained() has every
  ///                         failure.
  ///          as Batch::post()  work of a batch was not posted, and no handle had that result;
  ///                         queue_full also where there was no room for it until that bound.
  ///          stale_handle   the channel is gone; it had flushed the work, and drained() has what
  ///                         failed by that. Or the scope is over already.
  [[nodiscard]] Result<void> finish() noexcept;

 private:
  friend class Channel;
  /// finish() with the closure's own error, if any, and the rule of manual scopes.
  [[nodiscard]] std::optional<Error> end(std::optional<Error> closure_error, bool manual) noexcept;

  void forget_batches() noexcept;
  enum class Room : bool { may_be_waited_for, is_there_now };
  template <Room room, class Work>
  Result<PendingWork> post(Work const& work, Deadline deadline, SourceLine const& where) noexcept;

  ChannelReference channel_;
  ScopeRecord record_{};
  UnwindDetector unwind_{};
  std::optional<std::chrono::nanoseconds> drain_bound_{};
  Deadline drain_until_ = Deadline::never();
  bool ended_ = false;
  std::uint32_t left_before_;  // scopes of the channel, when this one began
};

}  // namespace lend
