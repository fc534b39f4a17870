// SPDX-License-Identifier: MIT OR Apache-2.0
// The failures of one channel: the first cause, and the error of the last call. Nothing here runs
// while work succeeds. The thread of the channel.
#pragma once

#include <channel/parts/scope_record.hpp>
#include <lend/base/error.hpp>
#include <lend/base/export.hpp>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace lend::channel {

/// The one of several failures that explains the others, if any does: preferably not a flushed
/// request, nor one that was not posted because the channel was broken.
[[nodiscard]] Error const& root_of(std::vector<Error> const& failures) noexcept;
/// That one, with the others as its drained().
[[nodiscard]] Error root_with_others(std::vector<Error> failures) noexcept;

class FailureLog {
 public:
  // ---- the last call ----

  /// The error of the last failed call. It is kept here so that successful calls need no Error.
  [[nodiscard]] Error const& last_error() const noexcept { return last_error_; }
  [[nodiscard]] Error take_last_error() noexcept { return std::exchange(last_error_, Error{}); }
  void set_last_error(Error error) noexcept { last_error_ = std::move(error); }

  // ---- the first cause ----

  /// Null while the channel works.
  [[nodiscard]] Error const* first_cause() const noexcept {
    return first_cause_ ? &*first_cause_ : nullptr;
  }
  [[nodiscard]] bool has_first_cause() const noexcept { return first_cause_.has_value(); }
  /// Breaks the channel with a cause from the device, the peer or a connection manager. It replaces
  /// a cause that was only a flush, or lend's own.
  void add_cause(Error const& cause) noexcept;
  /// Breaks the channel with the reason why lend aborts the work. It stays the first cause until
  /// the abort reveals a better one.
  void add_own_cause(Error const& reason) noexcept;
  /// The same with what the source of losses says. It replaces a cause that only shows that: that
  /// the peer did not answer, or a flush; if it is the peer that is lost, that its device refused;
  /// and on iWARP that something was not sent.
  /// Source: Linux drivers/infiniband/sw/siw/siw_qp_tx.c, siw_qp_sq_process(): whatever ends a send
  ///         or write is SIW_WC_LOC_QP_OP_ERR.
  void add_loss(Error const& loss, bool is_of_peer, bool is_iwarp) noexcept;
  /// Whether the source of losses has been told that the channel is broken.
  [[nodiscard]] bool has_loss() const noexcept { return has_loss_; }
  /// Whether add_cause() would take a cause that is no flush.
  [[nodiscard]] bool lacks_cause() const noexcept {
    return !first_cause_.has_value() || cause_is_own_ || first_cause_->is_flush();
  }
  /// The reason of a flush is not known yet.
  [[nodiscard]] bool is_unexplained() const noexcept {
    return first_cause_.has_value() && first_cause_->is_flush();
  }
  /// The error of a call on a broken channel.
  [[nodiscard]] LEND_EXPORT Error broken_error() const noexcept;

  // ---- failed work ----

  /// Whether the first cause explains work that failed with `status` now.
  [[nodiscard]] bool is_cause_of(WorkStatus status) const noexcept;
  /// `failure`, completed with the cause that was found since.
  [[nodiscard]] Error explained(Error const& failure) const noexcept;
  /// The next sequence number of a failure.
  [[nodiscard]] std::uint64_t next_number() noexcept { return ++failures_seen_; }
  /// Adds a failure to those of `scope`, in the order of their numbers.
  static void keep(ScopeRecord& scope, Error const& failure, std::uint64_t number) noexcept;

 private:
  /// Whether what the source of losses says explains it.
  [[nodiscard]] bool comes_of_loss(Error const& failure) const noexcept;

  Error last_error_{};
  std::optional<Error> first_cause_{};
  bool cause_is_own_ = false;
  bool has_loss_ = false;
  bool cause_is_loss_ = false;
  bool loss_is_of_peer_ = false;
  bool loss_is_on_iwarp_ = false;
  std::uint64_t failures_seen_ = 0;  // failed completions, and refused requests of batches
};

}  // namespace lend::channel
