// SPDX-License-Identifier: MIT OR Apache-2.0
// Orders the events of recordings, and finds what belongs together.
#include <tools/clocks.hpp>
#include <tools/timeline.hpp>

#include <algorithm>
#include <map>
#include <utility>

namespace lend::tools {

namespace {

using observe::EventKind;

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
  timeline.clocks = clocks.text();
  pair_up(timeline);
  match_messages(timeline);
  return timeline;
}

}  // namespace lend::tools
