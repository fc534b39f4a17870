// SPDX-License-Identifier: MIT OR Apache-2.0
// The messages of a step, described once and sent in each. The thread of the group.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/result.hpp>
#include <lend/base/source_line.hpp>
#include <lend/group/peers.hpp>
#include <lend/verbs/parts.hpp>
#include <lend/verbs/work_request.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>

namespace lend {

/// Rows, each a message to or from a peer, that are sent together in every step: MPI's persistent
/// requests, derived types and neighbourhood collectives in one.
///
/// The n-th row sent to a rank matches the n-th row received there. Their lengths are equal: the
/// first start() compares them. Other messages of these Peers may go between two runs, in the same
/// order at both ends. Several exchanges use a Peers each, or start in the same order at all ranks.
/// These Peers have no shared receives.
///
///     Exchange halo{peers};
///     for (Side const& side : sides)  // whose rank is no_rank at a border: no message
///       halo.receive(side.rank, cells.scatter(side.ghosts, 64))
///           .send(side.rank, cells.gather(side.edge, 64));
///     while (step()) { LEND_TRYV(halo.run(within(10s))); }
class LEND_EXPORT Exchange {
 public:
  explicit Exchange(Peers& peers LEND_LIFETIMEBOUND);
  Exchange(Exchange const&) = delete;
  Exchange& operator=(Exchange const&) = delete;
  /// As ~SetScope().
  ~Exchange();

  /// Adds a row, before the first start(), which says what is wrong with it; one that comes later
  /// is not added. The memory is the program's between two runs, but a row keeps no region: each
  /// outlives the last run, and finish(). A row of more elements than a request takes is copied,
  /// and so are parts of less than 8 KiB on average, as a column: to memory of the exchange as
  /// it starts, and from there by the call that finds it over. Each end decides that for itself.
  /// Short rows may be copied to memory of the peer's exchange in place of sent, of up to 4 KiB on
  /// the soft device and 192 bytes on others: between ranks with rows both ways, unless one has
  /// Wait::event, which nothing would wake, or a short row of device memory. Metrics count at most
  /// a write of them.
  Exchange& send(std::uint32_t rank, GatherList const& row, SourceLine where = SourceLine::here());
  Exchange& receive(std::uint32_t rank, ScatterList const& row,
                    SourceLine where = SourceLine::here());
  /// The same of values that do not lie together, of one region or of several: one message. Indices
  /// of picked values are read now.
  ///     halo.send(left, {cells.gather(column), flows.gather(column)});
  Exchange& send(std::uint32_t rank, std::span<GatherParts const> row,
                 SourceLine where = SourceLine::here());
  Exchange& send(std::uint32_t rank, std::initializer_list<GatherParts> row,
                 SourceLine where = SourceLine::here()) {
    return send(rank, std::span{row.begin(), row.size()}, where);
  }
  Exchange& send(std::uint32_t rank, GatherParts const& row,
                 SourceLine where = SourceLine::here()) {
    return send(rank, std::span{&row, 1}, where);
  }
  Exchange& receive(std::uint32_t rank, std::span<ScatterParts const> row,
                    SourceLine where = SourceLine::here());
  Exchange& receive(std::uint32_t rank, std::initializer_list<ScatterParts> row,
                    SourceLine where = SourceLine::here()) {
    return receive(rank, std::span{row.begin(), row.size()}, where);
  }
  Exchange& receive(std::uint32_t rank, ScatterParts const& row,
                    SourceLine where = SourceLine::here()) {
    return receive(rank, std::span{&row, 1}, where);
  }

  /// Posts all rows, the receives first. The first one waits for those of the peers; on iWARP each
  /// does that whose rows are sent.
  /// Borrows: each row that is not copied, until a call sees that it is over: what is sent shared,
  ///          what is received exclusively.
  /// Errors:  invalid_argument  no such peer, Peers with shared receives, more rows of a rank than
  ///                            its channel takes, a row was added too late, or the exchange is
  ///                            under way. Nothing was posted.
  ///          stale_handle      after finish().
  ///          disagreement      a peer has other rows for this rank, as it finds, too.
  ///          timed_out, cancelled  a peer has not started, or there is no room: start() again,
  ///                            or any call below, which goes on with it.
  ///          those of PollingScope::post_send(), of a row; those before it are under way. Call it
  ///          again, or wait(), which posts the rest.
  [[nodiscard]] Result<void> start(Deadline deadline = Deadline::never()) noexcept;
  /// Until all rows are over; after a start() that failed half-way it does the rest first. Without
  /// a run nothing.
  /// Errors:  those of wait_all(); the rows that came are there all the same.
  ///          those of start(), of its rest.
  ///          disagreement          a message has another length than its row.
  ///          already_borrowed      bytes to which a row is to be copied are on loan: wait() again.
  ///          timed_out, cancelled  still under way, the rows are named: wait() again.
  [[nodiscard]] Result<void> wait(Deadline deadline = Deadline::never()) noexcept;
  /// start() and wait(). After a time-out it goes on.
  [[nodiscard]] Result<void> run(Deadline deadline = Deadline::never()) noexcept;
  /// Whether all is over, without waiting; it goes on with start() as wait() does.
  /// Errors:  those of wait() but timed_out.
  [[nodiscard]] Result<bool> poll() noexcept;
  /// Waits for a row that was received and not told of yet: its number among the received ones, in
  /// the order of receive(), without those of no_rank. Nothing: all were told.
  /// Errors:  those of wait().
  [[nodiscard]] Result<std::optional<std::size_t>> wait_any(
      Deadline deadline = Deadline::never()) noexcept;

  /// As PeerScope::drain_within().
  Exchange& drain_within(std::chrono::nanoseconds bound) noexcept;
  /// Waits for a run that is under way, within that bound, and ends the exchange.
  /// Errors:  those of wait(), of that run; those of SetScope::finish().
  ///          stale_handle  it has ended.
  [[nodiscard]] Result<void> finish() noexcept;

 private:
  std::unique_ptr<group::ExchangeState> state_;
};

}  // namespace lend
