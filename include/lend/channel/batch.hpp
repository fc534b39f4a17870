// SPDX-License-Identifier: MIT OR Apache-2.0
// A batch: several operations with one doorbell. The thread of its channel.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/base/source_line.hpp>
#include <lend/base/unwind.hpp>
#include <lend/channel/calls.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/verbs/chain_storage.hpp>
#include <lend/verbs/work_request.hpp>

#include <cstddef>
#include <cstdint>

namespace lend {

namespace channel {
class Batching;
struct ScopeRecord;
}  // namespace channel

/// Adds a request to a batch without a handle: batch.add_send(work, no_handle).
struct NoHandle {};
inline constexpr NoHandle no_handle{};

/// Collects requests of a scope and posts them in one call of the device. From
/// PollingScope::batch().
///
/// Use it for many small operations; post a single operation by the scope. Its sends, writes and
/// reads are unsignaled, except the last one and one per quarter of the send depth (all are
/// signaled if that depth is below 8; on iWARP each read is). A batch lives on the stack, takes
/// some 6 KB, and ends before its scope. The trap: requests are posted late: by post(), when the
/// batch is full or destroyed, when a handle polls or waits, or when the scope ends. Only drop()
/// and an exception drop unposted requests. A loan ends when the next signaled request completes,
/// later than for work that is posted alone. Batches of one scope have no order: one with room may
/// be posted first.
///
///     auto batch = scope.batch();
///     for (auto const piece : memory.chunks(64)) {
///       LEND_TRYV(batch.add_send(piece.gather(), no_handle));
///     }
///     LEND_TRYV(batch.post());
class LEND_EXPORT Batch {
 public:
  Batch(Batch const&) = delete;
  Batch& operator=(Batch const&) = delete;
  static void* operator new(std::size_t) = delete;
  static void* operator new[](std::size_t) = delete;

  /// Posts the remaining requests, waiting for room for at most PollingScope::drain_max. Requests
  /// that cannot be posted fail in their handles and the scope, with queue_full if there was no
  /// room. During an exception it drops them and returns their bytes.
  ~Batch();

  /// Maximum number of requests; fewer if they have many elements.
  static constexpr std::uint32_t requests_max = 32;

  /// Adds one work request, lends its bytes and takes a slot. If the batch is full, its requests
  /// are posted first.
  ///
  /// Shape:   as PollingScope::post_*().
  /// Borrows: the source shared, the target exclusively, from now until the program sees its
  ///          completion or, if it is unsignaled, that of a later request. A source of up to
  ///          Channel::inline_bytes() of them: until the batch is posted. One of up to 48 of these:
  ///          for the call only, which copies it.
  /// Errors:  those of PollingScope::post_*() and of post(); nothing was added. Earlier requests
  ///          are unchanged, or as post() says if that failed.
  /// Source:  ibv_post_send(3), ibv_post_recv(3).
  [[nodiscard]] Result<PendingWork> add_send(Send const& work,
                                             Deadline deadline = Deadline::never(),
                                             SourceLine where = SourceLine::here()) noexcept {
    return add(work, deadline, where);
  }
  [[nodiscard]] Result<PendingWork> add_receive(Receive const& work,
                                                Deadline deadline = Deadline::never(),
                                                SourceLine where = SourceLine::here()) noexcept {
    return add(work, deadline, where);
  }
  [[nodiscard]] Result<PendingWork> add_write(Write const& work,
                                              Deadline deadline = Deadline::never(),
                                              SourceLine where = SourceLine::here()) noexcept {
    return add(work, deadline, where);
  }
  [[nodiscard]] Result<PendingWork> add_read(Read const& work,
                                             Deadline deadline = Deadline::never(),
                                             SourceLine where = SourceLine::here()) noexcept {
    return add(work, deadline, where);
  }
  [[nodiscard]] Result<PendingWork> add_atomic(Atomic const& work,
                                               Deadline deadline = Deadline::never(),
                                               SourceLine where = SourceLine::here()) noexcept {
    return add(work, deadline, where);
  }

  /// The same without a handle, which is cheaper: the scope reports a failure, as of work whose
  /// handle was dropped. A later request with a handle tells when they are over: those of one queue
  /// complete in order. In a manual scope they count as unpolled.
  [[nodiscard]] Result<void> add_send(Send const& work, NoHandle,
                                      Deadline deadline = Deadline::never(),
                                      SourceLine where = SourceLine::here()) noexcept {
    return add_unheld(work, deadline, where);
  }
  [[nodiscard]] Result<void> add_receive(Receive const& work, NoHandle,
                                         Deadline deadline = Deadline::never(),
                                         SourceLine where = SourceLine::here()) noexcept {
    return add_unheld(work, deadline, where);
  }
  [[nodiscard]] Result<void> add_write(Write const& work, NoHandle,
                                       Deadline deadline = Deadline::never(),
                                       SourceLine where = SourceLine::here()) noexcept {
    return add_unheld(work, deadline, where);
  }
  [[nodiscard]] Result<void> add_read(Read const& work, NoHandle,
                                      Deadline deadline = Deadline::never(),
                                      SourceLine where = SourceLine::here()) noexcept {
    return add_unheld(work, deadline, where);
  }
  [[nodiscard]] Result<void> add_atomic(Atomic const& work, NoHandle,
                                        Deadline deadline = Deadline::never(),
                                        SourceLine where = SourceLine::here()) noexcept {
    return add_unheld(work, deadline, where);
  }

  /// Posts the receives, then the other requests, each in the order of adding. First waits for room
  /// for all of them. Afterwards the batch is empty and may be filled again.
  ///
  /// Errors:  timed_out, cancelled  no room in time; the requests stay, call again.
  ///          system_failed     the completion queue could not be polled; the requests stay.
  ///          system_failed, queue_full  the device refused a request. Those before it are posted;
  ///                            it and those after it are not, their bytes are back, and their
  ///                            handles have the reason. Or it failed without saying which it took:
  ///                            all count as posted, and the channel is broken.
  ///          channel_broken    an earlier failure; nothing was posted, all requests failed by it.
  ///          stale_handle      the scope has ended, or its channel is gone.
  /// Source:  ibv_post_send(3), ibv_post_recv(3): requests before bad_wr are posted.
  [[nodiscard]] Result<void> post(Deadline deadline = Deadline::never()) noexcept;

  /// Drops the requests that were added and not posted: their bytes are back, and their handles
  /// stale. The batch is empty and may be filled again.
  void drop() noexcept;
  /// Number of requests that were added and not posted.
  [[nodiscard]] std::uint32_t size() const noexcept;

 private:
  friend class channel::Batching;
  friend class DatagramBatch;
  friend class PollingScope;
  friend class UnreliableBatch;
  template <class Work>
  friend struct channel::BatchCalls;
  Batch(ChannelReference channel, channel::ScopeRecord* scope) noexcept;

  template <class Work>
  Result<PendingWork> add(Work const& work, Deadline deadline, SourceLine where) noexcept {
    using Calls = channel::BatchCalls<Work>;
    auto const id = verbs::may_be_plain(work) && deadline.is_never()
                        ? channel::pass(Calls::add, *this, work, where.file, where.line)
                        : Calls::add_any(*this, work, deadline, where);
    if (id == 0) [[unlikely]]
      return error_of_add();
    return PendingWork{channel_, id};
  }
  template <class Work>
  Result<void> add_unheld(Work const& work, Deadline deadline, SourceLine where) noexcept {
    using Calls = channel::BatchCalls<Work>;
    bool const is_added =
        verbs::may_be_plain(work) && deadline.is_never()
            ? channel::pass(Calls::add_unheld, *this, work, where.file, where.line)
            : Calls::add_any_unheld(*this, work, deadline, where);
    if (!is_added) [[unlikely]]
      return error_of_add();
    return success();
  }
  /// Of the last one that failed.
  [[nodiscard]] Error error_of_add() const noexcept;

  ChannelReference channel_;
  channel::ScopeRecord* scope_;  // null: it has ended
  Batch* next_ = nullptr;        // of the scope's open batches
  UnwindDetector unwind_{};
  verbs::ChainStorage storage_;
};

}  // namespace lend
