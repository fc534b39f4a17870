// SPDX-License-Identifier: MIT OR Apache-2.0
// Checks every field of a recording before anything uses it.
#include <base/printable.hpp>
#include <base/unique_fd.hpp>
#include <tools/recording.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace lend::tools {

namespace {

using observe::Event;
using observe::RecordingHeader;

constexpr auto operations = static_cast<std::uint8_t>(Operation::recall) + 1;
constexpr auto statuses = static_cast<std::uint8_t>(WorkStatus::tag_matching) + 1;

Error refused(std::string const& path, std::string const& why) {
  return {Errc::incompatible_peer, base::shown(path, 200) + ' ' + why};
}

template <class T>
Result<void> read_at(int file, std::string const& path, std::size_t offset, T* to,
                     std::size_t count) {
  auto const bytes = count * sizeof(T);
  auto const got = ::pread(file, to, bytes, static_cast<off_t>(offset));
  if (got < 0) return Error::from_errno("pread of " + path, errno);
  if (static_cast<std::size_t>(got) != bytes) return refused(path, "is truncated");
  return success();
}

template <std::size_t size>
bool ends(std::array<char, size> const& text) {
  return std::ranges::find(text, '\0') != text.end();
}

Result<void> check(RecordingHeader const& header, std::string const& path) {
  if (header.magic != observe::recording_magic)
    return refused(path, "is no recording of lend, or of another version or byte order");
  if (header.event_bytes != sizeof(Event) || header.events != observe::ring_events)
    return refused(path, "is a recording of another version");
  double const tick = header.nanoseconds_a_tick;
  if (!std::isfinite(tick) || tick < 1e-3 || tick > 1e6)
    return refused(path, "is damaged: its clock has no rate");
  bool all_end = ends(header.boot) && ends(header.host) && ends(header.program);
  for (auto const& name : header.files) all_end = all_end && ends(name);
  if (!all_end) return refused(path, "is damaged: a name in it does not end");
  return success();
}

/// Not of its time, which may be before the recording's: counters of two processors may differ.
Result<void> check(Event const& event, std::string const& path) {
  if (event.kind == 0 || event.kind > observe::last_kind || event.operation >= operations ||
      event.status >= statuses || event.file > observe::file_names)
    return refused(path, "is damaged: an event in it is none that lend writes");
  return success();
}

/// Names are bytes that a terminal may show.
template <std::size_t size>
void make_printable(std::array<char, size>& text) {
  for (char& c : text)
    if (c != '\0' && (c < ' ' || c > '~')) c = '?';
}

}  // namespace

std::string Recording::source_of(Event const& event) const {
  if (event.file == 0) return {};
  return std::string{header.files[event.file - 1].data()} + ':' + std::to_string(event.line);
}

Result<Recording> read_recording(std::string const& path) {
  // Nonblocking: it may be a pipe.
  base::UniqueFd const file{::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
  if (!file) return Error::from_errno("open of " + path, errno);
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0) return Error::from_errno("fstat of " + path, errno);
  if (!S_ISREG(facts.st_mode)) return refused(path, "is no file");
  if (static_cast<std::uint64_t>(facts.st_size) != observe::recording_bytes)
    return refused(path, "has " + std::to_string(facts.st_size) + " bytes; a recording has " +
                             std::to_string(observe::recording_bytes));

  Recording recording;
  LEND_TRYV(read_at(file.get(), path, 0, &recording.header, 1));
  LEND_TRYV(check(recording.header, path));
  std::vector<Event> ring(observe::ring_events);
  LEND_TRYV(read_at(file.get(), path, observe::header_bytes, ring.data(), ring.size()));
  // A process that still runs has replaced some meanwhile, and may be replacing one more.
  RecordingHeader after;
  LEND_TRYV(read_at(file.get(), path, 0, &after, 1));
  auto const next = recording.header.next;
  auto const kept_from =
      after.next < observe::ring_events ? 0 : after.next - (observe::ring_events - 1);
  if (after.next < next || next > (std::uint64_t{1} << 56))
    return refused(path, "is damaged: it counts more events than there can be");
  for (auto at = std::min(kept_from, next); at < next; ++at) {
    Event const& event = ring[at % observe::ring_events];
    LEND_TRYV(check(event, path));
    recording.events.push_back(event);
  }
  recording.lost = next - recording.events.size();
  make_printable(recording.header.host);
  make_printable(recording.header.program);
  for (auto& name : recording.header.files) make_printable(name);
  return recording;
}

Result<std::vector<std::string>> files_of(std::string const& path, std::string_view ending) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return std::vector{path};
  std::vector<std::string> names;
  std::filesystem::directory_iterator entries{path, error};
  for (; !error && entries != std::filesystem::directory_iterator{}; entries.increment(error))
    if (entries->path().extension() == ending) names.push_back(entries->path().string());
  if (error) return Error::from_errno("listing of " + path, error.value());
  std::ranges::sort(names);
  return names;
}

Result<std::vector<Recording>> read_recordings(std::span<std::string const> paths) {
  std::vector<Recording> all;
  for (auto const& path : paths) {
    LEND_TRY(names, files_of(path));
    if (names.empty())
      return Error{Errc::not_found, base::shown(path, 200) + " has no recordings, *.lend"};
    for (auto const& name : names) {
      LEND_TRY(recording, read_recording(name));
      all.push_back(std::move(recording));
    }
  }
  return all;
}

}  // namespace lend::tools
