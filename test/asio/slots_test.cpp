// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: each operation ends by its cancellation slot (Boost 1.77 and later), whatever the type, and
// nothing else does. Method: signals, and coroutines of which one wins.
#include <lend/asio/channels.hpp>
#include <lend/asio/connect.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <variant>

#include "asio/messages.hpp"
#include "asio/waits.hpp"

using namespace lend;
using namespace lend::test;
using net::bind_cancellation_slot;
using net::cancellation_type;

namespace {

/// 1 if the read came first, else 0.
net::awaitable<void> read_or_time(asio::stream& stream, std::chrono::milliseconds time, int& reads,
                                  std::size_t& bytes) {
  using namespace net::experimental::awaitable_operators;
  std::array<char, 8> room{};
  net::steady_timer timer{co_await net::this_coro::executor, time};
  auto const first = co_await (stream.async_read_some(net::buffer(room), use_awaitable) ||
                               timer.async_wait(use_awaitable));
  reads = first.index() == 0 ? 1 : 0;
  if (reads == 1) bytes = std::get<0>(first);
}

}  // namespace

TEST_CASE("a cancellation slot ends its operation alone, by each type", "[asio]") {
  auto const type =
      GENERATE(cancellation_type::terminal, cancellation_type::partial, cancellation_type::total);
  net::io_context io;
  auto pair = stream_pair(io, Means::send_receive);
  std::array<char, 8> room{};
  std::optional<error_code> ended;
  net::cancellation_signal signal;
  pair.a.async_read_some(
      net::buffer(room),
      bind_cancellation_slot(signal.slot(), [&](error_code code, std::size_t) { ended = code; }));
  REQUIRE(io.run_for(20ms) > 0);
  signal.emit(type);
  CHECK_FALSE(ended);  // never inside the call
  run(io);
  CHECK(ended == net::error::operation_aborted);
  signal.emit(type);  // of nothing
  CHECK(pair.a.write_some(net::buffer("x", 1)) == 1);
}

TEST_CASE("a read and a write of one stream end by their own slots", "[asio]") {
  net::io_context io;
  auto [a, b] = stream_pair(io);
  std::array<char, 8> room{};
  auto const text = text_of(100'000);
  for (error_code full; !full;) {  // until there is no room
    a.expires_after(10ms);
    a.write_some(net::buffer(text), full);
  }
  a.expires_never();
  std::string ended;
  net::cancellation_signal reads, writes;
  auto const note = [&](char what) {
    return [&ended, what](error_code code, std::size_t) {
      ended += code == net::error::operation_aborted ? what : '?';
    };
  };
  a.async_read_some(net::buffer(room), bind_cancellation_slot(reads.slot(), note('r')));
  a.async_write_some(net::buffer(text), bind_cancellation_slot(writes.slot(), note('w')));
  writes.emit(cancellation_type::partial);
  io.run_for(20ms);
  CHECK(ended == "w");
  reads.emit(cancellation_type::partial);
  run(io);
  CHECK(ended == "wr");
}

TEST_CASE("of a read and a timer the first one ends the other, and no byte is lost", "[asio]") {
  net::io_context io;
  auto [a, b] = stream_pair(io, Means::send_receive);
  int reads = -1;
  std::size_t bytes = 0;
  spawn(io, read_or_time(a, 20ms, reads, bytes));
  run(io);
  CHECK(reads == 0);
  CHECK(b.write_some(net::buffer("more", 4)) == 4);
  spawn(io, read_or_time(a, 60s, reads, bytes));
  run(io);
  CHECK(reads == 1);
  CHECK(bytes == 4);
}

TEST_CASE("a receive and a send of messages end by their own slots, and lose nothing", "[asio]") {
  auto const type =
      GENERATE(cancellation_type::terminal, cancellation_type::partial, cancellation_type::total);
  net::io_context io;
  auto [a, b] = messages_pair(io, TransportKind::send_receive);
  MessageEnding filled, received, sent;
  int const count = send_until_one_waits(io, a, filled);
  a.cancel();
  run(io);
  net::cancellation_signal receives, sends;
  a.async_receive(bind_cancellation_slot(receives.slot(), received.note()));
  a.async_send(net::buffer("x", 1), bind_cancellation_slot(sends.slot(), sent.note_sent()));
  sends.emit(type);
  CHECK(sent.calls == 0);  // never inside the call
  run_until(io, [&] { return sent.calls > 0; });
  CHECK(sent.code == net::error::operation_aborted);
  CHECK(received.calls == 0);
  receives.emit(type);
  run(io);
  CHECK(received.code == net::error::operation_aborted);
  receives.emit(type);  // of nothing
  a.async_send(net::buffer("last", 4), sent.note_sent());
  b.async_send(net::buffer("answer", 6), [](error_code) {});
  for (int i = 0; i < count; ++i) CHECK(next_text(io, b) == std::to_string(i));
  CHECK(next_text(io, b) == "last");
  CHECK(next_text(io, a) == "answer");
}

TEST_CASE("a cancellation slot ends its wait alone, and the work goes on", "[asio]") {
  auto const type =
      GENERATE(cancellation_type::terminal, cancellation_type::partial, cancellation_type::total);
  WaitsInSet served;
  net::io_context io;
  auto waits = served.waits(io);
  PollingScope scope{served.servers[0]};
  auto one = must(scope.post_receive(served.place(0)));
  auto other = must(scope.post_receive(served.place(1)));
  Awaited of_one, of_other;
  net::cancellation_signal signal, unused;
  waits.async_wait(one, bind_cancellation_slot(signal.slot(), of_one.note()));
  waits.async_wait(other, bind_cancellation_slot(unused.slot(), of_other.note()));
  REQUIRE(io.run_for(20ms) > 0);
  signal.emit(type);
  CHECK(of_one.calls == 0);  // never inside the call
  run_until(io, [&] { return of_one.calls > 0; });
  CHECK(of_one.code == net::error::operation_aborted);
  CHECK(of_other.calls == 0);
  signal.emit(type);  // of nothing
  waits.async_wait(one, of_one.note());
  served.send(0);
  served.send(0);
  run(io);
  CHECK(of_one.bytes == 8);
  CHECK(of_other.bytes == 8);
}

TEST_CASE("of a wait and a timer the first one ends the other, and no message is lost", "[asio]") {
  using namespace net::experimental::awaitable_operators;
  WaitsInSet served;
  net::io_context io;
  auto waits = served.waits(io);
  PollingScope scope{served.servers[0]};
  auto work = must(scope.post_receive(served.place(0)));
  std::string first;
  auto const wait = [&](std::chrono::milliseconds time) -> net::awaitable<void> {
    net::steady_timer timer{co_await net::this_coro::executor, time};
    auto const winner =
        co_await (waits.async_wait(work, use_awaitable) || timer.async_wait(use_awaitable));
    first += winner.index() == 0 ? 'w' : 't';
  };
  spawn(io, wait(10ms));
  run(io);
  served.send(0);
  spawn(io, wait(60s));
  run(io);
  CHECK(first == "tw");
}

TEST_CASE("a cancellation slot ends an accept at once, also one that waits for its turn",
          "[asio]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  net::io_context io;
  asio::acceptor acceptor{io.get_executor(), must(TransportListener::open("127.0.0.1:0")),
                          domain_of_test()};
  std::string ended;
  std::array<net::cancellation_signal, 2> signals{};
  for (std::size_t i = 0; i < 2; ++i) {
    acceptor.async_accept(bind_cancellation_slot(
        signals[i].slot(), [&ended, i](error_code code, asio::stream const&) {
          ended += code == net::error::operation_aborted ? std::to_string(i) : "?";
        }));
  }
  signals[1].emit(cancellation_type::total);
  while (io.run_for(20ms) == 0) {
  }
  CHECK(ended == "1");
  signals[0].emit(cancellation_type::total);
  run(io);
  CHECK(ended == "10");
}

TEST_CASE("a cancellation slot of any type ends a connection that is being made", "[asio]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  auto const type =
      GENERATE(cancellation_type::terminal, cancellation_type::partial, cancellation_type::total);
  // Connecting; or between look-ups, or in one.
  auto const address = GENERATE(as<std::string>{}, "127.0.0.1:1", "no-such-host.invalid:1");
  net::io_context io;
  std::optional<error_code> ended;
  net::cancellation_signal signal;
  asio::ConnectOptions options;
  options.patience = 2 * patience;
  asio::async_connect(
      io.get_executor(), address, domain_of_test(), options,
      bind_cancellation_slot(signal.slot(),
                             [&](error_code code, asio::stream const&) { ended = code; }));
  io.run_for(GENERATE(0ms, 20ms));
  signal.emit(type);
  run(io);
  CHECK(ended == net::error::operation_aborted);
}

TEST_CASE("a cancellation slot ends what connects or accepts messages", "[asio]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  net::io_context io;
  asio::acceptor acceptor{io.get_executor(), must(TransportListener::open("127.0.0.1:0")),
                          domain_of_test()};
  int ended = 0;
  net::cancellation_signal connects, accepts;
  auto const note = [&](error_code code, asio::messages const& made) {
    ended += code == net::error::operation_aborted && !made.is_open() ? 1 : 0;
  };
  asio::ConnectOptions options;
  options.patience = 2 * patience;
  asio::async_connect_messages(io.get_executor(), "127.0.0.1:1", domain_of_test(), options,
                               bind_cancellation_slot(connects.slot(), note));
  acceptor.async_accept_messages(bind_cancellation_slot(accepts.slot(), note));
  io.run_for(20ms);
  connects.emit(cancellation_type::terminal);
  accepts.emit(cancellation_type::terminal);
  run(io);
  CHECK(ended == 2);
}

TEST_CASE("a connect of a channel that its slot ends has given up when the handler is called",
          "[asio]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  auto const type =
      GENERATE(cancellation_type::terminal, cancellation_type::partial, cancellation_type::total);
  net::io_context io, other;
  auto const domain = domain_of_test();
  MemoryRegion memory = must(domain.allocate(64));
  auto prepared = must(prepare_channel(domain, {}));
  static_cast<void>(must(prepared.post_receive(memory.scatter(0, 64))));
  asio::ConnectOptions options;
  options.patience = 2 * patience;
  net::cancellation_signal signal;
  std::optional<error_code> ended;
  auto const note = [&](error_code code, std::optional<Channel> const&) {
    ended = code;
    CHECK(memory.mutable_bytes(0, 64).has_value());
  };
  asio::async_connect_channel(
      io.get_executor(), "127.0.0.1:1", std::move(prepared), options,
      bind_cancellation_slot(signal.slot(), net::bind_executor(other, note)));
  io.run_for(20ms);
  CHECK(error_of(memory.mutable_bytes(0, 64)) == Errc::already_borrowed);
  signal.emit(type);
  CHECK_FALSE(ended);
  run(other);
  CHECK(ended == net::error::operation_aborted);
  run(io);
}

TEST_CASE("a cancellation slot ends one accept of channels, and the next is served", "[asio]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  net::io_context io;
  auto const domain = domain_of_test();
  asio::channel_acceptor acceptor{io.get_executor(), must(Listener::open("127.0.0.1:0")),
                                  [&](Arrival const&) { return prepare_channel(domain, {}); }};
  std::string ended;
  net::cancellation_signal signal;
  acceptor.async_accept(bind_cancellation_slot(
      signal.slot(), [&](error_code code, std::optional<Accepted<Channel>> const&) {
        ended += code == net::error::operation_aborted ? 'c' : '?';
      }));
  acceptor.async_accept([&](error_code code, std::optional<Accepted<Channel>> const& accepted) {
    ended += !code && accepted ? 'a' : '?';
  });
  io.run_for(20ms);
  signal.emit(cancellation_type::total);
  asio::async_connect_channel(io.get_executor(), acceptor.address(),
                              must(prepare_channel(domain, {})),
                              [](error_code, std::optional<Channel> const&) {});
  run(io);
  CHECK(ended == "ca");
}
