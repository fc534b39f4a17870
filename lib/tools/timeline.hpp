// SPDX-License-Identifier: MIT OR Apache-2.0
// The events of several recordings on one clock, each with what it belongs to. Values.
#pragma once

#include <tools/recording.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lend::tools {

struct Moment {
  double at = 0;              ///< ns since the first event of all
  std::size_t recording = 0;  ///< which it is of
  observe::Event const* event = nullptr;
  std::optional<std::size_t> pair{};  ///< of a post its end, and the reverse; an index of moments
  std::optional<std::size_t> peer{};  ///< of a send its receive's completion, and the reverse
};

struct Timeline {
  std::vector<Recording> const* recordings;
  double began = 0;                   ///< when the first event was, in ns on a clock of them all
  std::vector<Moment> moments{};      ///< by time
  std::vector<std::string> clocks{};  ///< what is known of the offsets between hosts, in sentences
};

/// The clocks of several hosts are aligned, see Clocks. A send and its receive are matched where
/// both ends of a reliable connection were recorded, by their number.
/// Borrows: `recordings`, as long as the timeline.
[[nodiscard]] Timeline timeline_of(std::vector<Recording> const& recordings);

/// "hello[12] on host, channel 1, queue pair 17"
[[nodiscard]] std::string name_of(Recording const& recording);
/// The line of one event, `shift` ns later than the timeline has it.
[[nodiscard]] std::string text_of(Timeline const& timeline, Moment const& moment, double shift = 0);
/// One line an event.
[[nodiscard]] std::string text_of(Timeline const& timeline);
/// For ui.perfetto.dev and chrome://tracing: each request an async event, processes and channels as
/// tracks, an arrow from each send to its receive.
/// Source:  "Trace Event Format", linked from perfetto.dev/docs/getting-started/other-formats.
[[nodiscard]] std::string json_of(Timeline const& timeline);

}  // namespace lend::tools
