// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: an Asio program awaits work of channels by any completion token; a wait that ends early
// ends nothing but itself, and whatever goes first, no byte stays on loan and no handler is lost.
// Method: servers in a set and an io_context, clients that block outside.
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_future.hpp>

#include <array>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <vector>

#ifdef LEND_TEST_COUNTS_ALLOCATIONS
#include "support/allocation_counter.hpp"
#endif
#include "asio/waits.hpp"

using namespace lend;
using namespace lend::test;

static_assert(!std::is_copy_constructible_v<asio::waits>);

namespace {

PendingWork receive(PollingScope& scope, ScatterElement into) {
  return must(scope.post_receive(into));
}

// excerpt answer
/// Returns so many messages to the peer.
net::awaitable<void> answer(asio::waits& waits, Channel& channel, MemoryRegion& memory, int count) {
  PollingScope scope{channel};
  for (error_code failed; count > 0 && !failed; --count) {
    auto received = scope.post_receive(memory.scatter(0, 64));
    if (!received) break;
    auto const came =
        co_await waits.async_wait(received.value(), net::redirect_error(use_awaitable, failed));
    if (failed) break;
    auto sent = scope.post_send(memory.gather(0, came.bytes));
    if (!sent) break;
    co_await waits.async_wait(sent.value(), net::redirect_error(use_awaitable, failed));
  }
}
// end of excerpt

/// A handler with an allocator, which counts what is not given back.
struct CountingHandler {
  template <class T>
  struct Allocator {
    using value_type = T;
    explicit Allocator(int& own_balance) : balance{&own_balance} {}
    template <class Other>
    Allocator(Allocator<Other> const& other) : balance{other.balance} {}
    T* allocate(std::size_t count) { return ++*balance, std::allocator<T>{}.allocate(count); }
    void deallocate(T* at, std::size_t count) {
      --*balance, std::allocator<T>{}.deallocate(at, count);
    }
    bool operator==(Allocator const&) const = default;
    int* balance;
  };
  using allocator_type = Allocator<void>;
  allocator_type get_allocator() const { return allocator_type{*balance}; }
  void operator()(error_code code, WorkSuccess const&) const { *at_call = code ? -1 : *balance; }

  int *balance, *at_call;
};

}  // namespace

TEST_CASE("a callback is given what came, never inside the call", "[asio]") {
  WaitsInSet served;
  net::io_context io;
  auto waits = served.waits(io);
  PollingScope scope{served.servers[0]};
  auto late = receive(scope, served.place(0));
  auto early = receive(scope, served.place(1));
  Awaited of_late, of_early;
  waits.async_wait(late, of_late.note());
  REQUIRE(io.run_for(20ms) > 0);
  CHECK(of_late.calls == 0);

  served.send(0);
  served.send(0, 5);
  REQUIRE(must(early.wait(within(patience))).bytes == 5);
  waits.async_wait(early, of_early.note());  // its result is there
  CHECK(of_early.calls == 0);
  run(io);
  CHECK(of_late.bytes == 8);
  CHECK(of_early.bytes == 5);
  CHECK_FALSE(of_late.code);
  CHECK(of_late.calls + of_early.calls == 2);
}

TEST_CASE("a future has what came, or throws the code", "[asio]") {
  WaitsInSet served;
  net::io_context io;
  auto waits = served.waits(io);
  PollingScope scope{served.servers[0]};
  auto work = receive(scope, served.place(0));
  waits.expires_after(5ms);
  auto first = waits.async_wait(work, net::use_future);
  run(io);
  CHECK_THROWS_AS(first.get(), boost::system::system_error);

  waits.expires_never();
  auto second = waits.async_wait(work, net::use_future);
  served.send(0);
  run(io);
  CHECK(second.get().bytes == 8);
}

TEST_CASE("a coroutine awaits receives and sends in turn", "[asio]") {
  WaitsInSet served;
  net::io_context io;
  auto waits = served.waits(io);
  waits.spin_for(GENERATE(0us, 20us));
  spawn(io, answer(waits, served.servers[0], served.memory, 200));
  auto echoes = std::async(std::launch::async, [&served] {
    auto const& [sent, received] =
        std::pair{served.memory.gather(4'000, 8), served.memory.scatter(4'008, 8)};
    int count = 0;
    while (count < 200 && served.clients[0].send(sent, within(patience)).has_value() &&
           served.clients[0].receive(received, within(patience)).has_value())
      ++count;
    return count;
  });
  run(io);
  CHECK(echoes.get() == 200);
}

TEST_CASE("a wait that sleeps makes few turns, and its descriptor wakes it", "[asio]") {
  WaitsInSet served;
  net::io_context io;
  auto waits = served.waits(io);
  waits.spin_for(0us);
  PollingScope scope{served.servers[0]};
  auto work = receive(scope, served.place(0));
  Awaited end;
  waits.async_wait(work, end.note());
  io.run_for(20ms);
  CHECK(io.run_for(300ms) < 100);
  served.send(0);
  run(io);

  // One that only looks now and then takes 90 ms each time.
  auto const begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 40; ++i) {
    work = receive(scope, served.place(0));
    waits.async_wait(work, end.note());
    io.restart();
    io.run_for(10ms);
    served.send(0);
    run(io);
  }
  CHECK(std::chrono::steady_clock::now() - begin < 2s);
  CHECK(end.calls == 41);
}

TEST_CASE("waits on several channels end in the order in which their work does", "[asio]") {
  WaitsInSet served;
  net::io_context io;
  auto waits = served.waits(io);
  PollingScope one{served.servers[0]}, other{served.servers[1]};
  std::vector<PendingWork> works;
  for (std::size_t i = 0; i < 12; ++i)
    works.push_back(receive(i % 2 == 0 ? one : other, served.place(i)));
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < works.size(); ++i)
    waits.async_wait(works[i], [&order, i](error_code, WorkSuccess const&) { order.push_back(i); });
  io.run_for(5ms);
  for (std::size_t i = 0; i < 6; ++i) served.send(1);
  run_until(io, [&] { return order.size() >= 6; });
  CHECK(order == std::vector<std::size_t>{1, 3, 5, 7, 9, 11});
  for (std::size_t i = 0; i < 6; ++i) served.send(0);
  run(io);
  CHECK(order.size() == 12);
}

TEST_CASE("a wait that is cancelled or expires ends nothing else, and may be made again",
          "[asio]") {
  WaitsInSet served;
  net::io_context io;
  auto waits = served.waits(io);
  PollingScope scope{served.servers[0]};
  auto work = receive(scope, served.place(0));
  Awaited end;
  waits.async_wait(work, end.note());
  io.run_for(20ms);
  waits.cancel();
  CHECK(end.calls == 0);
  run(io);
  CHECK(end.code == net::error::operation_aborted);
  waits.expires_after(10ms);
  waits.async_wait(work, end.note());
  run(io);
  CHECK(end.code == net::error::timed_out);
  CHECK_FALSE(waits.last_error());
  CHECK(scope.outstanding() == 1);
  CHECK(error_of(served.memory.mutable_bytes(0, 8)) == Errc::already_borrowed);

  served.send(0);
  waits.async_wait(work, end.note());
  run(io);
  CHECK_FALSE(end.code);
  CHECK(end.bytes == 8);
}

TEST_CASE("a handler runs by its executor, which has work until then", "[asio]") {
  WaitsInSet served;
  net::io_context io, other;
  auto waits = served.waits(io);
  PollingScope scope{served.servers[0]};
  auto work = receive(scope, served.place(0));
  Awaited end;
  waits.async_wait(work, net::bind_executor(other, end.note()));
  CHECK(other.run_for(5ms) == 0);
  CHECK_FALSE(other.stopped());
  served.send(0);
  run(io);
  CHECK(end.calls == 0);
  run(other);
  CHECK(end.bytes == 8);
}

TEST_CASE("a wait lives in what its handler's allocator gives, given back before the call",
          "[asio]") {
  WaitsInSet served;
  net::io_context io;
  auto waits = served.waits(io);
  PollingScope scope{served.servers[0]};
  auto work = receive(scope, served.place(0));
  int balance = 0, at_call = -1;
  waits.async_wait(work, CountingHandler{&balance, &at_call});
  CHECK(balance == 1);
  served.send(0);
  run(io);
  CHECK(at_call == 0);
  CHECK(balance == 0);
}

TEST_CASE("waits that go end what waits, and the work goes on", "[asio]") {
  WaitsInSet served;
  net::io_context io;
  PollingScope scope{served.servers[0]};
  auto work = receive(scope, served.place(0));
  Awaited first, second;
  {
    auto waits = served.waits(io);
    waits.async_wait(work, first.note());
    auto const time = GENERATE(0ms, 5ms);  // turning, or asleep
    io.run_for(time);
  }
  auto again = served.waits(io);
  again.async_wait(work, second.note());
  served.send(0);
  run(io);
  CHECK(first.code == net::error::operation_aborted);
  CHECK(first.calls == 1);
  CHECK(second.bytes == 8);
}

TEST_CASE("an io_context that goes destroys what waits, also frames that own waits and scope",
          "[asio]") {
  WaitsInSet served;
  auto const owned = std::make_shared<int>(0);
  {
    net::io_context io;
    auto const hold = [](net::io_context& own, WaitsInSet& in,
                         std::shared_ptr<int>) -> net::awaitable<void> {
      auto waits = in.waits(own);
      PollingScope scope{in.servers[0]};
      scope.drain_within(0ms);
      auto work = receive(scope, in.place(0));
      co_await waits.async_wait(work, use_awaitable);
    };
    spawn(io, hold(io, served, owned));
    io.run_for(5ms);
    CHECK(owned.use_count() > 1);
    CHECK(error_of(served.memory.mutable_bytes(0, 8)) == Errc::already_borrowed);
  }
  CHECK(owned.use_count() == 1);
  CHECK(served.memory.mutable_bytes(0, 8).has_value());
}

TEST_CASE("a channel that breaks ends the waits on its work, and no others", "[asio]") {
  WaitsInSet served;
  net::io_context io;
  auto waits = served.waits(io);
  PollingScope broken{served.servers[0]}, other{served.servers[1]};
  auto failing = receive(broken, served.memory.scatter(0, 4));
  auto behind = receive(broken, served.place(1));
  auto works = receive(other, served.place(2));
  Awaited of_failing, of_behind, of_other;
  waits.async_wait(failing, of_failing.note());
  waits.async_wait(behind, of_behind.note());
  waits.async_wait(works, of_other.note());
  io.run_for(5ms);
  static_cast<void>(served.clients[0].send(served.memory.gather(4'088, 8), within(100ms)));
  run_until(io, [&] { return of_behind.calls > 0; });
  CHECK(of_failing.code == error_code{static_cast<int>(Errc::work_failed), asio::category()});
  CHECK(of_behind.code);
  CHECK(waits.last_error().has_value());
  CHECK(of_other.calls == 0);
  CHECK(served.memory.mutable_bytes(0, 16).has_value());
  served.send(1);
  run(io);
  CHECK(of_other.bytes == 8);
}

TEST_CASE("work of a channel that is not of the set is refused", "[asio]") {
  WaitsInSet served;
  net::io_context io;
  auto waits = served.waits(io);
  PollingScope scope{served.clients[0]};
  auto work = receive(scope, served.place(0));
  Awaited alien, none;
  waits.async_wait(work, alien.note());
  PendingWork nothing;
  waits.async_wait(nothing, none.note());
  run(io);
  CHECK(alien.code == error_code{static_cast<int>(Errc::invalid_argument), asio::category()});
  CHECK(waits.last_error().value().message().find("wait_set()") != std::string::npos);
  CHECK_FALSE(none.code);
  scope.drain_within(0ms);
}

TEST_CASE("news that came while handles were awaited are listed, each once", "[asio]") {
  WaitsInSet served;
  net::io_context io;
  auto waits = served.waits(io);
  waits.spin_for(0us);
  PollingScope one{served.servers[0]}, other{served.servers[1]};
  one.drain_within(0ms);
  auto awaited = receive(one, served.place(0));
  auto later = receive(one, served.place(1));
  auto listed = receive(other, served.place(2));
  Awaited end, news;
  waits.async_wait(awaited, end.note());
  served.send(1);
  CHECK(io.run_for(300ms) < 100);  // it sleeps beside the news
  std::array<Ready, 4> room{};
  waits.async_ready(room, news.note());
  run_until(io, [&] { return news.calls > 0; });
  REQUIRE(news.bytes == 1);
  CHECK(room[0].tag == 101);
  CHECK(end.calls == 0);

  waits.async_wait(later, [](error_code, WorkSuccess const&) {});
  served.send(0);
  run_until(io, [&] { return end.calls > 0; });
  waits.async_ready(room, news.note());
  run_until(io, [&] { return news.calls > 1; });
  CHECK(room[0].tag == 100);
  waits.async_ready(room, news.note());
  io.run_for(20ms);
  CHECK(news.calls == 2);
  waits.cancel();
  run(io);
  CHECK(news.calls == 3);
  CHECK(must(listed.poll()).has_value());
}

#ifdef LEND_TEST_COUNTS_ALLOCATIONS
TEST_CASE("warm waits take nothing from the heap", "[asio]") {
  WaitsInSet served;
  net::io_context io;
  auto waits = served.waits(io);
  PollingScope scope{served.servers[0]};
  PendingWork work;
  constexpr int warm = 300, all = 1'000;
  int done = 0;
  std::uint64_t before = 0, after = 0;
  std::function<void()> next;
  auto const has_come = [&](error_code, WorkSuccess const&) {
    if (++done == warm) before = allocations();
    done < all ? next() : void(after = allocations());
  };
  next = [&] {
    work = receive(scope, served.place(0));
    waits.async_wait(work, std::ref(has_come));
    served.send(0);
  };
  next();
  run(io);
  CHECK(after == before);
  CHECK(done == all);
}
#endif
