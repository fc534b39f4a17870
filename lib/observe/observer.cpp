// SPDX-License-Identifier: MIT OR Apache-2.0
// Begins to count, and adds what was counted. The thread of what counts; add_to(): any thread.
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

namespace {

void add_latencies(Totals::OfOperation& to, LatencyHistogram const& from) noexcept {
  for (std::size_t i = 0; i < LatencyHistogram::bucket_count; ++i) {
    auto const times = HistogramAccess::count_of(from, i);
    if (times == 0) continue;
    auto const begin = from.begin_of(i);
    auto const end = from.begin_of(i + 1);
    std::size_t bound = 0;
    while (bound < latency_bounds && latency_bound(bound) < end) ++bound;
    to.latencies[bound] += times;
    to.seconds += double(times) * (double(begin.count()) + double(end.count())) / 2 * 1e-9;
  }
}

}  // namespace

void Observer::add_to(Totals& totals) const noexcept {
  for (std::size_t i = 0; i < metrics.operations.size(); ++i) {
    OperationMetrics const& from = metrics.operations[i];
    Totals::OfOperation& to = totals.operations[i];
    to.completed += read_count(from.completed);
    to.failed += read_count(from.failed);
    to.flushed += read_count(from.flushed);
    to.bytes += read_count(from.bytes);
    auto const posted = read_count(from.posted);
    to.posted += posted;
    if (posted != 0) add_latencies(to, from.latency);
  }
  PeerLoanMetrics const& loans = metrics.peer_loans;
  totals.peer_loans.lent += read_count(loans.lent);
  totals.peer_loans.returned += read_count(loans.returned);
  totals.peer_loans.recalled += read_count(loans.recalled);
  totals.peer_loans.ended += read_count(loans.ended);
  totals.peer_loans.refused += read_count(loans.refused);
  totals.room_waits += read_count(metrics.room_waits);
  totals.breaks += read_count(breaks_);
  totals.working += read_count(working_);
  totals.broken += read_count(broken_);
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

void Tally::add_to(Tallies& totals) const noexcept {
  totals.sent += read_count(counted_.sent);
  totals.received += read_count(counted_.received);
  totals.sent_bytes += read_count(counted_.sent_bytes);
  totals.received_bytes += read_count(counted_.received_bytes);
  totals.succeeded += read_count(counted_.succeeded);
  totals.failed += read_count(counted_.failed);
}

bool all_count() noexcept {
  auto const wish = base::variable("LEND_METRICS");
  return !wish.is_refused && wish.text == "1";
}

}  // namespace lend::observe
