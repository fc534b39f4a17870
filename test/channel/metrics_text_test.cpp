// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the text of a process's metrics has what its channels counted, those too that have ended,
// and is text of its format. Method: sums beside Channel::metrics(), a grammar of our own, and
// metrics_text_test.py, which has others' parsers read the texts.
#include <lend/channel/builder.hpp>
#include <lend/observe/metrics.hpp>
#include <lend/transport/memory.hpp>
#include <lend/transport/waiting.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "group/ranks.hpp"
#include "support/catch.hpp"
#include "support/device_environment.hpp"
#include "support/samples.hpp"
#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;

namespace {

ChannelOptions counting_as(std::string name) {
  ChannelOptions options;
  options.observe = {.metrics = true, .name = std::move(name)};
  return options;
}

/// One receive and one send at a time.
void send_each(TwoEnds& ends, int times) {
  auto memory = must(ends.domain.allocate(256));
  for (int i = 0; i < times; ++i) {
    PollingScope receiving{ends.b};
    auto received = must(receiving.post_receive(memory.scatter(64, 64)));
    must(ends.a.send(memory.gather(0, 8)));
    must(received.wait(within(patience)));
    must(receiving.finish());
  }
}

std::string const sending = R"(operation="send")";

}  // namespace

TEST_CASE("a text has what channels counted, and keeps it once they have ended", "[observe]") {
  std::string const name = R"(name="kept")";
  {
    auto ends = two_ends(counting_as("kept"));
    send_each(ends, 10);

    auto const samples = samples_now();
    auto const& sends = ends.a.metrics()->of(Operation::send);
    CHECK(sends.completed == 10);
    CHECK(sum_of(samples, "lend_operations_posted_total", {name, sending}) == 10);
    CHECK(sum_of(samples, "lend_operations_total", {name, sending, R"("completed")"}) == 10);
    CHECK(sum_of(samples, "lend_operation_bytes_total", {name, sending}) == double(sends.bytes));
    CHECK(sum_of(samples, "lend_operation_seconds_count", {name, sending}) == 10);
    CHECK(sum_of(samples, "lend_channels", {name, R"("working")"}) == 2);
    CHECK(sum_of(samples, "lend_channels", {name, R"("broken")"}) == 0);
  }
  auto const samples = samples_now();
  CHECK(sum_of(samples, "lend_operations_posted_total", {name}) == 20);
  CHECK(sum_of(samples, "lend_operation_bytes_total", {name}) == 160);
  CHECK(sum_of(samples, "lend_channels", {name}) == 0);
}

TEST_CASE("buckets of latencies grow to the count, and their sum lies within them", "[observe]") {
  std::string const name = R"(name="buckets")";
  std::string const family = "lend_operation_seconds";
  auto ends = two_ends(counting_as("buckets"));
  send_each(ends, 100);

  auto const samples = samples_now();
  double below = 0;
  double least = 0;
  double most = 0;
  double begin = 0;
  for (std::string const end : {"1e-06", "4e-06", "1.6e-05", "6.4e-05", "0.000256", "0.001024",
                                "0.004096", "0.016384", "0.065536", "0.262144", "1.048576"}) {
    auto const to = sum_of(samples, family + "_bucket", {name, sending, "le=\"" + end + '"'});
    CHECK(to >= below);
    least += (to - below) * begin;
    begin = std::stod(end);
    most += (to - below) * begin;
    below = to;
  }
  CHECK(sum_of(samples, family + "_bucket", {name, sending, R"(le="+Inf")"}) == 100);
  CHECK(sum_of(samples, family + "_count", {name, sending}) == 100);
  // Latencies are known to a sixteenth.
  auto const sum = sum_of(samples, family + "_sum", {name, sending});
  CHECK(sum >= least * 15 / 16);
  if (below == 100) CHECK(sum <= most);
}

TEST_CASE("requests that fail, channels that break and loans are in the text", "[observe]") {
  std::string const name = R"(name="breaks")";
  auto ends = two_ends(counting_as("breaks"));
  auto memory = must(ends.domain.allocate(4096));
  PollingScope scope{ends.a};
  if (!lacks(ends.context, &DeviceCapabilities::peer_loans)) {
    auto loan = must(scope.post_lend(memory.scatter(0, 16)));
    CHECK(error_of(scope.post_lend(memory.gather(8, 16))) == Errc::already_borrowed);
    must(loan.recall());
    auto const samples = samples_now();
    CHECK(sum_of(samples, "lend_peer_loans_begun_total", {name}) == 1);
    CHECK(sum_of(samples, "lend_peer_loans_total", {name, R"("recalled")"}) == 1);
    CHECK(sum_of(samples, "lend_peer_loans_total", {name}) == 2);  // one was refused
  }
  // Elsewhere what fails is a receive, which this one would come before.
  if (lacks(ends.context, &DeviceCapabilities::acknowledges)) return;
  static_cast<void>(must(scope.post_receive(memory.scatter(64, 64))));
  CHECK(post_failing(ends, scope, memory).wait(within(patience)).has_error());
  static_cast<void>(scope.finish());

  auto const samples = samples_now();
  CHECK(sum_of(samples, "lend_operations_total", {name, R"("failed")"}) == 1);
  CHECK(sum_of(samples, "lend_operations_total", {name, R"("flushed")"}) == 1);
  CHECK(sum_of(samples, "lend_channels", {name, R"("broken")"}) >= 1);
  CHECK(sum_of(samples, "lend_channel_breaks_total", {name}) ==
        sum_of(samples, "lend_channels", {name, R"("broken")"}));
}

TEST_CASE("both texts for Prometheus have the same samples", "[observe]") {
  auto ends = two_ends(counting_as(R"(a "name" with \ in it)"));
  send_each(ends, 3);

  auto const open = samples_now();
  CHECK(open == samples_now(MetricsFormat::prometheus));
  CHECK(sum_of(open, "lend_operations_posted_total", {R"(name="a \"name\" with \\ in it")"}) == 6);
}

TEST_CASE("the grammar of this test refuses what is wrong", "[observe]") {
  auto const is_wrong = [](std::string const& text, MetricsFormat format) {
    Samples samples;
    return wrong_with(text, format, samples) != "";
  };
  auto const good = metrics_text();
  CHECK_FALSE(is_wrong(good, MetricsFormat::openmetrics));
  CHECK(is_wrong(good, MetricsFormat::prometheus));
  CHECK(is_wrong(good.substr(0, good.size() - 1), MetricsFormat::openmetrics));
  for (std::string const bad : {"counter\nlend_a{b=\"c\"} 1\n", "gauge\nlend_c{b=\"c\"} 1\n",
                                "gauge\nlend_a{b=\"c\"} 1\nlend_a{b=\"c\"} 1\n",
                                "gauge\nlend_a{b=\"\\\"} 1\n", "gauge\nlend_a{b=\"c\"} 1 \n"})
    CHECK(is_wrong("# TYPE lend_a " + bad + "# EOF\n", MetricsFormat::openmetrics));
}

TEST_CASE("readers in one thread see counts of eight others only grow, to their sum", "[observe]") {
  // By rdma_cm Catch asserts as channels connect, which it does for one thread only.
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  constexpr int threads = 8;
  constexpr int rounds = 200;
  std::string const name = R"(name="threads")";
  std::atomic<int> running{threads};
  std::vector<std::thread> counting;
  for (int i = 0; i < threads; ++i)
    counting.emplace_back([&running] {
      for (int k = 0; k < 2; ++k) {
        auto ends = two_ends(counting_as("threads"));
        send_each(ends, rounds / 2);
      }
      running.fetch_sub(1);
    });

  double last = 0;
  while (running.load() > 0) {
    auto const now = sum_of(samples_now(), "lend_operations_total", {name, sending, "completed"});
    CHECK(now >= last);
    last = now;
    std::this_thread::yield();
  }
  for (auto& each : counting) each.join();

  auto const samples = samples_now();
  CHECK(sum_of(samples, "lend_operations_posted_total", {name, sending}) == threads * rounds);
  CHECK(sum_of(samples, "lend_operations_total", {name, "completed"}) == 2 * threads * rounds);
  CHECK(sum_of(samples, "lend_operation_bytes_total", {name}) == 2 * 8 * threads * rounds);
  CHECK(sum_of(samples, "lend_operation_seconds_count", {name, sending}) == threads * rounds);
  CHECK(sum_of(samples, "lend_channels", {name}) == 0);
}

TEST_CASE("a forked child begins at zero, and leaves its parent's counts alone", "[observe]") {
  std::string const name = R"(name="parent")";
  auto ends = std::make_optional(two_ends(counting_as("parent")));
  send_each(*ends, 4);

  auto const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    Samples samples;
    ends.reset();  // the parent's, which this process does not count
    bool is_fine = wrong_with(metrics_text(), MetricsFormat::openmetrics, samples).empty();
    for (auto const& [sample, value] : samples)
      is_fine &= value == 0 && sample.find(name) == sample.npos;
    ::_exit(is_fine ? 0 : 1);
  }
  int status = -1;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(sum_of(samples_now(), "lend_operations_posted_total", {name, sending}) == 4);
}

TEST_CASE("by LEND_METRICS channels count that were not asked to", "[observe]") {
  std::string const name = R"(name="unasked")";
  ChannelOptions options;
  options.observe.name = "unasked";
  {
    EnvironmentVariable const all{"LEND_METRICS", "1"};
    auto ends = two_ends(options);
    send_each(ends, 3);

    CHECK(ends.a.metrics() == nullptr);
    CHECK(sum_of(samples_now(), "lend_operations_posted_total", {name, sending}) == 3);
    CHECK(sum_of(samples_now(), "lend_channels", {name}) == 2);
  }
  EnvironmentVariable const none{"LEND_METRICS", "0"};
  auto ends = two_ends(options);
  send_each(ends, 3);
  CHECK(sum_of(samples_now(), "lend_operations_posted_total", {name, sending}) == 3);
}

TEST_CASE("by LEND_METRICS transports count their messages", "[observe]") {
  std::vector<std::byte> const bytes(100);
  auto const before = samples_now();
  auto const more = [&before](std::string const& of, std::string const& direction) {
    std::string const name = "lend_transport_" + of + "_total";
    return sum_of(samples_now(), name, {direction}) - sum_of(before, name, {direction});
  };
  for (char const* const wish : {"1", "0"}) {
    EnvironmentVariable const all{"LEND_METRICS", wish};
    auto [a, b] = must(memory_transports());
    for (int i = 0; i < 3; ++i) must(send_message(a, bytes, Deadline::never()));
    static_cast<void>(must(receive_message(b, Deadline::never())));

    CHECK(more("messages", "sent") == 3);
    CHECK(more("messages", "received") == 1);
    CHECK(more("bytes", "sent") == 300);
    CHECK(more("bytes", "received") == 100);
  }
}

TEST_CASE("by LEND_METRICS groups count their calls, blocking and posted", "[observe]") {
  if (connects_slowly()) return;
  auto const before = samples_now();
  auto const more = [&before](std::string const& result) {
    return sum_of(samples_now(), "lend_group_calls_total", {result}) -
           sum_of(before, "lend_group_calls_total", {result});
  };
  EnvironmentVariable const all{"LEND_METRICS", "1"};
  auto ranks = group_of(2);
  on_each(ranks, [](Group& group) {
    for (int i = 0; i < 3; ++i) expect(group.barrier(within(patience)));
    GroupScope scope{group};
    expect(scope.post_barrier().has_value(), "not posted");
    expect(scope.finish());
  });
  CHECK(more("succeeded") == 2 * 4);
  CHECK(more("failed") == 0);
  CHECK(more("barrier") == 2 * 4);
  on_each(ranks, [](Group& group) {
    int value = 1;
    expect(group.broadcast(0, std::span{&value, 1}, within(patience)));
  });
  CHECK(more("broadcast") == 2);
  CHECK(more("succeeded") == 2 * 5);

  ranks.pop_back();
  CHECK(error_of(ranks[0].barrier(within(patience))) == Errc::peer_lost);
  CHECK(more("succeeded") == 2 * 5);
  CHECK(more("failed") == 1);

  // Between calls none fails.
  auto others = group_of(2);
  others[0].abandon("no call is under way");
  CHECK(others[0].first_cause() != nullptr);
  CHECK(more("failed") == 1);
}

TEST_CASE("by LEND_METRICS groups count how long calls took, from their begin to their success",
          "[observe]") {
  if (connects_slowly()) return;
  using namespace std::chrono_literals;
  auto const now = [] { return std::chrono::steady_clock::now(); };
  auto const seconds = [](Samples const& samples, std::string const& call) {
    return sum_of(samples, "lend_group_call_seconds_total", {'"' + call + '"'});
  };
  EnvironmentVariable const all{"LEND_METRICS", "1"};
  auto ranks = group_of(2);
  auto const before = samples_now();
  auto const first = now();
  std::chrono::duration<double> under_way{};
  // Rank 0 is in it for 20 ms before rank 1 comes.
  auto const call = [&](auto is_over, auto finish) {
    bool is_early = is_over();
    auto const begun = now();
    while (now() - begun < 20ms) is_early |= is_over();
    under_way = now() - begun;
    CHECK_FALSE(is_early);
    CHECK(seconds(samples_now(), "barrier") == seconds(before, "barrier"));
    bool const is_over_at_1 = ranks[1].barrier(within(0ns)).has_value();
    must(finish());
    if (!is_over_at_1) must(ranks[1].barrier(within(patience)));
  };
  SECTION("of one that is made again") {
    call([&] { return ranks[0].barrier(within(0ns)).has_value(); },
         [&] { return ranks[0].barrier(within(patience)); });
  }
  SECTION("of one that is posted") {
    GroupScope scope{ranks[0]};
    auto posted = must(scope.post_barrier());
    call([&] { return must(posted.poll()); }, [&] { return scope.finish(); });
  }
  std::chrono::duration<double> const whole = now() - first;
  auto const took = seconds(samples_now(), "barrier") - seconds(before, "barrier");
  // A clock that was measured for 2 ms may be wrong.
  CHECK(took > under_way.count() / 4);
  CHECK(took < 4 * 2 * whole.count());  // of both ranks
  CHECK(seconds(samples_now(), "allreduce") == seconds(before, "allreduce"));
}

// For metrics_text_test.py.
TEST_CASE("a text to parse", "[.]") {
  auto ends = two_ends(counting_as(R"(to "parse" \)"));
  send_each(ends, 5);
  EnvironmentVariable const all{"LEND_METRICS", "1"};
  auto alone = group_of(1);
  must(alone[0].barrier(within(patience)));
  for (auto const format :
       {MetricsFormat::openmetrics, MetricsFormat::prometheus, MetricsFormat::json})
    std::cout << '\f' << metrics_text(format);
  std::cout << '\f';
}

// For metrics_text_test.py: what is bounded for the whole process.
TEST_CASE("of 100 names 64 are told apart and the others count as one", "[.]") {
  for (int i = 0; i < 100; ++i) {
    auto ends = two_ends(counting_as("name " + std::to_string(i)));
    send_each(ends, 1);
  }
  auto const samples = samples_now();
  CHECK(sum_of(samples, "lend_operations_posted_total", {sending}) == 100);
  CHECK(sum_of(samples, "lend_operations_posted_total", {sending, R"(name="other")"}) == 36);
  CHECK(sum_of(samples, "lend_operations_posted_total", {sending, R"(name="name 63")"}) == 1);
}
