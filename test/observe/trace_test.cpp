// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a trace tells what was recorded, and refuses with a sentence what is no recording.
#include <tools/following.hpp>
#include <tools/timeline.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
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

/// What others might write there, or a fault might leave.
void damage(std::string& bytes, std::mt19937& random) {
  constexpr auto values = std::to_array<std::uint64_t>(
      {0, 1, UINT64_MAX, INT64_MAX, std::uint64_t{1} << 63, 1023, 1024, UINT32_MAX,
       0x7ff0'0000'0000'0000, 0x7ff8'0000'0000'0001, 0xffef'ffff'ffff'ffff, 0x0a1b'5b33'316d'0022});
  // The header more often than its share.
  auto const reach = random() % 2 == 0 ? 512 : bytes.size();
  for (auto times = 1 + random() % 8; times > 0; --times) {
    if (random() % 2 == 0)
      bytes[random() % reach] ^= static_cast<char>(1u << (random() % 8));
    else
      std::memcpy(&bytes[random() % (reach / 8) * 8], &values[random() % values.size()], 8);
  }
  if (random() % 16 == 0) bytes.resize(random() % (2 * bytes.size()));
}

/// Whether a terminal may show it.
bool is_printable(std::string const& text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); });
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

TEST_CASE("a file that was removed is followed no more, and times go on", "[observe]") {
  NewDirectory const folder;
  auto ends = two_ends(recording_in(folder.path()));
  auto memory = must(ends.domain.allocate(4096));
  exchange(ends, memory);
  std::vector<std::string> files;
  for (auto const& entry : std::filesystem::directory_iterator{folder.path()})
    files.push_back(entry.path().string());
  REQUIRE(files.size() == 2);
  // One is of another host, and began 5 s before the other by the clock of real time.
  auto bytes = bytes_of(files[0]);
  std::uint64_t begun = 0;
  constexpr auto at = offsetof(observe::RecordingHeader, begun_at_real);
  std::memcpy(&begun, &bytes[at], sizeof begun);
  begun -= 5'000'000'000;
  std::memcpy(&bytes[at], &begun, sizeof begun);
  bytes[offsetof(observe::RecordingHeader, boot)] ^= 1;
  bytes[offsetof(observe::RecordingHeader, is_ordered)] = 0;  // no message aligns the clocks
  write(files[0], bytes);
  tools::Follower follower{files};
  CHECK_FALSE(must(follower.look()).empty());

  std::filesystem::remove(files[0]);
  exchange(ends, memory);
  auto const told = must(follower.look());
  CHECK(std::ranges::count(told, '\n') == 2);
  CHECK(std::stod(told) > 4e6);  // us
  CHECK(must(follower.look()).empty());
  CHECK_FALSE(follower.is_over());

  std::filesystem::remove(files[1]);
  CHECK(must(follower.look()).empty());
  CHECK(follower.is_over());
}

TEST_CASE("processes of two hosts are two tracks, whatever their numbers", "[observe]") {
  std::vector<tools::Recording> all(4);
  for (auto& one : all) one.header.process = 12;
  all[1].header.boot[0] = all[2].header.boot[0] = 'b';
  all[2].header.channel = 1;
  all[3].header.process = 13;
  auto const json = json_of(tools::timeline_of(all));
  auto const count = [&](std::string const& what) {
    std::size_t found = 0;
    for (auto at = json.find(what); at != json.npos; at = json.find(what, at + 1)) ++found;
    return found;
  };
  CHECK(count("\"pid\":12,") == 2);
  CHECK(count("\"pid\":" + std::to_string(12 + (1 << 22)) + ',') == 4);
  CHECK(count("\"pid\":13,") == 2);
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
  std::vector<std::string> whole;
  {
    auto ends = two_ends(recording_in(folder.path()));
    auto memory = must(ends.domain.allocate(4096));
    for (int i = 0; i < 300; ++i) {
      exchange(ends, memory);
      std::swap(ends.a, ends.b);
    }
  }
  for (auto const& entry : std::filesystem::directory_iterator{folder.path()})
    whole.push_back(bytes_of(entry.path()));
  REQUIRE(whole.size() == 2);
  NewDirectory const damaged;
  auto const path_of = [&](std::size_t end) { return damaged.path() + "/" + "ab"[end] + ".lend"; };
  std::size_t told = 0;
  for (auto const seed : test::seeds(120)) {
    INFO("LEND_TEST_SEED=" << seed);
    std::mt19937 random{static_cast<unsigned>(seed)};
    for (std::size_t end = 0; end < 2; ++end) {
      auto bytes = whole[end];
      if (end == 0 || random() % 2 == 0) damage(bytes, random);
      // As of two hosts, whose clocks are then aligned.
      if (end == 1 && seed % 4 == 1) bytes[offsetof(observe::RecordingHeader, boot)] ^= 1;
      write(path_of(end), bytes);
    }
    auto directory = damaged.path();
    std::array const paths{directory};
    auto const read = tools::read_recordings(paths);
    tools::Follower follower{paths};
    CHECK(follower.look().has_value() == read.has_value());
    if (read.has_error()) {
      CHECK(read.error() == Errc::incompatible_peer);
      CHECK_FALSE(read.error().message().empty());
      continue;
    }
    ++told;
    auto const timeline = tools::timeline_of(read.value());
    CHECK(timeline.moments.size() <= 2 * 1023);
    CHECK(is_printable(text_of(timeline)));
    CHECK(is_printable(json_of(timeline)));
    CHECK(follower.look().value().empty());
  }
  CHECK(told > 0);
}
