// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes the file of a recording. Any thread; then the thread of the channel.
#include <base/first_line.hpp>
#include <base/unique_fd.hpp>
#include <observe/recorder.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

namespace lend::observe {

namespace {

constexpr int names_tried = 1000;

/// The end of `text`, which tells more of a path than its start.
template <std::size_t size>
void keep_end(std::array<char, size>& to, std::string_view text) noexcept {
  if (text.size() >= size) text.remove_prefix(text.size() - (size - 1));
  std::ranges::copy(text, to.begin());
}

std::string host_name() {
  std::array<char, 64> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "host";
  std::string text{name.data()};
  std::ranges::replace_if(
      text, [](char c) { return c <= ' ' || c > '~' || c == '/'; }, '_');
  return text;
}

Result<base::UniqueFd> open_directory(std::string const& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return Error::from_errno("mkdir of " + path + " for recordings", errno);
  base::UniqueFd directory{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  if (!directory && (errno == ELOOP || errno == ENOTDIR))
    return Error{Errc::denied, path +
                                   " is a symbolic link, or no directory: recordings go into a "
                                   "directory of your own"};
  if (!directory) return Error::from_errno("open of " + path + " for recordings", errno);
  struct stat facts {};
  if (::fstat(directory.get(), &facts) != 0)
    return Error::from_errno("fstat of " + path + " for recordings", errno);
  if (facts.st_uid != ::geteuid() || (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return Error{Errc::denied,
                 path + (facts.st_uid != ::geteuid()
                             ? " is another user's: recordings go into a directory of your own"
                             : " can be written by others: `chmod go-w` it, so that no other user "
                               "changes the recordings")};
  return directory;
}

/// None where there is such a file, which a process left that ended while it made it.
Result<base::UniqueFd> make_file(int directory, std::string const& name) {
  base::UniqueFd file{
      ::openat(directory, name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)};
  if (!file && errno == EEXIST) return file;
  if (!file) return Error::from_errno("open of the recording " + name, errno);
  if (int const error = ::posix_fallocate(file.get(), 0, recording_bytes); error != 0) {
    ::unlinkat(directory, name.c_str(), 0);
    return Error::from_errno("posix_fallocate of the recording " + name, error);
  }
  return file;
}

}  // namespace

Result<Recorder> Recorder::create(std::string const& path, Clock const& clock) try {
  LEND_TRY(directory, open_directory(path));
  rlimit limit{};
  // Beyond it the kernel sends SIGXFSZ. Source: setrlimit(2).
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < recording_bytes)
    return Error::from_errno("a recording in " + path, EFBIG);
  static std::atomic<std::uint32_t> numbers{0};
  std::string const stem = host_name() + '-' + std::to_string(::getpid()) + '-';
  for (int i = 0; i < names_tried; ++i) {
    // Relaxed: only the number counts.
    auto const number = numbers.fetch_add(1, std::memory_order_relaxed) + 1;
    auto const name = stem + std::to_string(number) + ".lend";
    auto const unfinished = name + ".new";
    LEND_TRY(file, make_file(directory.get(), unfinished));
    if (!file) continue;
    void* const mapped =
        ::mmap(nullptr, recording_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    std::optional<Recorder> recorder;
    if (mapped != MAP_FAILED) recorder.emplace(Recorder{mapped, clock, number});
    // It gets its name with its header complete. The number may be an earlier process's.
    int const linked =
        recorder ? ::linkat(directory.get(), unfinished.c_str(), directory.get(), name.c_str(), 0)
                 : -1;
    int const error = errno;
    ::unlinkat(directory.get(), unfinished.c_str(), 0);
    if (linked == 0) return std::move(*recorder);
    if (error != EEXIST) return Error::from_errno("mmap or linkat of the recording " + name, error);
  }
  return Error{Errc::exhausted, path + " is full of recordings: remove old ones"};
} catch (std::bad_alloc const&) {
  return Errc::exhausted;
}

Recorder::Recorder(void* mapped, Clock const& clock, std::uint32_t number) noexcept
    : map_{new (mapped) Map} {
  RecordingHeader& header = map_->header;
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
