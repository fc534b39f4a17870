// SPDX-License-Identifier: MIT OR Apache-2.0
// Begins to observe a channel. The thread of the channel.
#include <base/environment.hpp>
#include <observe/observer.hpp>

#include <utility>

namespace lend::observe {

Observer::Observer(Result<std::string> const& directory) : clock_{Clock::of_this_process()} {
  for (auto& operation : metrics.operations)
    operation.latency = LatencyHistogram{clock_.nanoseconds_a_tick};
  if (!directory) metrics.recording_failure = directory.error();
  if (!directory || directory.value().empty()) return;
  auto made = Recorder::create(directory.value(), clock_);
  if (!made.has_value()) {
    metrics.recording_failure = made.error();
    return;
  }
  recorder_.emplace(std::move(made).value());
}

Result<std::string> directory_for(std::string const& wish) {
  if (!wish.empty()) return wish;
  LEND_TRY(directory, base::text_of_variable("LEND_RECORD"));
  return std::string{directory};
}

}  // namespace lend::observe
