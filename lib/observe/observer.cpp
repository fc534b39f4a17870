// SPDX-License-Identifier: MIT OR Apache-2.0
// Begins to count and to record. The thread of what counts.
#include <base/environment.hpp>
#include <observe/observer.hpp>
#include <observe/registry.hpp>

#include <utility>

namespace lend::observe {

Observer::Observer(std::string_view name)
    : registry_{Registry::of_this_process()},
      series_{registry_.series_of(name)},
      clock_{Clock::of_this_process()} {
  for (auto& operation : metrics.operations)
    operation.latency = LatencyHistogram{clock_.nanoseconds_a_tick};
  registry_.join(*this);
}

Observer::~Observer() {
  registry_.leave(*this);
}

void Observer::record_in(Result<std::string> const& directory) {
  if (!directory) metrics.recording_failure = directory.error();
  if (!directory || directory.value().empty()) return;
  auto made = Recorder::create(directory.value(), clock_);
  if (!made.has_value()) {
    metrics.recording_failure = made.error();
    return;
  }
  recorder_.emplace(std::move(made).value());
}

bool Observer::is_of(std::string_view name) const {
  Registry& registry = Registry::of_this_process();
  return &registry == &registry_ && registry.series_of(name) == series_;
}

Result<std::string> directory_for(std::string const& wish) {
  if (!wish.empty()) return wish;
  LEND_TRY(directory, base::text_of_variable("LEND_RECORD"));
  return std::string{directory};
}

std::unique_ptr<Tally> Tally::if_asked() {
  if (!is_built || !all_count()) return nullptr;
  return std::make_unique<Tally>(Registry::of_this_process());
}

Tally::Tally(Registry& registry) noexcept : registry_{registry} {
  registry_.join(*this);
}

Tally::~Tally() {
  registry_.leave(*this);
}

bool all_count() noexcept {
  auto const wish = base::variable("LEND_METRICS");
  return !wish.is_refused && (wish.text == "1" || wish.text.find('/') != wish.text.npos);
}

std::string_view counts_directory() noexcept {
  auto const wish = base::variable("LEND_METRICS");
  return wish.is_refused || wish.text.find('/') == wish.text.npos ? std::string_view{} : wish.text;
}

}  // namespace lend::observe
