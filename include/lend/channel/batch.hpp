// SPDX-License-Identifier: MIT OR Apache-2.0
// Several operations behind one doorbell. The thread of its channel.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>
#include <lend/base/source_line.hpp>
#include <lend/base/unwind.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/verbs/work_request.hpp>

#include <cstddef>
#include <cstdint>

namespace lend {

struct Chain;
struct ScopeRecord;

/// Collects work of a scope and posts it in one call of the device: made by PollingScope::batch().
///
/// Use it where many small operations go out together: the device is told of them once, and of its
/// sends, writes and reads only the last, and one in each quarter of the send depth, complete with
/// an entry in the completion queue. (Each does where that depth is below 8, and each read on
/// iWARP.) For one operation post it from the scope. It lives on the stack, in some 5 KB, and not
/// longer than its scope. The trap: what was added goes out late, at the latest when somebody asks
/// or waits for it, when the batch is full or destroyed, or when its scope ends; only an exception
/// takes back what was not posted. Of several batches one may go before another that was made or
/// filled first, where that one has no room. And a request is over only when the next request with
/// a completion entry completes: its bytes come back later than those of work posted alone.
///
///     auto batch = scope.batch();
///     for (auto const piece : memory.chunks(64)) {
///       LEND_TRYV(batch.add_send(piece.gather()));
///     }
///     LEND_TRYV(batch.post());
class Batch {
 public:
  Batch(Batch const&) = delete;
  Batch& operator=(Batch const&) = delete;
  static void* operator new(std::size_t) = delete;
  static void* operator new[](std::size_t) = delete;

  /// Posts what was not, waiting for room at most PollingScope::drain_max. What cannot be posted is
  /// failed work of its handles and of the scope: queue_full where there was no room until then.
  /// Unwinding, it gives everything back instead.
  ~Batch();

  /// Requests that are posted at once, at most; of those with many elements fewer.
  static constexpr std::uint32_t requests_max = 32;

  /// Of each batch, mostly room for requests in the form of verbs.
  static constexpr std::size_t storage_bytes = 5184;

  /// Takes a slot for one work request and lends its bytes; it is posted with the others. What does
  /// not fit behind the others has them posted first.
  ///
  /// Shape:   as PollingScope::post_*().
  /// Borrows: the source shared, the target exclusively, from now on and until the completion is
  ///          seen of the request or, where it has none, of one behind it; inlined bytes, too.
  /// Errors:  those of PollingScope::post_*() and of post(); nothing was added, and what was added
  ///          before is as it was, or as post() says if that failed.
  /// Source:  ibv_post_send(3), ibv_post_recv(3).
  [[nodiscard]] Result<PendingWork> add_send(Send const& work,
                                             Deadline deadline = Deadline::never(),
                                             SourceLine where = SourceLine::here()) noexcept;
  [[nodiscard]] Result<PendingWork> add_receive(Receive const& work,
                                                Deadline deadline = Deadline::never(),
                                                SourceLine where = SourceLine::here()) noexcept;
  [[nodiscard]] Result<PendingWork> add_write(Write const& work,
                                              Deadline deadline = Deadline::never(),
                                              SourceLine where = SourceLine::here()) noexcept;
  [[nodiscard]] Result<PendingWork> add_read(Read const& work,
                                             Deadline deadline = Deadline::never(),
                                             SourceLine where = SourceLine::here()) noexcept;

  /// Posts what was added: the receives, then the rest, each in the order of adding. First waits
  /// for room for all of it. Afterwards the batch is empty, and may be filled again.
  ///
  /// Errors:  timed_out, cancelled  no room before that; what was added stays, call again.
  ///          system_failed     the completion queue could not be polled; what was added stays.
  ///          system_failed, queue_full  the device refused a request. Those before it are posted;
  ///                            it and those behind it are not, their bytes are back, and their
  ///                            handles say why. Or it failed and does not say which it took:
  ///                            all count as posted, and the channel is broken.
  ///          channel_broken    by an earlier failure; nothing was posted, all has failed by that.
  ///          stale_handle      the scope has ended, or its channel is gone.
  /// Source:  ibv_post_send(3), ibv_post_recv(3): what stands before bad_wr is posted.
  [[nodiscard]] Result<void> post(Deadline deadline = Deadline::never()) noexcept;

  /// Requests that were added and not posted.
  [[nodiscard]] std::uint32_t size() const noexcept;

 private:
  friend class Batching;
  friend class PollingScope;
  Batch(ChannelReference channel, ScopeRecord* scope) noexcept;

  template <class Work>
  Result<PendingWork> add(Work const& work, Deadline deadline, SourceLine const& where) noexcept;
  [[nodiscard]] Chain& chain() noexcept;

  ChannelReference channel_;
  ScopeRecord* scope_;     // null: it has ended
  Batch* next_ = nullptr;  // of the scope's open batches
  UnwindDetector unwind_{};
  alignas(8) std::byte storage_[storage_bytes];  // a Chain; never zeroed
};

}  // namespace lend
