// SPDX-License-Identifier: MIT OR Apache-2.0
// Looks at recordings again and again.
#include <tools/clocks.hpp>
#include <tools/following.hpp>
#include <tools/timeline.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <string_view>
#include <utility>

namespace lend::tools {

namespace {

std::string line_of_file(std::string const& path) {
  std::ifstream file{path};
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

bool is_running(observe::RecordingHeader const& header) {
  if (std::string_view{header.boot.data()} != line_of_file("/proc/sys/kernel/random/boot_id"))
    return false;
  auto const process = static_cast<pid_t>(header.process);
  if (process <= 0 || (::kill(process, 0) != 0 && errno != EPERM)) return false;
  // One that has ended and was not waited for is there still. Source: proc_pid_stat(5), (3) state.
  auto const facts = line_of_file("/proc/" + std::to_string(process) + "/stat");
  auto const name_end = facts.rfind(") ");
  return name_end == facts.npos || (facts[name_end + 2] != 'Z' && facts[name_end + 2] != 'X');
}

Result<void> Follower::find_new() {
  for (auto const& path : paths_) {
    LEND_TRY(names, files_of(path));
    for (auto& name : names)
      if (std::ranges::find(files_, name, &Followed::path) == files_.end())
        files_.push_back({std::move(name)});
  }
  return success();
}

Result<void> Follower::read_all() {
  auto const before = std::exchange(recordings_, {});
  std::vector<std::size_t> stayed;  // of those
  auto file = files_.begin();
  for (std::size_t at = 0; file != files_.end(); ++at) {
    auto read = read_recording(file->path);
    bool const was_there =
        at < before.size() || std::ranges::find(paths_, file->path) == paths_.end();
    if (read.has_error() && read.error() == Errc::not_found && was_there) {
      std::erase(paths_, file->path);
      file = files_.erase(file);
      continue;
    }
    LEND_TRY(recording, std::move(read));
    recordings_.push_back(std::move(recording));
    if (at < before.size()) stayed.push_back(at);
    ++file;
  }
  if (first_ && !stayed.empty() && stayed.front() > 0) keep_first(before, stayed.front());
  return success();
}

void Follower::keep_first(std::vector<Recording> const& before, std::size_t now_first) {
  observe::Event moment;
  moment.at = before[now_first].header.begun_at;
  *first_ += Clocks{recordings_}.time_of(0, moment) - Clocks{before}.time_of(now_first, moment);
}

Result<std::string> Follower::look() {
  // Before they are read: what a process wrote until its end is then told.
  auto const header_of = [](Recording const& one) -> auto const& {
    return one.header;
  };
  bool const all_ended =
      !recordings_.empty() && std::ranges::none_of(recordings_, is_running, header_of);
  auto const known = files_.size();
  LEND_TRYV(find_new());
  is_over_ = all_ended && files_.size() == known;
  LEND_TRYV(read_all());
  is_over_ = is_over_ || paths_.empty();
  auto const timeline = timeline_of(recordings_);
  std::string text;
  for (std::size_t i = 0; i < files_.size(); ++i)
    if (auto const lost = recordings_[i].lost; lost > files_[i].told)
      text += name_of(recordings_[i]) + ": " + std::to_string(lost - files_[i].told) +
              " events were replaced before they were read\n";
  if (!timeline.moments.empty() && !first_) first_ = timeline.began;
  for (auto const& moment : timeline.moments) {
    auto const& recording = recordings_[moment.recording];
    auto const number =
        recording.lost + static_cast<std::uint64_t>(moment.event - recording.events.data());
    if (number >= files_[moment.recording].told)
      text += text_of(timeline, moment, timeline.began - *first_) + '\n';
  }
  for (std::size_t i = 0; i < files_.size(); ++i)
    files_[i].told = recordings_[i].lost + recordings_[i].events.size();
  return text;
}

}  // namespace lend::tools
