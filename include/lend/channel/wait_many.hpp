// SPDX-License-Identifier: MIT OR Apache-2.0
// Waits for one, some or all of many handles. The thread of their channels.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/result.hpp>
#include <lend/channel/pending_work.hpp>

#include <cstddef>
#include <optional>
#include <span>

namespace lend {

/// Waits until one of `works` has a result, a success or a failure, and tells its index; its poll()
/// then returns that result. Handles whose result was taken before, by an earlier wait or poll, are
/// passed over; nothing is returned once that is all of them:
///
///     for (;;) {
///       LEND_TRY(next, wait_any(works, within(1s)));
///       if (!next) break;
///       LEND_TRY(done, works[*next].poll());
///     }
/// Shape:   the works are of one channel, or of channels of one WaitSet.
/// Errors:  invalid_argument      they are not; nothing happened.
///          timed_out, cancelled  nothing came; all are as before.
///          system_failed         the completion queue could not be polled, as PendingWork::poll().
[[nodiscard]] LEND_EXPORT Result<std::optional<std::size_t>> wait_any(
    std::span<PendingWork> works, Deadline deadline = Deadline::never()) noexcept;

/// The same for all that have a result by then: fills `into` with their indices, as many as it has
/// room for, and returns what it filled.
/// Errors:  those of wait_any(), and
///          invalid_argument  `into` has no room.
[[nodiscard]] LEND_EXPORT Result<std::span<std::size_t>> wait_some(
    std::span<PendingWork> works, std::span<std::size_t> into LEND_LIFETIMEBOUND,
    Deadline deadline = Deadline::never()) noexcept;

/// Waits for all; the handles keep their results. Channels of any kind.
/// Errors:  timed_out, cancelled  some are still outstanding: wait again.
///          as PendingWork::wait()  the first that failed, if possible one that was not only
///                                flushed; drained() has the others. None is outstanding.
[[nodiscard]] LEND_EXPORT Result<void> wait_all(std::span<PendingWork> works,
                                                Deadline deadline = Deadline::never()) noexcept;

}  // namespace lend
