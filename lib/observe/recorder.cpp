// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes the file of a recording. Any thread; then the thread of the channel.
#include <base/first_line.hpp>
#include <observe/own_file.hpp>
#include <observe/recorder.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <new>
#include <utility>

namespace lend::observe {

Result<Recorder> Recorder::create(std::string const& path, Clock const& clock) try {
  static std::atomic<std::uint32_t> numbers{0};
  FileKind const recordings{.many = "recordings",
                            .one = "recording",
                            .ending = ".lend",
                            .bytes = recording_bytes,
                            .with_space = recording_bytes,
                            .numbers = numbers};
  LEND_TRY(made, make_own_file(path, recordings, [&](OwnFile const& file, std::uint32_t number) {
             begin(*new (file.mapped) Map, clock, number);
             return Result<void>{success()};
           }));
  return Recorder{*static_cast<Map*>(made.mapped)};
} catch (std::bad_alloc const&) {
  return Errc::exhausted;
}

void Recorder::begin(Map& map, Clock const& clock, std::uint32_t number) noexcept {
  RecordingHeader& header = map.header;
  header.channel = number;
  header.process = static_cast<std::uint32_t>(::getpid());
  header.has_counter = clock.is_counter ? 1 : 0;
  header.nanoseconds_a_tick = clock.nanoseconds_a_tick;
  timespec real{};
  ::clock_gettime(CLOCK_REALTIME, &real);
  header.begun_at = clock.now();
  header.begun_at_real = static_cast<std::uint64_t>(real.tv_sec) * 1'000'000'000 +
                         static_cast<std::uint64_t>(real.tv_nsec);
  try {
    keep_end(header.boot, base::first_line_of("/proc/sys/kernel/random/boot_id"));
    keep_end(header.host, host_name());
    keep_end(header.program, base::first_line_of("/proc/self/comm"));
  } catch (std::bad_alloc const&) {
    // They stay empty.
  }
}

bool Recorder::is_of_this_process() const noexcept {
  return map_->header.process == static_cast<std::uint32_t>(::getpid());
}

Recorder::Recorder(Recorder&& other) noexcept
    : map_{std::exchange(other.map_, nullptr)},
      sent_{other.sent_},
      received_{other.received_},
      known_{other.known_},
      named_{other.named_} {}

Recorder::~Recorder() {
  if (map_ != nullptr) ::munmap(map_, recording_bytes);
}

void Recorder::name_ends(EndName const& own, EndName const& peer, bool is_ordered) noexcept {
  map_->header.own = own;
  map_->header.peer = peer;
  map_->header.is_ordered = is_ordered ? 1 : 0;
}

[[gnu::cold]] void Recorder::learn(char const* file) noexcept {
  Known known{file, 0};
  auto* place = std::ranges::find(named_, file);
  if (place == named_.end()) place = std::ranges::find(named_, nullptr);
  if (file != nullptr && *file != '\0' && place != named_.end()) {
    auto const at = static_cast<std::size_t>(place - named_.begin());
    if (*place == nullptr) {
      *place = file;
      keep_end(map_->header.files[at], file);
    }
    known.index = static_cast<std::uint8_t>(at + 1);
  }
  known_[reinterpret_cast<std::uintptr_t>(file) / 16 % known_.size()] = known;
}

std::string Recorder::last(std::uint64_t count, std::uint64_t now) const {
  std::string text;
  RecordingHeader const& header = map_->header;
  std::uint64_t const next = header.next;
  for (auto at = next - std::min({count, next, std::uint64_t{ring_events}}); at < next; ++at) {
    Event const& event = map_->ring[at % ring_events];
    auto const ticks = now > event.at ? now - event.at : 0;
    auto const age = static_cast<double>(ticks) * header.nanoseconds_a_tick / 1000;
    std::array<char, 48> before{};
    std::snprintf(before.data(), before.size(), "\n  %12.3f us before: ", age);
    text += before.data() + text_of(event);
    if (event.file != 0)
      text += ", at " + std::string{header.files[event.file - 1].data()} + ':' +
              std::to_string(event.line);
  }
  return text;
}

}  // namespace lend::observe
