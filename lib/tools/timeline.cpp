// SPDX-License-Identifier: MIT OR Apache-2.0
// Orders the events of recordings, and finds what belongs together.
#include <tools/timeline.hpp>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace lend::tools {

namespace {

using observe::Event;
using observe::EventKind;

/// Whether ticks of both are of one clock.
bool share_a_clock(observe::RecordingHeader const& one, observe::RecordingHeader const& other) {
  return one.boot == other.boot && one.boot[0] != '\0' && one.has_counter == other.has_counter;
}

/// Places events of each recording on the clock of the first one.
class Clocks {
 public:
  explicit Clocks(std::vector<Recording> const& all) {
    for (auto const& recording : all) {
      auto const* reference = &recording.header;
      for (auto const& earlier : all) {
        if (!share_a_clock(earlier.header, recording.header)) continue;
        reference = &earlier.header;
        break;
      }
      references_.push_back(reference);
    }
  }
  [[nodiscard]] double time_of(std::size_t recording, Event const& event) const {
    // Of one rate for all of a host, so that they do not drift apart.
    auto const& reference = *references_[recording];
    auto const since =
        static_cast<double>(static_cast<std::int64_t>(event.at - reference.begun_at));
    auto const begun = static_cast<double>(
        static_cast<std::int64_t>(reference.begun_at_real - references_.front()->begun_at_real));
    return begun + since * reference.nanoseconds_a_tick;
  }

 private:
  std::vector<observe::RecordingHeader const*> references_{};
};

void pair_up(Timeline& timeline) {
  std::map<std::pair<std::size_t, std::uint32_t>, std::size_t> open;  // by recording and slot
  for (std::size_t at = 0; at < timeline.moments.size(); ++at) {
    Moment& moment = timeline.moments[at];
    auto const key = std::pair{moment.recording, moment.event->slot};
    auto const kind = static_cast<EventKind>(moment.event->kind);
    if (kind == EventKind::posted) {
      open[key] = at;
    } else if (kind == EventKind::completed || kind == EventKind::failed) {
      auto const found = open.find(key);
      if (found == open.end()) continue;
      moment.pair = found->second;
      timeline.moments[found->second].pair = at;
      open.erase(found);
    }
  }
}

/// The recording of the peer of each, if there is one.
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

void match_messages(Timeline& timeline) {
  auto const peers = peers_of(*timeline.recordings);
  std::map<std::pair<std::size_t, std::uint32_t>, std::size_t> sends;  // by recording and number
  for (std::size_t at = 0; at < timeline.moments.size(); ++at) {
    Moment const& moment = timeline.moments[at];
    if (moment.event->kind == static_cast<std::uint8_t>(EventKind::posted) &&
        moment.event->message != 0)
      sends.try_emplace({moment.recording, moment.event->message}, at);
  }
  for (std::size_t at = 0; at < timeline.moments.size(); ++at) {
    Moment& moment = timeline.moments[at];
    if (moment.event->kind != static_cast<std::uint8_t>(EventKind::completed) ||
        moment.event->message == 0 || !peers[moment.recording])
      continue;
    auto const found = sends.find({*peers[moment.recording], moment.event->message});
    if (found == sends.end()) continue;
    moment.peer = found->second;
    timeline.moments[found->second].peer = at;
  }
}

}  // namespace

Timeline timeline_of(std::vector<Recording> const& recordings) {
  Timeline timeline{&recordings};
  Clocks const clocks{recordings};
  for (std::size_t index = 0; index < recordings.size(); ++index)
    for (auto const& event : recordings[index].events)
      timeline.moments.push_back({clocks.time_of(index, event), index, &event, {}, {}});
  std::ranges::stable_sort(timeline.moments, {}, &Moment::at);
  if (!timeline.moments.empty()) {
    timeline.began = timeline.moments.front().at;
    for (auto& moment : timeline.moments) moment.at -= timeline.began;
  }
  pair_up(timeline);
  match_messages(timeline);
  return timeline;
}

}  // namespace lend::tools
