// SPDX-License-Identifier: MIT OR Apache-2.0
// Begins to observe a channel. The thread of the channel.
#include <observe/observer.hpp>

#include <cstdlib>
#include <utility>

namespace lend::observe {

Observer::Observer(std::string const& directory) : clock_{Clock::of_this_process()} {
  for (auto& operation : metrics.operations)
    operation.latency = LatencyHistogram{clock_.nanoseconds_a_tick};
  if (directory.empty()) return;
  auto made = Recorder::create(directory, clock_);
  if (!made.has_value()) {
    metrics.recording_failure = made.error();
    return;
  }
  recorder_.emplace(std::move(made).value());
}

std::string directory_for(std::string const& wish) {
  if (!wish.empty()) return wish;
  char const* const variable = ::secure_getenv("LEND_RECORD");
  return variable == nullptr ? "" : variable;
}

}  // namespace lend::observe
