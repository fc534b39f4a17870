// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a trace tells what was recorded, and refuses with a sentence what is no recording.
#include <tools/timeline.hpp>

#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <random>

#include "observe/recorded.hpp"
#include "support/catch.hpp"
#include "support/seed.hpp"

using namespace lend;
using namespace lend::test;

namespace {

std::string bytes_of(std::string const& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}
void write(std::string const& path, std::string const& bytes) {
  std::ofstream{path, std::ios::binary} << bytes;
}
std::string recording_of_work(NewDirectory const& folder) {
  auto ends = two_ends(recording_in(folder.path()));
  auto memory = must(ends.domain.allocate(4096));
  for (int i = 0; i < 600; ++i) exchange(ends, memory);
  return std::filesystem::directory_iterator {
    folder.path()
    } -> path().string();
}

}  // namespace

TEST_CASE("a timeline matches each post with its end, and each send with its receive",
          "[observe]") {
  NewDirectory const folder;
  auto ends = two_ends(recording_in(folder.path()));
  auto memory = must(ends.domain.allocate(4096));
  for (int i = 0; i < 3; ++i) exchange(ends, memory);
  PollingScope scope{ends.b};
  auto waiting = must(scope.post_receive(memory.scatter(64, 64)));
  auto const all = recordings_in(folder.path());
  scope.drain_within(std::chrono::milliseconds{1});
  auto const timeline = tools::timeline_of(all);

  REQUIRE(timeline.moments.size() == 13);
  std::size_t matched = 0;
  for (auto const& moment : timeline.moments)
    if (moment.peer && moment.recording == 0) {
      auto const& other = timeline.moments[*moment.peer];
      CHECK(other.recording == 1);
      CHECK(other.event->message == moment.event->message);
      ++matched;
    }
  CHECK(matched == (ends.domain.context().capabilities().acknowledges ? 3 : 0));
  CHECK_FALSE(timeline.moments.back().pair.has_value());
  CHECK(text_of(timeline).find("outstanding at the end") != std::string::npos);
  CHECK(text_of(timeline).find("send of 8 bytes") != std::string::npos);
  CHECK(json_of(timeline).find("\"ph\":\"f\"") != std::string::npos);
}

TEST_CASE("what is no recording is refused with a sentence", "[observe]") {
  NewDirectory const folder;
  auto const path = recording_of_work(folder);
  auto const whole = bytes_of(path);
  auto const refused = [](std::string const& name) {
    auto const read = tools::read_recording(name);
    return read.has_error() && read.error() == Errc::incompatible_peer &&
           !read.error().message().empty();
  };
  auto const other = folder.path() + "/other";
  for (std::size_t const length : {0u, 1u, 63u, 4095u, 4096u, 36863u}) {
    write(other, whole.substr(0, length));
    CHECK(refused(other));
  }
  write(other, std::string(whole.size(), '\0'));
  CHECK(refused(other));
  write(other, whole + '\0');
  CHECK(refused(other));
  CHECK(refused(folder.path()));
  CHECK(refused("/dev/null"));
  auto const pipe = folder.path() + "/pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(refused(pipe));
  CHECK(tools::read_recording(folder.path() + "/nothing").error() == Errc::not_found);
}

TEST_CASE("an event with a time before the recording's is told with the others", "[observe]") {
  NewDirectory const folder;
  auto const path = recording_of_work(folder);
  auto bytes = bytes_of(path);
  auto const whole = must(tools::read_recording(path));
  observe::Event event = whole.events.back();
  event.at = whole.header.begun_at - 5;
  auto const at = observe::header_bytes +
                  (whole.header.next - 1) % observe::ring_events * sizeof(observe::Event);
  bytes.replace(at, sizeof event, reinterpret_cast<char const*>(&event), sizeof event);
  write(path, bytes);

  std::vector const all{must(tools::read_recording(path))};
  CHECK(all[0].events.size() == whole.events.size());
  CHECK(tools::timeline_of(all).moments.front().event->at == event.at);
}

TEST_CASE("a damaged recording is refused or told, and never more than that", "[observe]") {
  NewDirectory const folder;
  auto const path = recording_of_work(folder);
  auto const whole = bytes_of(path);
  auto const damaged = folder.path() + "/damaged";
  for (auto const seed : test::seeds(300)) {
    INFO("LEND_TEST_SEED=" << seed);
    std::mt19937 random{static_cast<unsigned>(seed)};
    auto bytes = whole;
    // The header more often than its share.
    auto const reach = seed % 2 == 0 ? 512 : bytes.size();
    for (auto flips = 1 + random() % 8; flips > 0; --flips)
      bytes[random() % reach] ^= static_cast<char>(1u << (random() % 8));
    write(damaged, bytes);
    char* const paths[] = {const_cast<char*>(path.c_str()), const_cast<char*>(damaged.c_str())};
    auto const read = tools::read_recordings(paths);
    if (read.has_error()) {
      CHECK(read.error() == Errc::incompatible_peer);
      continue;
    }
    auto const timeline = tools::timeline_of(read.value());
    CHECK(timeline.moments.size() <= 2 * 1023);
    CHECK_FALSE(text_of(timeline).empty());
    CHECK_FALSE(json_of(timeline).empty());
  }
}
