// SPDX-License-Identifier: MIT OR Apache-2.0
// What this process counts, as text for programs that collect metrics. Any thread.
#pragma once

#include <lend/base/export.hpp>

#include <cstdint>
#include <string>

namespace lend {

/// The two texts of Prometheus have the same samples. In OpenMetrics the names of families of
/// counters lack the `_total` of their samples, in 0.0.4 they have it.
enum class MetricsFormat : std::uint8_t {
  openmetrics,  ///< 1.0: application/openmetrics-text; version=1.0.0; charset=utf-8
  prometheus,   ///< 0.0.4: text/plain; version=0.0.4; also for node_exporter's textfile collector
  json,         ///< {"schema": 1, "series": [{"name": …, "labels": {…}, "value": …}, …]}
};

/// What all channels of this process count that do, together with those that have ended: for the
/// program's own answer to GET /metrics. Channels count by ObserveOptions or LEND_METRICS=1; their
/// counts are added by ObserveOptions::name. By LEND_METRICS=1 transports count messages, groups
/// calls, listeners clients, and pools how much of them is used and how often nothing was free. A
/// forked child begins at zero, without what its parent has. By LEND_METRICS=DIR all count as by 1,
/// in a file there, which `lend top` reads.
///
/// Latencies are known to a sixteenth, and lend_operation_seconds_sum to a thirty-second. Counts
/// that are made meanwhile may be in it or not, each by itself.
///
/// Errors:  throws std::bad_alloc.
/// Threads: any, at any time. No channel waits for it, but one that begins or ends.
/// Source:  OpenMetrics 1.0; Prometheus, "Exposition formats", text format 0.0.4.
[[nodiscard]] LEND_EXPORT std::string metrics_text(
    MetricsFormat format = MetricsFormat::openmetrics);

}  // namespace lend
