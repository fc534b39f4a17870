// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: messages end as their program says: after a finish, after a close, with what still waits,
// what is held and what was sent. Method: both ends in one process, over each kind of transport.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "asio/messages.hpp"

using namespace lend;
using namespace lend::test;

TEST_CASE("only a peer that has finished is an end, and receives on", "[asio]") {
  net::io_context io;
  auto [a, b] = any_messages_pair(io);
  MessageEnding end;
  error_code code;
  a.async_send(net::buffer("last", 4), end.note_sent());
  a.finish_sending(code);
  CHECK_FALSE(code);
  a.async_send(net::buffer("more", 4), end.note_sent());
  run(io);
  CHECK(end.code == net::error::broken_pipe);
  CHECK(a.last_error().value() == Errc::finished);
  CHECK(next_text(io, b) == "last");
  for (int i = 0; i < 2; ++i) {  // again and again
    b.async_receive(end.note());
    run(io);
    CHECK(end.code == net::error::eof);
    CHECK_FALSE(end.message);
  }
  b.async_send(net::buffer("answer", 6), [](error_code) {});
  CHECK(next_text(io, a) == "answer");

  b.close();
  a.async_receive(end.note());
  run(io);
  CHECK(end.code == net::error::connection_reset);
  CHECK(a.last_error().value() == Errc::peer_lost);
}

TEST_CASE("what one direction finds broken ends the other's wait for messages", "[asio]") {
  net::io_context io;
  auto [a, b] = messages_pair(io, must(memory_transports({}, {.dies_at_word = 1})));
  MessageEnding end;
  error_code ignored;
  a.async_receive(end.note());
  io.run_for(20ms);
  if (GENERATE(false, true))
    a.finish_sending(ignored);
  else
    a.async_send(net::buffer("x", 1), [](error_code) {});
  run(io);
  CHECK(end.code == net::error::connection_reset);
}

TEST_CASE("messages that are closed, replaced or destroyed abort what waits, and deliver all",
          "[asio]") {
  net::io_context io;
  auto pair = messages_pair(io, GENERATE(TransportKind::memory, TransportKind::send_receive));
  std::optional a{std::move(pair.a)};
  MessageEnding received, sent;
  int const count = send_until_one_waits(io, *a, sent);
  a->async_receive(received.note());
  int const how = GENERATE(0, 1, 2);
  if (how == 0) a->close();
  if (how == 1) *a = asio::messages{io.get_executor()};
  if (how == 2) a.reset();
  for (int i = 0; i < count; ++i) CHECK(next_text(io, pair.b) == std::to_string(i));
  CHECK(received.code == net::error::operation_aborted);
  CHECK(sent.code == net::error::operation_aborted);
  MessageEnding end;
  pair.b.async_receive(end.note());
  run(io);
  CHECK(end.code == net::error::connection_reset);
  if (!a) return;
  CHECK_FALSE(a->is_open());
  a->async_receive(end.note());
  a->async_send(net::buffer("x", 1), sent.note_sent());
  run(io);
  CHECK(end.code == net::error::bad_descriptor);
  CHECK(sent.code == net::error::bad_descriptor);
  a->finish_sending(end.code = {});
  CHECK(end.code == net::error::bad_descriptor);
}

TEST_CASE("a message that is held outlives its messages and their io_context", "[asio]") {
  MessageEnding end;
  {
    net::io_context io;
    auto [a, b] = any_messages_pair(io);
    b.async_send(net::buffer("kept", 4), [](error_code) {});
    a.async_receive(end.note());
    run(io);
    if (GENERATE(false, true)) a.close();
  }
  CHECK(text_of(end.message) == "kept");
}

TEST_CASE("an io_context that goes destroys receives that wait, and frames that own their messages",
          "[asio]") {
  auto const owned = std::make_shared<int>(0);
  {
    net::io_context io;
    auto [a, b] = any_messages_pair(io);
    auto const hold = [](asio::messages own, std::shared_ptr<int>) -> net::awaitable<void> {
      static_cast<void>(co_await own.async_receive(use_awaitable));
    };
    spawn(io, hold(std::move(a), owned));
    io.run_for(5ms);
    CHECK(owned.use_count() > 1);
  }
  CHECK(owned.use_count() == 1);
}
