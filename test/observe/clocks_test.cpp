// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: recordings of several hosts are on one clock as far as their messages tell, and what they
// do not tell is said.
#include <tools/clocks.hpp>
#include <tools/timeline.hpp>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string_view>

#include "observe/recorded.hpp"
#include "support/catch.hpp"

using namespace lend;
using namespace lend::test;
using observe::EventKind;
using tools::Recording;

namespace {

void copy(std::string_view text, auto& to) {
  std::ranges::copy(text, to.begin());
}

observe::EndName end_of(std::uint32_t queue_pair) {
  return {.gid = {1}, .queue_pair = queue_pair};
}

/// Of a host of its own, whose clock of real time is `ahead` ns ahead. Ticks are ns.
Recording recording_of(std::string_view host, std::uint32_t own, std::uint32_t peer,
                       std::int64_t ahead) {
  Recording made;
  copy(host, made.header.host);
  copy(host, made.header.boot);
  made.header.own = end_of(own);
  made.header.peer = end_of(peer);
  made.header.is_ordered = 1;
  made.header.begun_at = 1000;
  made.header.begun_at_real = static_cast<std::uint64_t>(1'700'000'000'000'000'000 + ahead);
  return made;
}

/// A message at true times; the recordings' have begun at 0.
void message(Recording& from, Recording& to, std::uint64_t posted, std::uint64_t completed) {
  auto const number = static_cast<std::uint32_t>(
      1 + std::ranges::count_if(from.events, [](auto const& event) {
        return event.kind == static_cast<std::uint8_t>(EventKind::posted);
      }));
  from.events.push_back({.at = from.header.begun_at + posted,
                         .slot = number,
                         .message = number,
                         .kind = static_cast<std::uint8_t>(EventKind::posted)});
  to.events.push_back({.at = to.header.begun_at + completed,
                       .slot = 1000 + number,
                       .message = number,
                       .kind = static_cast<std::uint8_t>(EventKind::completed),
                       .operation = static_cast<std::uint8_t>(Operation::receive)});
}

bool says(std::vector<std::string> const& lines, std::string_view words) {
  return std::ranges::any_of(lines,
                             [&](auto const& line) { return line.find(words) != line.npos; });
}

/// Of the last event of a recording, from that of the first.
double apart(std::vector<Recording> const& all, std::size_t other) {
  tools::Clocks const clocks{all};
  return clocks.time_of(other, all[other].events.back()) - clocks.time_of(0, all[0].events.back());
}

constexpr std::int64_t hour = 3'600'000'000'000;

}  // namespace

TEST_CASE("messages in both directions align the clocks of two hosts", "[observe]") {
  for (std::int64_t const ahead : {std::int64_t{0}, hour, -hour}) {
    std::vector<Recording> all{recording_of("here", 1, 2, 0), recording_of("there", 2, 1, ahead)};
    message(all[0], all[1], 100, 5'000);
    message(all[0], all[1], 10'000, 10'400);
    message(all[1], all[0], 20'000, 20'600);
    message(all[1], all[0], 30'000, 30'800);

    // 400 ns one way and 600 ns the other: the middle is 100 ns from the truth.
    CHECK(std::abs(apart(all, 1) - (30'000 - 30'800) - 100) < 0.01);
    auto const lines = tools::Clocks{all}.text();
    CHECK(says(lines, "clock of there: moved by"));
    CHECK(says(lines, "tell to 0.500 us"));
    CHECK_FALSE(says(lines, "drift"));
  }
}

TEST_CASE("messages in one direction move a clock no further than they must", "[observe]") {
  for (bool const is_from_here : {true, false}) {
    std::vector<Recording> all{recording_of("here", 1, 2, 0),
                               recording_of("there", 2, 1, is_from_here ? -hour : hour)};
    if (is_from_here)
      message(all[0], all[1], 10'000, 10'400);
    else
      message(all[1], all[0], 10'000, 10'400);

    CHECK(std::abs(apart(all, 1)) < 0.01);
    auto const lines = tools::Clocks{all}.text();
    CHECK(says(lines, is_from_here ? "messages from here alone" : "messages from there alone"));
  }
}

TEST_CASE("clocks whose messages contradict each other drift, which is said", "[observe]") {
  std::vector<Recording> all{recording_of("here", 1, 2, 0), recording_of("there", 2, 1, hour)};
  for (std::uint64_t at = 0; at < 1'000'000; at += 100'000) {
    message(all[0], all[1], at, (at + 400) * 9 / 10);  // a tenth slower
    message(all[1], all[0], (at + 50'000) * 9 / 10, at + 50'600);
  }

  auto const lines = tools::Clocks{all}.text();
  CHECK(says(lines, "clocks of here and there drift"));
}

TEST_CASE("a host is aligned by one that was aligned, and one without messages by real time",
          "[observe]") {
  std::vector<Recording> all{recording_of("one", 1, 2, 0), recording_of("two", 2, 1, hour),
                             recording_of("two", 3, 4, hour), recording_of("three", 4, 3, -hour),
                             recording_of("alone", 5, 6, 7'000)};
  message(all[3], all[2], 10'000, 10'500);
  message(all[2], all[3], 20'000, 20'500);
  message(all[0], all[1], 30'000, 30'500);
  message(all[1], all[0], 40'000, 40'500);
  all[4].events = {{.at = 1000, .kind = static_cast<std::uint8_t>(EventKind::room_wait)}};

  CHECK(std::abs(apart(all, 3) - (20'500 - 40'500)) < 0.01);
  CHECK(std::abs(apart(all, 4) - (7'000 - 40'500)) < 0.01);
  auto const lines = tools::Clocks{all}.text();
  CHECK(lines.size() == 3);
  CHECK(says(lines, "clock of alone: no messages"));
}

TEST_CASE("a recording whose clock was shifted has its messages after they were sent",
          "[observe]") {
  NewDirectory const folder;
  auto ends = two_ends(recording_in(folder.path()));
  if (!ends.domain.context().capabilities().acknowledges) return;
  auto memory = must(ends.domain.allocate(4096));
  for (int i = 0; i < 20; ++i) {
    exchange(ends, memory);
    std::swap(ends.a, ends.b);
  }
  auto all = recordings_in(folder.path());
  all[1].header.begun_at_real -= 5'000'000'000;
  copy("elsewhere", all[1].header.boot);
  copy("elsewhere", all[1].header.host);
  auto const timeline = tools::timeline_of(all);

  std::size_t matched = 0;
  for (auto const& moment : timeline.moments)
    if (moment.peer && moment.event->kind == static_cast<std::uint8_t>(EventKind::posted)) {
      ++matched;
      // A post's time is taken after the device took it.
      CHECK(timeline.moments[*moment.peer].at > moment.at - 1e6);
    }
  CHECK(matched == 20);
  CHECK(timeline.moments.back().at < 60e9);
  CHECK(text_of(timeline).find("clock of elsewhere: moved by") != std::string::npos);
  CHECK(json_of(timeline).find("clock of elsewhere: moved by") != std::string::npos);
}
