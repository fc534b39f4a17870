// SPDX-License-Identifier: MIT OR Apache-2.0
// A timeline as text, and as JSON.
#include <tools/json.hpp>
#include <tools/timeline.hpp>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

namespace lend::tools {

namespace {

using observe::EventKind;

/// Of nanoseconds.
std::string microseconds(double ns) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.3f", ns / 1000);
  return text.data();
}

std::string process_of(Recording const& recording) {
  auto const& header = recording.header;
  return std::string{header.program.data()} + '[' + std::to_string(header.process) + "] on " +
         header.host.data();
}

std::string channel_of(Recording const& recording) {
  auto const& header = recording.header;
  return "channel " + std::to_string(header.channel) + ", queue pair " +
         std::to_string(header.own.queue_pair);
}

bool is_post(Moment const& moment) {
  return moment.event->kind == static_cast<std::uint8_t>(EventKind::posted);
}
bool is_end(Moment const& moment) {
  return moment.event->kind == static_cast<std::uint8_t>(EventKind::completed) ||
         moment.event->kind == static_cast<std::uint8_t>(EventKind::failed);
}

/// The number of each recording's process. That of the host is kept where no other host has it.
std::vector<std::uint64_t> numbers_of_processes(std::vector<Recording> const& recordings) {
  using Process = std::tuple<std::string_view, std::string_view, std::uint32_t>;
  std::map<Process, std::uint64_t> numbers;
  std::set<std::uint64_t> taken;
  std::vector<std::uint64_t> all;
  for (auto const& recording : recordings) {
    auto const& header = recording.header;
    auto const [known, is_new] = numbers.try_emplace(
        Process{header.boot.data(), header.host.data(), header.process}, header.process);
    // Above what a process may have: 2^22 is the most. Source: proc_sys_kernel(5), pid_max.
    while (is_new && !taken.insert(known->second).second) known->second += std::uint64_t{1} << 22;
    all.push_back(known->second);
  }
  return all;
}

/// The events of one trace.
class Writer {
 public:
  explicit Writer(std::vector<Recording> const& recordings)
      : recordings_{recordings}, processes_{numbers_of_processes(recordings)} {}
  void add(char const* phase, std::string_view name, Moment const& moment, Json more) {
    auto& event = add(phase, name, moment.recording);
    event["cat"] = "lend";
    event["ts"] = std::round(moment.at) / 1000;  // in microseconds
    event.update(more);
  }
  void name_track(char const* what, std::string const& name, std::size_t recording) {
    add("M", what, recording)["args"] = {{"name", name}};
  }
  [[nodiscard]] std::string text(std::vector<std::string> const& clocks) const {
    return text_of(Json{{"displayTimeUnit", "ns"}, {"otherData", {{"clocks", clocks}}}},
                   "traceEvents", events_);
  }

 private:
  Json& add(char const* phase, std::string_view name, std::size_t recording) {
    return events_.emplace_back(Json{{"ph", phase},
                                     {"name", name},
                                     {"pid", processes_[recording]},
                                     {"tid", recordings_[recording].header.channel}});
  }

  std::vector<Recording> const& recordings_;
  std::vector<std::uint64_t> processes_;  // of the recordings
  std::vector<Json> events_{};
};

Json arguments_of(Moment const& moment, Recording const& recording) {
  auto const& event = *moment.event;
  Json arguments{{"bytes", event.bytes}, {"slot", event.slot}};
  if (auto const source = recording.source_of(event); !source.empty())
    arguments["posted_at"] = source;
  if (event.kind == static_cast<std::uint8_t>(EventKind::failed))
    arguments["status"] = name_of(static_cast<WorkStatus>(event.status));
  return arguments;
}

}  // namespace

std::string name_of(Recording const& recording) {
  return process_of(recording) + ", " + channel_of(recording);
}

std::string text_of(Timeline const& timeline, Moment const& moment, double shift) {
  auto const& recording = (*timeline.recordings)[moment.recording];
  auto const time = microseconds(moment.at + shift);
  auto text = std::string(time.size() < 14 ? 14 - time.size() : 0, ' ') + time + " us  " +
              name_of(recording) + ": " + observe::text_of(*moment.event);
  if (auto const source = recording.source_of(*moment.event); !source.empty())
    text += ", at " + source;
  if (is_end(moment) && moment.pair)
    text += ", after " + microseconds(moment.at - timeline.moments[*moment.pair].at) + " us";
  return text;
}

std::string text_of(Timeline const& timeline) {
  std::string text;
  for (auto const& moment : timeline.moments) {
    text += text_of(timeline, moment);
    if (is_post(moment) && !moment.pair) text += ", outstanding at the end";
    text += '\n';
  }
  for (auto const& recording : *timeline.recordings)
    if (recording.lost > 0)
      text += name_of(recording) + ": " + std::to_string(recording.lost) +
              " earlier events were replaced\n";
  for (auto const& line : timeline.clocks) text += line + '\n';
  return text;
}

std::string json_of(Timeline const& timeline) {
  auto const& recordings = *timeline.recordings;
  Writer writer{recordings};
  for (std::size_t i = 0; i < recordings.size(); ++i) {
    writer.name_track("process_name", process_of(recordings[i]), i);
    writer.name_track("thread_name", channel_of(recordings[i]), i);
  }
  for (std::size_t at = 0; at < timeline.moments.size(); ++at) {
    Moment const& moment = timeline.moments[at];
    auto const& recording = recordings[moment.recording];
    auto const what = observe::text_of(*moment.event);
    auto const arguments = arguments_of(moment, recording);
    if (!is_post(moment) && !is_end(moment)) {
      writer.add("i", what, moment, {{"s", "t"}});
      continue;
    }
    // A slice, because arrows go from slice to slice.
    writer.add("X", what, moment, {{"dur", 0.001}, {"args", arguments}});
    if (is_post(moment) || moment.pair) {
      auto const id = is_post(moment) ? at : *moment.pair;
      writer.add(is_post(moment) ? "b" : "e",
                 name_of(static_cast<Operation>(moment.event->operation)), moment,
                 {{"id", id}, {"args", arguments}});
    }
    if (moment.peer) {
      auto const id = is_post(moment) ? at : *moment.peer;
      Json more{{"id", id}};
      if (!is_post(moment)) more["bp"] = "e";
      writer.add(is_post(moment) ? "s" : "f", "message", moment, more);
    }
  }
  return writer.text(timeline.clocks);
}

}  // namespace lend::tools
