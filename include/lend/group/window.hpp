// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory of each rank that its peers access by rank. The thread of the group.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/result.hpp>
#include <lend/base/source_line.hpp>
#include <lend/base/unwind.hpp>
#include <lend/channel/polling_scope.hpp>
#include <lend/group/peers.hpp>
#include <lend/verbs/remote_span.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace lend {

namespace group {
class WindowState;
}

/// A time in which the peers access a window. Until it ends this rank's part is on loan: shared
/// where they may only read, else exclusively. What is put lies in other memory.
///
///     LEND_TRY(epoch, window.open(within(10s)));
///     LEND_TRY(cells, window.of<double>(3));
///     LEND_TRY(to, epoch.on(3));
///     LEND_TRYV(to->post_write({mine.gather(0, 64), cells.subspan(0, 8)}));
///     LEND_TRYV(epoch.finish(within(10s)));
class LEND_EXPORT Epoch {
 public:
  Epoch(Epoch&& other) noexcept
      : window_{std::exchange(other.window_, nullptr)}, unwind_{other.unwind_} {}
  Epoch& operator=(Epoch&&) = delete;
  /// As finish() within PollingScope::drain_max, or 100 ms during an exception. An epoch that does
  /// not end by then abandons the group, after which no peer accesses the part.
  ~Epoch();

  /// The scope of one peer, until finish(): its writes, reads, atomic operations and batches.
  /// Errors:  those of PeerScope::on(); invalid_argument after finish().
  [[nodiscard]] Result<PollingScope*> on(std::uint32_t rank) noexcept LEND_LIFETIMEBOUND;

  /// Gives that rank one notice more, behind what was written to it here. Wait first for what was
  /// read there, or changed by atomic operations: a notice may overtake these.
  /// Errors:  those of on() and PollingScope::post_write().
  /// Source:  InfiniBand Architecture Specification vol. 1, 9.5, 10.8.3.3.
  [[nodiscard]] Result<void> notify(std::uint32_t rank, Deadline deadline = Deadline::never(),
                                    SourceLine where = SourceLine::here()) noexcept;
  /// Until that rank has given so many notices, in all epochs of the window: Window::unsafe_own()
  /// then has what it wrote before them. A thread that sleeps looks for them once in 10 ms.
  /// Errors:  timed_out, cancelled  they have not come.
  ///          peer_lost             the rank has left the group.
  ///          those of on(), and of Team::barrier() that break a group.
  [[nodiscard]] Result<void> wait_notices(std::uint32_t rank, std::uint64_t count,
                                          Deadline deadline = Deadline::never()) noexcept;

  /// Collective. Waits until the work of all members is over; then the part is the program's again.
  /// Errors:  timed_out, cancelled  the epoch goes on, and no work was aborted: call it again.
  ///          invalid_argument      another call of the group is under way: the same.
  ///          those of PeerScope::finish(), of this rank's work.
  ///          those of Team::barrier() that break a group, with which the window ends.
  ///          system_failed         as Exposure::finish(): the part stays on loan for good.
  [[nodiscard]] Result<void> finish(Deadline deadline = Deadline::never(),
                                    SourceLine where = SourceLine::here()) noexcept;

 private:
  friend class Window;
  explicit Epoch(group::WindowState& window) noexcept : window_{&window} {}

  group::WindowState* window_;  // null once it has ended
  UnwindDetector unwind_{};
};

/// Memory of each member of a team that its peers there access by rank, in epochs. Keys are
/// exchanged once. In an epoch no rank accesses bytes that another one is writing, but words that
/// all change by atomic operations. A rank is no peer of itself.
///
///     LEND_TRY(window, Window::create(peers, memory, RemoteAccess::read_write, within(30s)));
class LEND_EXPORT Window {
 public:
  /// Collective of the team of `peers`. Sizes may differ, and what peers may do.
  /// Borrows: `peers` and `own` until it ends; bytes of `own` in epochs.
  /// Errors:  unsupported           an iWARP device: that a write is over does not say there that
  ///                                it was placed. Nothing is sent.
  ///          invalid_argument      `own` is of another protection domain than the group.
  ///          timed_out, cancelled  not all came; the group is broken, as by Group::abandon().
  ///          those of MemoryRegion::unsafe_expose() and Team::barrier(). Of an error of one member
  ///          alone the others have one of its code, which names it, and the group goes on.
  [[nodiscard]] static Result<Window> create(Peers& peers LEND_LIFETIMEBOUND,
                                             MemoryRegion& own LEND_LIFETIMEBOUND,
                                             RemoteAccess access, Deadline deadline,
                                             SourceLine where = SourceLine::here());
  Window(Window&&) noexcept;
  Window& operator=(Window&&) noexcept;
  /// Says nothing to the peers. Stops the process during an epoch.
  ~Window();

  /// Collective: begins an epoch.
  /// Errors:  already_borrowed      own bytes are on loan: nothing was sent, and the others wait.
  ///          timed_out, cancelled  not all came. The part is on loan already, because those that
  ///                                did may access it: call it again.
  ///          invalid_argument      an epoch goes on, or another call of the group.
  ///          those of Team::barrier() that break a group, with which the window ends:
  ///          stale_handle from then on.
  [[nodiscard]] Result<Epoch> open(Deadline deadline = Deadline::never(),
                                   SourceLine where = SourceLine::here()) noexcept
      LEND_LIFETIMEBOUND;

  /// That rank's part, for an epoch; of no peer no bytes.
  [[nodiscard]] RemoteRegion remote(std::uint32_t rank) const noexcept;
  /// Its values, as RemoteSpan::of().
  template <class T>
  [[nodiscard]] Result<RemoteSpan<T>> of(std::uint32_t rank) const {
    return RemoteSpan<T>::of(remote(rank));
  }

  /// The part, past the ledger: what notices say has come, and words that peers change.
  /// The caller owes, during an epoch: it touches no byte that a peer may be writing.
  [[nodiscard]] std::span<std::byte> unsafe_own() noexcept LEND_LIFETIMEBOUND;

 private:
  explicit Window(std::unique_ptr<group::WindowState> state) noexcept;
  [[nodiscard]] group::WindowState& state() const noexcept;  // stops where it was moved from
  std::unique_ptr<group::WindowState> state_;
};

}  // namespace lend
