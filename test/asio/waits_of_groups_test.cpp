// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: ranks await collectives, exchanges and work of their Peers beside other handlers, and learn
// by their waits that a rank is gone. Method: ranks as threads with an io_context each.
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "asio/waits.hpp"
#include "group/scope_ranks.hpp"

namespace waits_of_groups {

using namespace lend;
using namespace lend::test;

namespace {

using Body = std::function<net::awaitable<void>(Group&, Values&, asio::waits&)>;

/// A coroutine at each of `size` ranks, in an io_context of its thread.
void at_each_rank(std::uint32_t size, Wait wait, Body const& body) {
  GroupOptions options;
  options.wait = wait;
  ScopeRanks ranks{size, options};
  on_each_with_values(ranks, 64, [&](Group& group, Values& values) {
    net::io_context io;
    asio::waits waits{io.get_executor(), group};
    bool is_over = false;
    spawn(io,
          [](auto const& what, auto& own, auto& memory, auto& waiting,
             bool& over) -> net::awaitable<void> {
            co_await what(own, memory, waiting);
            over = true;
          }(body, group, values, waits, is_over));
    io.run_for(patience);
    expect(is_over, "the coroutine is not over");
  });
}

}  // namespace

TEST_CASE("ranks await collectives, one after the other and two at once", "[asio]") {
  auto const wait = GENERATE(Wait::adaptive, Wait::event);
  at_each_rank(3, wait,
               [](Group& group, Values& values, asio::waits& waits) -> net::awaitable<void> {
                 GroupScope scope{group};
                 if (group.rank() == 1) std::this_thread::sleep_for(20ms);  // the others sleep
                 auto summed = taken(scope.post_allreduce(sum<std::int64_t>, values.scatter()));
                 co_await waits.async_wait(summed, use_awaitable);
                 expect(are_sums(values, 3, 0, 64), "sums");

                 auto first = taken(scope.post_barrier());
                 auto second = taken(scope.post_barrier());
                 int over = 0;
                 waits.async_wait(first, [&over](error_code code) { over += code ? 100 : 1; });
                 co_await waits.async_wait(second, use_awaitable);
                 while (over == 0) co_await net::post(use_awaitable);
                 expect(over == 1, "the other wait");
                 expect(scope.finish());
               });
}

TEST_CASE("a rank's timers go on while its exchange waits for a late one", "[asio]") {
  auto const wait = GENERATE(Wait::adaptive, Wait::event);
  at_each_rank(2, wait,
               [](Group& group, Values& values, asio::waits& waits) -> net::awaitable<void> {
                 auto const other = 1 - group.rank();
                 auto peers = taken(Peers::connect(group, std::array{other}, within(patience)));
                 {
                   Exchange halo{peers};
                   halo.send(other, values.gather(0, 8)).receive(other, values.scatter(8, 8));
                   for (int step = 0; step < 20; ++step) {
                     net::steady_timer timer{co_await net::this_coro::executor, 5ms};
                     if (group.rank() == 1 && step == 10) co_await timer.async_wait(use_awaitable);
                     // What is left of it, at the first step, is done by the waits.
                     auto const started = halo.start(within(0ms));
                     expect(started.has_value() || started.error() == Errc::timed_out, "start");
                     co_await waits.async_wait(halo, use_awaitable);
                     expect(are(values, 8, other, 0, 8), "values");
                   }
                   expect(halo.finish());
                 }
                 PeerScope scope{peers};
                 auto received = taken(scope.post_receive(other, values.scatter(16, 1)));
                 meet_before_sends(group);
                 auto sent = taken(scope.post_send(other, values.gather(0, 1)));
                 auto const came = co_await waits.async_wait(received, use_awaitable);
                 co_await waits.async_wait(sent, use_awaitable);
                 expect(came.bytes == 8, "bytes");
                 expect(scope.finish());
                 expect(group.barrier(within(patience)));
               });
}

TEST_CASE("a short message of an adaptive group is seen soon, though it wakes no thread",
          "[asio]") {
  std::atomic<std::chrono::steady_clock::time_point> entered{};
  int soon = 0;  // of ten
  // Rank 1 comes late, and blocks: so each round begins as rank 0 does.
  at_each_rank(2, Wait::adaptive,
               [&](Group& group, Values&, asio::waits& waits) -> net::awaitable<void> {
                 GroupScope scope{group};
                 for (int round = 0; round < 10; ++round) {
                   if (group.rank() == 1) std::this_thread::sleep_for(30ms);
                   if (group.rank() == 1) entered = std::chrono::steady_clock::now();
                   auto late = taken(scope.post_barrier());
                   if (group.rank() == 0) co_await waits.async_wait(late, use_awaitable);
                   auto const passed = std::chrono::steady_clock::now() - entered.load();
                   if (group.rank() == 0 && passed < 40ms) ++soon;
                   auto together = taken(scope.post_barrier());
                   expect(together.wait(within(patience)));
                 }
                 expect(scope.finish());
               });
  CHECK(soon >= 5);
}

TEST_CASE("a rank that gives up ends what its peers await, and says why", "[asio]") {
  auto const wait = GENERATE(Wait::adaptive, Wait::event);
  at_each_rank(
      2, wait, [](Group& group, Values& values, asio::waits& waits) -> net::awaitable<void> {
        auto const other = 1 - group.rank();
        auto peers = taken(Peers::connect(group, std::array{other}, within(patience)));
        PeerScope scope{peers};
        auto received = taken(scope.post_receive(other, values.scatter(0, 1)));
        error_code code;
        if (group.rank() == 1) {
          net::steady_timer timer{co_await net::this_coro::executor, 20ms};
          co_await timer.async_wait(use_awaitable);
          group.abandon("the disk is full");  // its own error has the words
        }
        co_await waits.async_wait(received, net::redirect_error(use_awaitable, code));
        expect(bool{code}, "no error");
        expect(group.rank() == 1 || says(waits.last_error().value(), "rank 1 has abandoned"),
               "why");
        static_cast<void>(scope.finish());
      });
}

TEST_CASE("a rank that has left ends what others await of it, and says so", "[asio]") {
  auto const wait = GENERATE(Wait::adaptive, Wait::event);
  GroupOptions options;
  options.wait = wait;
  ScopeRanks ranks{2, options};
  net::io_context io;
  Awaited of_barrier, of_news, expired;
  GroupScope scope{ranks.groups[0]};
  auto barrier = must(scope.post_barrier());
  asio::waits waits{io.get_executor(), ranks.groups[0]};
  waits.expires_after(5ms);
  waits.async_wait(barrier, expired.note());
  run(io);
  CHECK(expired.code == net::error::timed_out);
  CHECK(ranks.groups[0].first_cause() == nullptr);

  waits.expires_never();
  waits.async_wait(barrier, of_barrier.note());
  std::array<Ready, 1> room{};
  waits.async_ready(room, of_news.note());
  run_until(io, [&] { return of_news.calls > 0; });
  CHECK(of_news.code == error_code{static_cast<int>(Errc::invalid_argument), asio::category()});
  CHECK(of_barrier.calls == 0);
  ranks.groups.pop_back();
  run(io);
  CHECK(of_barrier.code == net::error::connection_reset);
  CHECK(waits.last_error().value().message().find("rank 1") != std::string::npos);
}

}  // namespace waits_of_groups
