// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a channel that is asked to record keeps its last events in its file, whatever ends the
// process; where it cannot, it works on and says why.
#include <lend/soft/faults.hpp>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "observe/recorded.hpp"
#include "soft/tracing.hpp"
#include "support/catch.hpp"
#include "support/seed.hpp"
#include "support/stories.hpp"
#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;
using observe::Event;
using observe::EventKind;
using namespace std::chrono_literals;

namespace {

std::optional<Error> failure_in(std::string const& directory) {
  auto ends = two_ends(recording_in(directory));
  auto memory = must(ends.domain.allocate(4096));
  exchange(ends, memory);  // the channel works
  return ends.a.metrics()->recording_failure;
}

/// Each slot is posted before it ends, and ends before it is posted again.
bool is_well_formed(std::vector<observe::Event> const& events, bool is_whole) {
  std::vector<std::uint32_t> open;
  for (auto const& event : events) {
    auto const found = std::ranges::find(open, event.slot);
    if (event.kind == static_cast<std::uint8_t>(EventKind::posted)) {
      if (found != open.end()) return false;
      open.push_back(event.slot);
    } else if (found != open.end()) {
      open.erase(found);
    } else if (is_whole) {
      return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("an unfinished file that is left over is passed by", "[observe]") {
  NewDirectory const folder;
  std::string first;
  {
    auto ends = two_ends(recording_in(folder.path()));
    auto const all = recordings_in(folder.path());
    for (auto const& entry : std::filesystem::directory_iterator{folder.path()})
      first = entry.path();
    auto const number = all.back().header.channel;
    auto const stem = first.substr(0, first.rfind('-') + 1);
    std::ofstream{stem + std::to_string(number + 1) + ".lend.new"} << "left over";
  }
  CHECK_FALSE(failure_in(folder.path()).has_value());
  CHECK(recordings_in(folder.path()).size() == 4);
}

TEST_CASE("a recording has each event, with its bytes and its source line", "[observe]") {
  NewDirectory const folder;
  auto ends = two_ends(recording_in(folder.path()));
  auto memory = must(ends.domain.allocate(4096));
  exchange(ends, memory);

  auto const all = recordings_in(folder.path());
  REQUIRE(all.size() == 2);
  auto const& events = all[0].events;
  REQUIRE(events.size() == 2);
  CHECK(events[0].kind == static_cast<std::uint8_t>(EventKind::posted));
  CHECK(events[1].kind == static_cast<std::uint8_t>(EventKind::completed));
  CHECK(events[0].operation == static_cast<std::uint8_t>(Operation::send));
  CHECK(events[0].bytes == 8);
  CHECK(events[0].message == 1);
  CHECK(events[0].at <= events[1].at);
  CHECK(all[0].source_of(events[0]).find("recorded.hpp:") != std::string::npos);
  CHECK(all[1].events.back().message == 1);
  CHECK(all[0].lost == 0);
}

TEST_CASE("a recording keeps the last 1,023 events", "[observe]") {
  NewDirectory const folder;
  auto ends = two_ends(recording_in(folder.path()));
  auto memory = must(ends.domain.allocate(4096));
  for (int i = 0; i < 600; ++i) exchange(ends, memory);

  auto const all = recordings_in(folder.path());
  CHECK(all[0].events.size() == 1023);
  CHECK(all[0].lost == 1200 - 1023);
  CHECK(all[0].events.back().slot == all[0].events[1021].slot);
  CHECK(is_well_formed(all[0].events, false));
}

TEST_CASE("the description of a break ends with the last events", "[observe]") {
  NewDirectory const folder;
  auto ends = two_ends(recording_in(folder.path()));
  auto memory = must(ends.domain.allocate(4096));
  for (int i = 0; i < 8; ++i) exchange(ends, memory);
  Error told;
  {
    PollingScope scope{ends.a};
    auto work = post_failing(ends, scope, memory);
    auto const result = work.wait();
    REQUIRE(result.has_error());
    told = result.error();
    static_cast<void>(scope.finish());
  }

  auto const text = told.describe();
  auto const from = text.find("\nLast events:\n");
  REQUIRE(from != std::string::npos);
  auto const events = text.substr(from + 14);
  CHECK(std::ranges::count(events, '\n') == 7);
  check_story("a break of a channel that records", told);
  CHECK(events.find("failed", events.rfind('\n')) != std::string::npos);
  CHECK(ends.a.first_cause()->describe().find("\nLast events:\n") != std::string::npos);
  auto const all = recordings_in(folder.path());
  CHECK(all[0].events.back().kind == static_cast<std::uint8_t>(EventKind::broke));
}

TEST_CASE("a recording says what broke the channel, and that a keep-alive failed", "[observe]") {
  NewDirectory const folder;
  auto options = recording_in(folder.path());
  options.queue_pair.connection.ack_timeout = 1ms;
  options.queue_pair.connection.ack_retries = 2;
  SECTION("a failed request") {
    auto ends = two_ends(options);
    auto memory = must(ends.domain.allocate(4096));
    PollingScope scope{ends.a};
    static_cast<void>(error_of(post_failing(ends, scope, memory).wait()));
    static_cast<void>(scope.finish());
    auto const all = recordings_in(folder.path());
    Event const& last = all[0].events.back();
    CHECK(static_cast<Errc>(last.bytes) == Errc::work_failed);
    CHECK(static_cast<WorkStatus>(last.status) == ends.a.first_cause()->work()->status);
    CHECK(last.message == ends.a.first_cause()->work()->vendor_code);
    CHECK_THAT(observe::text_of(last), Catch::Contains("the channel broke: work_failed, "));
  }
  SECTION("a peer that is gone") {
    options.keep_alive = 1ms;
    auto ends = two_ends(options);
    auto memory = must(ends.domain.allocate(64));
    must(inject_faults(ends.context, FaultPlan{}.peer_dies(1)));
    {
      PollingScope scope{ends.a};
      scope.drain_within(0s);
      auto const error = error_of(must(scope.post_receive(memory.scatter(0, 8))).wait(within(30s)));
      CHECK(error == Errc::peer_lost);
    }
    auto const all = recordings_in(folder.path());
    auto const broke =
        std::ranges::find(all[0].events, static_cast<std::uint8_t>(EventKind::broke), &Event::kind);
    REQUIRE(broke != all[0].events.end());
    REQUIRE(broke != all[0].events.begin());
    CHECK_THAT(observe::text_of(*broke),
               Catch::StartsWith("the channel broke: peer_lost, retry_exceeded"));
    CHECK_THAT(observe::text_of(*(broke - 1)),
               Catch::StartsWith("the keep-alive failed: retry_exceeded"));
  }
}

TEST_CASE("where it cannot record, a channel works and says why", "[observe]") {
  NewDirectory const folder;
  auto const own = folder.path() + "/own";
  REQUIRE(::mkdir(own.c_str(), 0700) == 0);
  SECTION("a symbolic link") {
    auto const link = folder.path() + "/link";
    REQUIRE(::symlink(own.c_str(), link.c_str()) == 0);
    auto const failure = failure_in(link);
    REQUIRE(failure.has_value());
    CHECK(*failure == Errc::denied);
  }
  SECTION("others may write there") {
    REQUIRE(::chmod(own.c_str(), 0777) == 0);
    auto const failure = failure_in(own);
    REQUIRE(failure.has_value());
    CHECK(*failure == Errc::denied);
  }
  SECTION("nothing above it") {
    auto const failure = failure_in(folder.path() + "/a/b");
    REQUIRE(failure.has_value());
    CHECK(*failure == Errc::not_found);
  }
  SECTION("no room for the file") {
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    auto ends = two_ends();  // whose memory is made before
    rlimit const short_one{8192, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &short_one) == 0);
    auto const made = observe::Recorder::create(own, observe::Clock::of_this_process());
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
    REQUIRE(made.has_error());
    CHECK(made.error() == Errc::exhausted);
  }
  SECTION("another user's") {
    if (::geteuid() != 0) return;
    REQUIRE(::chown(own.c_str(), 65534, 65534) == 0);
    auto const failure = failure_in(own);
    REQUIRE(failure.has_value());
    CHECK(*failure == Errc::denied);
  }
  CHECK(std::filesystem::is_empty(own));
}

// For test/doctor/lend_test.py, which makes directories that no recording fits into.
TEST_CASE("the failure to record where LEND_RECORD says", "[.]") {
  auto const failure = failure_in("");
  REQUIRE(failure.has_value());
  std::puts(failure->message().c_str());
}

TEST_CASE("a process killed at any instruction leaves a whole recording", "[observe]") {
  for (auto const seed : test::seeds(25)) {
    INFO("LEND_TEST_SEED=" << seed);
    std::mt19937 random{static_cast<unsigned>(seed)};
    NewDirectory const folder;
    int const before = seed % 3 == 0 ? 520 : static_cast<int>(random() % 8);
    pid_t const child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      if (!let_parent_trace()) ::_exit(4);
      auto ends = two_ends(recording_in(folder.path()));
      auto memory = must(ends.domain.allocate(4096));
      for (int i = 0; i < before; ++i) exchange(ends, memory);
      breakpoint();
      for (;;) exchange(ends, memory);
    }
    bool lives = stops(child);
    for (auto left = random() % 4000; lives && left > 0; --left)
      lives = step(child, PTRACE_SINGLESTEP);
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);

    auto const all = recordings_in(folder.path());
    REQUIRE(all.size() == 2);
    for (auto const& recording : all) {
      CHECK(is_well_formed(recording.events, recording.lost == 0));
      CHECK(recording.events.size() + recording.lost >= 2 * static_cast<std::size_t>(before));
      CHECK(std::ranges::is_sorted(recording.events, {}, &observe::Event::at));
    }
  }
}

// For test/doctor/lend_test.py, which follows them.
TEST_CASE("a message for each line of its input beside a pool", "[.]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(4096));
  auto pieces = must(ends.domain.allocate(256));
  auto set = must(WaitSet::create(ends.context));
  auto const pool = must(ReceivePool::create(set, pieces.chunks(64)));
  for (std::string line; std::getline(std::cin, line);) exchange(ends, memory);
}
