// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes and reads of values that do not lie together. The thread of the channel.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/base/source_line.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/channel/polling_scope.hpp>
#include <lend/verbs/parts.hpp>

namespace lend {

/// Posts one operation: as many requests as the parts need, in a batch. The handle is that of the
/// last request, which is over when all are.
///
///     LEND_TRY(done, lend::post_write_parts(scope, cells.gather(column), theirs.parts(row)));
///
/// Shape:   as many bytes here as at the peer, which may be cut differently.
/// Borrows: each piece, as PollingScope::post_write() and post_read().
/// Errors:  those of PollingScope::post_write(), and before anything is posted
///          invalid_argument  parts are out of bounds, differ in length, or overlap where bytes
///                            arrive.
///          unsupported       a read of several requests on iWARP, which ends them in any order.
///          After timed_out, already_borrowed and queue_full some requests may be under way: repeat
///          the call once they are over. In a manual scope they count as unpolled.
/// Source:  ibv_post_send(3); RFC 5040, 5.5, for the order of reads on iWARP.
[[nodiscard]] LEND_EXPORT Result<PendingWork> post_write_parts(
    PollingScope& scope, GatherParts const& source, RemoteParts const& target,
    Deadline deadline = Deadline::never(), SourceLine where = SourceLine::here()) noexcept;
[[nodiscard]] LEND_EXPORT Result<PendingWork> post_read_parts(
    PollingScope& scope, ScatterParts const& target, RemoteParts const& source,
    Deadline deadline = Deadline::never(), SourceLine where = SourceLine::here()) noexcept;

}  // namespace lend
