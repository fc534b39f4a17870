// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: whole messages pass in an Asio program by any completion token, with back pressure in both
// directions, and what ends early has lost and doubled none. Method: both ends in one process, over
// each kind of transport.
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_future.hpp>

#include <array>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#ifdef LEND_TEST_COUNTS_ALLOCATIONS
#include "support/allocation_counter.hpp"
#endif
#include "asio/messages.hpp"

using namespace lend;
using namespace lend::test;

static_assert(!std::is_copy_constructible_v<asio::messages>);
static_assert(std::is_nothrow_move_assignable_v<asio::messages>);

namespace {

/// Returns each message, until the peer has finished; then finishes, too.
net::awaitable<void> reply(asio::messages& messages) {
  error_code ended;
  for (;;) {
    // excerpt reply
    auto const came = co_await messages.async_receive(net::redirect_error(use_awaitable, ended));
    if (ended) break;  // eof: the peer has finished
    net::const_buffer const answer{came.bytes().data(), came.bytes().size()};
    co_await messages.async_send(answer, use_awaitable);
    // end of excerpt
  }
  messages.finish_sending(ended);
}

/// The message of that number: from none to all of the bytes that one may have.
std::string message_of(int number) {
  auto const i = static_cast<std::size_t>(number);
  return text_of(i * 911 % 4'097 + i % 26).substr(i % 26);
}

net::awaitable<void> send_many(asio::messages& messages, int count) {
  for (int i = 0; i < count; ++i) {
    auto const text = message_of(i);
    co_await messages.async_send(net::buffer(text), use_awaitable);
  }
  error_code code;
  messages.finish_sending(code);
  CHECK_FALSE(code);
}

/// Expects what send_many() sends, then the end, and holds the last few messages.
net::awaitable<void> receive_many(asio::messages& messages, int count, int& right) {
  std::array<Received, 3> held;
  error_code code;
  for (std::size_t i = 0;; ++i) {
    auto came = co_await messages.async_receive(net::redirect_error(use_awaitable, code));
    if (code) break;
    right += text_of(came) == message_of(static_cast<int>(i)) ? 1 : 0;
    held[i % held.size()] = std::move(came);
  }
  CHECK(code == net::error::eof);
  CHECK(right == count);
}

}  // namespace

TEST_CASE("many messages pass in both directions, by far more than have room", "[asio]") {
  net::io_context io;
  auto [a, b] = any_messages_pair(io);
  constexpr int count = 700;
  int at_a = 0, at_b = 0;
  a.spin_for(GENERATE(0us, 20us));
  spawn(io, send_many(a, count));
  spawn(io, send_many(b, count));
  spawn(io, receive_many(a, count, at_a));
  spawn(io, receive_many(b, count, at_b));
  run(io);
  CHECK(at_a == count);
  CHECK(at_b == count);
}

TEST_CASE("a coroutine answers messages until its peer has finished", "[asio]") {
  net::io_context io;
  auto [a, b] = any_messages_pair(io);
  int right = 0;
  spawn(io, reply(b));
  spawn(io, send_many(a, 300));
  spawn(io, receive_many(a, 300, right));
  run(io);
  CHECK(right == 300);
}

TEST_CASE("a message that a silent descriptor does not tell of comes", "[asio]") {
  MemoryFaults const faults{.late_polls = 3,
                            .is_silent = GENERATE(false, true),
                            .wakes_for_nothing = GENERATE(false, true)};
  net::io_context io;
  auto [a, b] = messages_pair(io, must(memory_transports({.window = 8}, faults)));
  int right = 0;
  spawn(io, reply(b));
  spawn(io, send_many(a, 50));
  spawn(io, receive_many(a, 50, right));
  run(io);
  CHECK(right == 50);
}

TEST_CASE("a callback is given a message, never inside the call", "[asio]") {
  net::io_context io;
  auto [a, b] = any_messages_pair(io);
  MessageEnding early, sent, late;
  a.async_receive(early.note());
  REQUIRE(io.run_for(5ms) > 0);
  b.async_send(net::buffer("word", 4), sent.note_sent());
  CHECK(sent.calls == 0);
  run(io);
  CHECK_FALSE(early.code);
  CHECK(text_of(early.message) == "word");
  b.async_send(net::const_buffer{}, sent.note_sent());
  a.async_receive(late.note());
  CHECK(late.calls == 0);
  run(io);
  CHECK(late.message);
  CHECK(late.message.bytes().empty());
  CHECK_FALSE(late.message.is_end());
  CHECK(early.calls + sent.calls + late.calls == 4);
}

TEST_CASE("a future has the message, or throws the code", "[asio]") {
  net::io_context io;
  auto [a, b] = any_messages_pair(io);
  a.expires_after(5ms);
  auto first = a.async_receive(net::use_future);
  run(io);
  CHECK_THROWS_AS(first.get(), boost::system::system_error);
  a.expires_never();
  auto second = a.async_receive(net::use_future);
  auto sent = b.async_send(net::buffer("word", 4), net::use_future);
  run(io);
  sent.get();
  CHECK(text_of(second.get()) == "word");
}

TEST_CASE("a receive that is cancelled or expires has lost no message", "[asio]") {
  net::io_context io;
  auto [a, b] = any_messages_pair(io);
  MessageEnding end;
  bool const expires = GENERATE(false, true);
  if (expires) a.expires_after(10ms);
  a.async_receive(end.note());
  if (!expires) {
    io.run_for(5ms);
    a.cancel();
    CHECK(end.calls == 0);
  }
  run(io);
  CHECK(end.code == (expires ? net::error::timed_out : net::error::operation_aborted));
  CHECK_FALSE(end.message);
  CHECK_FALSE(a.last_error());
  a.expires_never();

  // Also one that had come, and was not taken yet.
  a.async_receive(end.note());
  b.async_send(net::buffer("next", 4), [](error_code) {});
  a.cancel();
  run(io);
  CHECK(end.code == net::error::operation_aborted);
  CHECK(end.calls == 2);
  CHECK(next_text(io, a) == "next");
}

TEST_CASE("a send that ends before there is room has sent nothing, and the next one goes",
          "[asio]") {
  net::io_context io;
  auto [a, b] = any_messages_pair(io);
  MessageEnding end;
  int const sent = send_until_one_waits(io, a, end);
  CHECK(sent >= 4);
  MessageEnding second;
  a.async_send(net::buffer("another", 7), second.note_sent());
  a.cancel();
  run(io);
  CHECK(second.code == net::error::already_started);
  CHECK(end.code == net::error::operation_aborted);
  a.expires_after(5ms);
  a.async_send(net::buffer("late", 4), end.note_sent());
  run(io);
  CHECK(end.code == net::error::timed_out);
  CHECK(end.calls == sent + 2);

  a.expires_never();
  a.async_send(net::buffer("last", 4), end.note_sent());
  for (int i = 0; i < sent; ++i) CHECK(next_text(io, b) == std::to_string(i));
  CHECK(next_text(io, b) == "last");
  run(io);
  CHECK_FALSE(end.code);
}

TEST_CASE("a program that holds its messages stops its peer, until it drops some", "[asio]") {
  net::io_context io;
  auto [a, b] = any_messages_pair(io);
  auto const hold_max = b.limits().hold_max;
  REQUIRE(hold_max >= 2);
  std::vector<Received> held;
  int sent = 0;
  std::function<void(error_code)> send = [&, &sender = a](error_code code) {
    if (code) return;
    ++sent;
    sender.async_send(net::buffer("0123456789", 10), std::ref(send));
  };
  std::function<void(error_code, Received)> hold = [&, &holder = b](error_code code,
                                                                    Received came) {
    if (code) return;
    held.push_back(std::move(came));
    holder.async_receive(std::ref(hold));
  };
  a.async_send(net::buffer("0123456789", 10), std::ref(send));
  b.async_receive(std::ref(hold));
  run_until(io, [&] { return held.size() >= hold_max; });
  io.run_for(20ms);
  auto const most = held.size();
  io.run_for(20ms);
  CHECK(held.size() == most);  // and both wait

  for (int i = 0; i < 20; ++i) {
    held.clear();
    run_until(io, [&] { return held.size() >= hold_max; });
  }
  CHECK(sent > static_cast<int>(20 * hold_max));
  a.close();
  b.close();
  run(io);
}

TEST_CASE("a message longer than the peer takes is refused, and one as long goes", "[asio]") {
  net::io_context io;
  auto [a, b] = any_messages_pair(io);
  REQUIRE(a.limits().send_bytes_max == 4'096);
  auto const text = text_of(4'097);
  MessageEnding end;
  a.async_send(net::buffer(text), end.note_sent());
  run(io);
  CHECK(end.code == net::error::message_size);
  auto const why = a.last_error().value();
  CHECK(why == Errc::invalid_argument);
  CHECK(why.message().find("4097") != std::string::npos);
  a.async_send(net::buffer(text, 4'096), end.note_sent());
  CHECK(next_text(io, b) == text.substr(0, 4'096));
}

TEST_CASE("a second receive beside one that waits is refused", "[asio]") {
  net::io_context io;
  auto [a, b] = any_messages_pair(io);
  MessageEnding first, second;
  a.async_receive(first.note());
  a.async_receive(second.note());
  b.async_send(net::buffer("x", 1), [](error_code) {});
  run(io);
  CHECK(second.code == net::error::already_started);
  CHECK(text_of(first.message) == "x");
}

TEST_CASE("several threads run messages, each pair in its strand", "[asio]") {
  net::io_context io;
  struct Talk {
    MessagesPair pair;
    int right = 0;
  };
  std::vector<std::unique_ptr<Talk>> talks;
  for (int i = 0; i < 4; ++i) {
    auto transports = ends<SendReceive>();
    auto const made = [&](auto& transport) {
      return asio::messages{net::make_strand(io), AnyTransport{std::move(transport)}};
    };
    auto& [pair, right] =
        *talks.emplace_back(new Talk{{made(transports.first), made(transports.second)}});
    spawn(pair.b.get_executor(), reply(pair.b));
    spawn(pair.a.get_executor(), send_many(pair.a, 100));
    spawn(pair.a.get_executor(), receive_many(pair.a, 100, right));
  }
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back([&] { io.run_for(patience); });
  threads.clear();
  for (auto const& talk : talks) CHECK(talk->right == 100);
}

#ifdef LEND_TEST_COUNTS_ALLOCATIONS
TEST_CASE("warm messages take nothing from the heap", "[asio]") {
  net::io_context io;
  auto [a, b] = any_messages_pair(io);
  constexpr int warm = 300, all = 1'000;
  int done = 0;
  std::uint64_t before = 0, after = 0;
  std::function<void()> next;
  auto const has_come = [&](error_code, Received const&) {
    if (++done == warm) before = allocations();
    done < all ? next() : void(after = allocations());
  };
  // One completion at a time: Asio keeps one block per thread for the next.
  auto const has_sent = [&, &other = b](error_code) { other.async_receive(std::ref(has_come)); };
  next = [&, &one = a] { one.async_send(net::buffer("word", 4), std::ref(has_sent)); };
  next();
  run(io);
  CHECK(after == before);
  CHECK(done == all);
}
#endif
