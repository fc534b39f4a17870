// SPDX-License-Identifier: MIT OR Apache-2.0
// Adds what was counted.
#include <observe/counting.hpp>
#include <observe/totals.hpp>

#include <algorithm>
#include <string_view>
#include <utility>

namespace lend::observe {

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

/// Each word of `from` may be counting.
template <class Plain>
void add_words(Plain& to, Plain const& from, auto... members) noexcept {
  ((to.*members += read_count(from.*members)), ...);
}

void add(PeerLoanMetrics& to, PeerLoanMetrics const& from) noexcept {
  using Its = PeerLoanMetrics;
  add_words(to, from, &Its::lent, &Its::returned, &Its::recalled, &Its::ended, &Its::refused);
}

void add(ChannelCounts& to, ChannelCounts const& from) noexcept {
  using Its = ChannelCounts;
  add_words(to, from, &Its::working, &Its::broken, &Its::breaks);
}

}  // namespace

Totals::OfOperation& Totals::OfOperation::operator+=(OfOperation const& other) noexcept {
  using Its = OfOperation;
  add_words(*this, other, &Its::posted, &Its::completed, &Its::failed, &Its::flushed, &Its::bytes);
  for (std::size_t i = 0; i < latencies.size(); ++i) latencies[i] += other.latencies[i];
  seconds += other.seconds;
  return *this;
}

Totals& Totals::operator+=(Totals const& other) noexcept {
  for (std::size_t i = 0; i < operations.size(); ++i) operations[i] += other.operations[i];
  add(peer_loans, other.peer_loans);
  room_waits += other.room_waits;
  add(channels, other.channels);
  return *this;
}

void Totals::add_counted(std::array<OperationMetrics, 5> const& from_operations,
                         PeerLoanMetrics const& from_loans, std::uint64_t const& from_room_waits,
                         ChannelCounts const& from_channels) noexcept {
  for (std::size_t i = 0; i < from_operations.size(); ++i) {
    OperationMetrics const& from = from_operations[i];
    OfOperation& to = operations[i];
    to.completed += read_count(from.completed);
    to.failed += read_count(from.failed);
    to.flushed += read_count(from.flushed);
    to.bytes += read_count(from.bytes);
    auto const posted = read_count(from.posted);
    to.posted += posted;
    if (posted != 0) add_latencies(to, from.latency);
  }
  add(peer_loans, from_loans);
  room_waits += read_count(from_room_waits);
  add(channels, from_channels);
}

Tallies& Tallies::operator+=(Tallies const& other) noexcept {
  using Its = Tallies;
  add_words(*this, other, &Its::sent, &Its::received, &Its::sent_bytes, &Its::received_bytes,
            &Its::pooled);
  for (std::size_t i = 0; i < calls.size(); ++i)
    add_words(calls[i], other.calls[i], &OfCall::succeeded, &OfCall::failed, &OfCall::nanoseconds);
  for (std::size_t i = 0; i < clients.size(); ++i) clients[i] += read_count(other.clients[i]);
  for (std::size_t i = 0; i < pools.size(); ++i)
    add_words(pools[i], other.pools[i], &OfPart::used, &OfPart::free, &OfPart::lacking);
  return *this;
}

void Tallies::end_pools() noexcept {
  for (OfPart& part : pools) {
    set_count(part.used, 0);
    set_count(part.free, 0);
  }
}

std::size_t Counts::series_of(std::string_view name) {
  auto const place_of = [this](std::string_view wanted) {
    return static_cast<std::size_t>(std::ranges::find(series, wanted, &Series::name) -
                                    series.begin());
  };
  auto place = place_of(name);
  if (place == series.size() && place >= names_max) place = place_of(name = "other");
  if (place == series.size()) series.push_back({std::string{name}});
  return place;
}

Counts& Counts::operator+=(Counts const& other) {
  for (auto const& [name, totals] : other.series) series[series_of(name)].totals += totals;
  tallies += other.tallies;
  return *this;
}

}  // namespace lend::observe
