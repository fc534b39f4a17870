// SPDX-License-Identifier: MIT OR Apache-2.0
// A scope over all peers of a MultiChannel. The thread of their set.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/result.hpp>
#include <lend/base/source_line.hpp>
#include <lend/channel/multi_channel.hpp>
#include <lend/channel/peer_work.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/channel/polling_scope.hpp>
#include <lend/channel/set_scope.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lend {

/// A SetScope that knows peers by their number: posts work to any of them, and gets every byte back
/// before it ends. It lives on the stack.
///
///     MultiScope scope{peers};
///     std::vector<PendingWork> halo;
///     LEND_TRYV(scope.post_gather_receive(receives, halo));
///     LEND_TRYV(scope.post_scatter_send(sends, halo));
///     LEND_TRYV(wait_all(halo, within(1s)));
///     return scope.finish();
class LEND_EXPORT MultiScope {
 public:
  explicit MultiScope(MultiChannel& peers LEND_LIFETIMEBOUND) noexcept;
  static void* operator new(std::size_t) = delete;
  static void* operator new[](std::size_t) = delete;

  /// As SetScope::drain_within() and drain_until().
  MultiScope& drain_within(std::chrono::nanoseconds bound) noexcept;
  MultiScope& drain_until(Deadline deadline) noexcept;

  /// The scope of one peer, for single posts and batches: see SetScope::on().
  /// Errors:  those of SetScope::on(), and
  ///          invalid_argument  there is no such peer.
  [[nodiscard]] Result<PollingScope*> on(std::uint32_t peer) noexcept LEND_LIFETIMEBOUND;

  /// Posts one request for each row, in their order, and appends its handle to `handles`. Stops at
  /// the first row that is refused: the handles say how many were posted. A row without room waits
  /// for it, and the rows behind it with it.
  ///
  /// Borrows: as PollingScope::post_send().
  /// Errors:  those of on() and of PollingScope::post_send(), and
  ///          exhausted  no memory for the handles; nothing was posted.
  [[nodiscard]] Result<void> post_scatter_send(std::span<PeerSend const> works,
                                               std::vector<PendingWork>& handles,
                                               Deadline deadline = Deadline::never(),
                                               SourceLine where = SourceLine::here()) noexcept;
  [[nodiscard]] Result<void> post_gather_receive(std::span<PeerReceive const> works,
                                                 std::vector<PendingWork>& handles,
                                                 Deadline deadline = Deadline::never(),
                                                 SourceLine where = SourceLine::here()) noexcept;
  [[nodiscard]] Result<void> post_scatter_write(std::span<PeerWrite const> works,
                                                std::vector<PendingWork>& handles,
                                                Deadline deadline = Deadline::never(),
                                                SourceLine where = SourceLine::here()) noexcept;
  [[nodiscard]] Result<void> post_gather_read(std::span<PeerRead const> works,
                                              std::vector<PendingWork>& handles,
                                              Deadline deadline = Deadline::never(),
                                              SourceLine where = SourceLine::here()) noexcept;
  [[nodiscard]] Result<void> post_multicast_send(std::span<std::uint32_t const> peers,
                                                 Send const& work,
                                                 std::vector<PendingWork>& handles,
                                                 Deadline deadline = Deadline::never(),
                                                 SourceLine where = SourceLine::here()) noexcept;

  /// As SetScope::finish().
  [[nodiscard]] Result<void> finish() noexcept { return scope_.finish(); }

 private:
  template <class Rows>
  Result<void> post_all(Rows const& rows, std::vector<PendingWork>& handles, Deadline deadline,
                        SourceLine const& where) noexcept;
  MultiChannel& peers_;
  SetScope scope_;
};

}  // namespace lend
