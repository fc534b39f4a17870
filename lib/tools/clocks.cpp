// SPDX-License-Identifier: MIT OR Apache-2.0
// Bounds the offsets of hosts' clocks by messages, and chooses among them.
#include <tools/clocks.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>

namespace lend::tools {

namespace {

using observe::Event;
using observe::EventKind;

/// Whether ticks of both are of one clock.
bool share_a_clock(observe::RecordingHeader const& one, observe::RecordingHeader const& other) {
  return one.boot == other.boot && one.boot[0] != '\0' && one.has_counter == other.has_counter;
}

std::string microseconds_of(double ns) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.3f us", ns / 1000);
  return text.data();
}

}  // namespace

std::vector<std::optional<std::size_t>> peers_of(std::vector<Recording> const& all) {
  std::vector<std::optional<std::size_t>> peers(all.size());
  for (std::size_t one = 0; one < all.size(); ++one)
    for (std::size_t other = 0; other < all.size(); ++other) {
      auto const& here = all[one].header;
      auto const& there = all[other].header;
      if (here.is_ordered == 1 && there.is_ordered == 1 && here.peer == there.own &&
          here.own == there.peer && here.peer != observe::EndName{})
        peers[one] = other;
    }
  return peers;
}

bool Clocks::Bounds::has_both() const noexcept {
  return std::isfinite(least) && std::isfinite(most);
}

double Clocks::Bounds::best() const noexcept {
  if (has_both()) return least + (most - least) / 2;
  return std::max(least, std::min(most, 0.0));
}

double Clocks::Bounds::misses(double offset) const noexcept {
  return std::max({0.0, least - offset, offset - most});
}

Clocks::Clocks(std::vector<Recording> const& all) : all_{all} {
  for (std::size_t index = 0; index < all.size(); ++index) {
    auto const host = std::ranges::find_if(hosts_, [&](Host const& known) {
      return share_a_clock(all[known.reference].header, all[index].header);
    });
    host_of_.push_back(static_cast<std::size_t>(host - hosts_.begin()));
    if (host == hosts_.end()) hosts_.push_back({index});
  }
  if (hosts_.size() < 2) return;
  bound(all);
  align();
}

double Clocks::time_of(std::size_t recording, Event const& event) const {
  // Of one rate for all of a host, so that they do not drift apart.
  Host const& host = hosts_[host_of_[recording]];
  auto const& reference = all_[host.reference].header;
  auto const since = static_cast<double>(static_cast<std::int64_t>(event.at - reference.begun_at));
  auto const begun = static_cast<double>(
      static_cast<std::int64_t>(reference.begun_at_real - all_.front().header.begun_at_real));
  return begun + since * reference.nanoseconds_a_tick + host.offset;
}

void Clocks::bound(std::vector<Recording> const& all) {
  auto const peers = peers_of(all);
  for (std::size_t receiver = 0; receiver < all.size(); ++receiver) {
    if (!peers[receiver]) continue;
    auto const sender = *peers[receiver];
    auto const from = host_of_[sender];
    auto const to = host_of_[receiver];
    if (from == to) continue;
    std::map<std::uint32_t, double> sent;  // by number
    for (auto const& event : all[sender].events)
      if (event.kind == static_cast<std::uint8_t>(EventKind::posted) && event.message != 0)
        sent.try_emplace(event.message, time_of(sender, event));
    for (auto const& event : all[receiver].events) {
      if (event.kind != static_cast<std::uint8_t>(EventKind::completed)) continue;
      auto const message = sent.find(event.message);
      if (message == sent.end()) continue;
      double const took = time_of(receiver, event) - message->second;
      Bounds& bounds = bounds_[std::minmax(from, to)];
      if (from < to)
        bounds.least = std::max(bounds.least, -took);
      else
        bounds.most = std::min(bounds.most, took);
    }
  }
}

std::optional<Clocks::Bounds> Clocks::between(std::size_t one, std::size_t other) const {
  auto const found = bounds_.find(std::minmax(one, other));
  if (found == bounds_.end()) return std::nullopt;
  return one < other ? found->second : found->second.reversed();
}

void Clocks::align() {
  std::vector<bool> is_aligned(hosts_.size());
  is_aligned[0] = true;
  for (std::size_t left = hosts_.size() - 1; left > 0; --left) {
    std::size_t best = 0;
    double best_width = 0;
    for (std::size_t host = 1; host < hosts_.size(); ++host) {
      if (is_aligned[host]) continue;
      if (best == 0) best = host;  // one without messages, if there is no other
      for (std::size_t to = 0; to < hosts_.size(); ++to) {
        auto const bounds = is_aligned[to] ? between(to, host) : std::nullopt;
        if (!bounds) continue;
        auto const width = std::abs(bounds->most - bounds->least);
        if (hosts_[best].by && width >= best_width) continue;
        hosts_[best].by.reset();
        best = host;
        best_width = width;
        hosts_[host].by = bounds;
        hosts_[host].to = to;
      }
    }
    if (hosts_[best].by)
      hosts_[best].offset = hosts_[hosts_[best].to].offset + hosts_[best].by->best();
    is_aligned[best] = true;
  }
}

std::string Clocks::name_of(std::size_t host) const {
  return all_[hosts_[host].reference].header.host.data();
}

std::vector<std::string> Clocks::text() const {
  std::vector<std::string> lines;
  for (std::size_t host = 1; host < hosts_.size(); ++host) {
    Host const& its = hosts_[host];
    std::string line = "clock of " + name_of(host) + ": ";
    if (!its.by)
      line += "no messages to compare it by, it is as its clock of real time says";
    else if (!its.by->has_both())
      line += "moved by " + microseconds_of(its.offset) + ", and messages from " +
              (std::isfinite(its.by->least) ? name_of(its.to) : name_of(host)) +
              " alone do not tell how much more";
    else if (its.by->least <= its.by->most)
      line += "moved by " + microseconds_of(its.offset) + ", as messages from and to " +
              name_of(its.to) + " tell to " + microseconds_of((its.by->most - its.by->least) / 2);
    else
      line += "moved by " + microseconds_of(its.offset);
    lines.push_back(std::move(line));
  }
  for (auto const& [hosts, bounds] : bounds_) {
    auto const [one, other] = hosts;
    auto const misses = bounds.misses(hosts_[other].offset - hosts_[one].offset);
    // Less is what double loses of times that are far apart.
    if (misses < 1) continue;
    lines.push_back("clocks of " + name_of(one) + " and " + name_of(other) +
                    " drift: messages between them contradict each other by " +
                    microseconds_of(misses));
  }
  return lines;
}

}  // namespace lend::tools
