// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: lent messages pass in an Asio program by any completion token, and no wait that ends early
// ends a loan. Method: both ends in one process, over each kind of transport that lends.
#include <lend/asio/connect.hpp>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_future.hpp>

#include <algorithm>
#include <future>
#include <optional>
#include <utility>

#include "asio/messages.hpp"
#include "transport/channel_ends.hpp"

using namespace lend;
using namespace lend::test;

namespace {

constexpr std::size_t lent_bytes = 300'001;  // more than any message that is copied

/// Two ends in one io_context, and memory of each.
struct LendingPair {
  MemoryRegion mine, theirs;
  asio::messages a, b;
};

TransportOptions lending_options() {
  TransportOptions options;
  options.window = 8;
  options.message_bytes_max = 256;
  options.lent_bytes_max = 1 << 20;
  options.wait = Wait::event;
  options.keep_alive = 20ms;
  return options;
}

void fill(MemoryRegion& memory) {
  auto const bytes = must(memory.mutable_bytes());
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i * 2'654'435'761u >> 24);
}

std::optional<LendingPair> lending_pair(net::io_context& io) {
  auto const is_ring = GENERATE(false, true);
  auto const device = open_test_device();
  if (lacks(device, &DeviceCapabilities::endpoints)) return std::nullopt;
  if (is_ring && lacks(device, &DeviceCapabilities::immediates)) return std::nullopt;
  auto const domain = must(device.allocate_protection_domain());
  auto ends = must(is_ring ? try_any_ends<CreditRing>(domain, lending_options())
                           : try_any_ends<SendReceive>(domain, lending_options()));
  LendingPair pair{must(domain.allocate(lent_bytes)), must(domain.allocate(lent_bytes)),
                   asio::messages{io.get_executor(), std::move(ends.first)},
                   asio::messages{io.get_executor(), std::move(ends.second)}};
  fill(pair.mine);
  return pair;
}

bool are_alike(LendingPair const& pair) {
  return std::ranges::equal(must(pair.mine.bytes()), must(pair.theirs.bytes()));
}
bool may_write(MemoryRegion& memory) {
  return memory.mutable_bytes().has_value();
}

net::awaitable<void> lend_all(asio::messages& messages, MemoryRegion& memory, int count) {
  for (int i = 0; i < count; ++i) {
    must(memory.mutable_bytes())[0] = std::byte(i);
    auto const lent = co_await messages.async_send_lent(memory.gather(), use_awaitable);
    co_await messages.async_wait_until_over(lent, use_awaitable);  // memory may be written again
    CHECK(may_write(memory));
  }
  error_code code;
  messages.finish_sending(code);
}

net::awaitable<void> fetch_all(asio::messages& messages, MemoryRegion& memory, int count) {
  for (int i = 0; i < count; ++i) {
    auto const message = co_await messages.async_receive(use_awaitable);
    CHECK(message.is_lent());
    co_await messages.async_fetch(message, memory.scatter(0, message.length()), use_awaitable);
    CHECK(must(memory.bytes())[0] == std::byte(i));
  }
  error_code end;
  static_cast<void>(co_await messages.async_receive(net::redirect_error(use_awaitable, end)));
  CHECK(end == net::error::eof);
}

}  // namespace

TEST_CASE("coroutines lend and fetch messages, one after the other", "[asio]") {
  net::io_context io;
  auto pair = lending_pair(io);
  if (!pair) return;
  spawn(io, lend_all(pair->a, pair->mine, 20));
  spawn(io, fetch_all(pair->b, pair->theirs, 20));
  run(io);
  CHECK(are_alike(*pair));
}

TEST_CASE("a callback or a future is told of a lent message, which is on loan until it was read",
          "[asio]") {
  net::io_context io;
  auto pair = lending_pair(io);
  if (!pair) return;
  auto& [mine, theirs, a, b] = *pair;
  LentMessage lent;
  MessageEnding sent, came, fetched;
  a.async_send_lent(mine.gather(), [&](error_code code, LentMessage message) {
    sent.code = code;
    lent = std::move(message);
    ++sent.calls;
  });
  CHECK(sent.calls == 0);
  b.async_receive(came.note());
  run_until(io, [&] { return sent.calls > 0 && came.calls > 0; });
  REQUIRE_FALSE(sent.code);
  REQUIRE(came.message.is_lent());
  CHECK(lent);
  CHECK_FALSE(may_write(mine));

  auto over = a.async_wait_until_over(lent, net::use_future);
  MessageEnding beside;  // a send may wait beside it, and another such wait
  a.async_wait_until_over(lent, beside.note_sent());
  b.async_fetch(came.message, theirs.scatter(), fetched.note_sent());
  run(io);
  CHECK(over.wait_for(patience) == std::future_status::ready);  // by a thread of Asio's own
  over.get();
  CHECK_FALSE(fetched.code);
  CHECK_FALSE(beside.code);
  CHECK(may_write(mine));
  CHECK(are_alike(*pair));
}

TEST_CASE("a wait that ends early ends no loan, and can be made again", "[asio]") {
  net::io_context io;
  auto pair = lending_pair(io);
  if (!pair) return;
  auto& [mine, theirs, a, b] = *pair;
  bool const expires = GENERATE(false, true);
  LentMessage lent;
  MessageEnding over, came, fetched;
  a.async_send_lent(mine.gather(), [&](error_code code, LentMessage message) {
    REQUIRE_FALSE(code);
    lent = std::move(message);
  });
  b.async_receive(came.note());
  run_until(io, [&] { return lent && came.calls > 0; });

  if (expires) a.expires_after(5ms);
  a.async_wait_until_over(lent, over.note_sent());
  if (!expires) a.cancel();
  run_until(io, [&] { return over.calls > 0; });
  CHECK(over.code == (expires ? net::error::timed_out : net::error::operation_aborted));
  CHECK_FALSE(may_write(mine));
  CHECK_FALSE(must(lent.is_over()));
  a.expires_never();

  b.async_fetch(came.message, theirs.scatter(), fetched.note_sent());
  b.cancel();  // it was begun, and may be over
  run_until(io, [&] { return fetched.calls > 0; });
  if (fetched.code) {
    CHECK(fetched.code == net::error::operation_aborted);
    b.async_fetch(came.message, theirs.scatter(), fetched.note_sent());
    run_until(io, [&] { return fetched.calls > 1; });
  }
  CHECK_FALSE(fetched.code);
  a.async_wait_until_over(lent, over.note_sent());
  run_until(io, [&] { return over.calls > 1; });
  CHECK_FALSE(over.code);
  CHECK(may_write(mine));
  CHECK(are_alike(*pair));
}

TEST_CASE("a message that is dropped or whose peer closes is over, and the bytes come back",
          "[asio]") {
  net::io_context io;
  auto pair = lending_pair(io);
  if (!pair) return;
  auto& [mine, theirs, a, b] = *pair;
  bool const closes = GENERATE(false, true);
  LentMessage lent;
  MessageEnding over, came;
  a.async_send_lent(mine.gather(), [&](error_code, LentMessage message) { lent = message; });
  b.async_receive(came.note());
  run_until(io, [&] { return lent && came.calls > 0; });
  a.async_wait_until_over(lent, over.note_sent());
  if (closes) b.close();
  came.message = Received{};
  run_until(io, [&] { return over.calls > 0; });
  if (closes)
    CHECK((!over.code || over.code == net::error::connection_reset));
  else
    CHECK_FALSE(over.code);
  CHECK(may_write(mine));
}

TEST_CASE("what is not lent, of another end, or of another length is refused", "[asio]") {
  net::io_context io;
  auto pair = lending_pair(io);
  if (!pair) return;
  auto& [mine, theirs, a, b] = *pair;
  error_code const refusal{static_cast<int>(Errc::invalid_argument), asio::category()};
  MessageEnding end, came;
  auto const is_refused = [&] {
    run_until(io, [&] { return end.calls > 0; });
    return std::exchange(end, {}).code == refusal;
  };
  a.async_wait_until_over(LentMessage{}, end.note_sent());
  CHECK(is_refused());
  a.async_send_lent(GatherElement{}, [&](error_code code, LentMessage lent) {
    CHECK_FALSE(lent);
    end.note_sent()(code);
  });
  CHECK(is_refused());
  Received const none;
  b.async_fetch(none, theirs.scatter(), end.note_sent());
  CHECK(is_refused());
  LentMessage lent;
  a.async_send_lent(mine.gather(), [&](error_code, LentMessage message) { lent = message; });
  b.async_receive(came.note());
  run_until(io, [&] { return came.calls > 0; });
  a.async_fetch(came.message, theirs.scatter(), end.note_sent());  // of the other end
  CHECK(is_refused());
  b.async_fetch(came.message, theirs.scatter(1, 5), end.note_sent());
  CHECK(is_refused());
  CHECK(may_write(theirs));

  MessageEnding waits, second;
  b.async_receive(waits.note());
  b.async_fetch(came.message, theirs.scatter(), second.note_sent());
  run_until(io, [&] { return second.calls > 0; });
  CHECK(second.code == net::error::already_started);

  asio::messages closed{io.get_executor()};
  closed.async_send_lent(mine.gather(), [&](error_code code, LentMessage) { end.code = code; });
  b.close();
  run(io);
  CHECK(end.code == net::error::bad_descriptor);
}

TEST_CASE("messages that are accepted lend as their options say", "[asio]") {
  auto const device = open_test_device();
  if (lacks(device, &DeviceCapabilities::endpoints)) return;
  net::io_context io;
  auto const domain = must(device.allocate_protection_domain());
  asio::acceptor acceptor{io.get_executor(), must(TransportListener::open("127.0.0.1:0")), domain,
                          lending_options()};
  auto memory = must(domain.allocate(lent_bytes));
  auto target = must(domain.allocate(lent_bytes));
  fill(memory);
  auto const serve = [&]() -> net::awaitable<void> {
    auto messages = co_await acceptor.async_accept_messages(use_awaitable);
    co_await fetch_all(messages, target, 3);
  };
  auto const call = [&]() -> net::awaitable<void> {
    auto messages = co_await asio::async_connect_messages(io.get_executor(), acceptor.address(),
                                                          domain, use_awaitable);
    co_await lend_all(messages, memory, 3);
  };
  spawn(io, serve());
  spawn(io, call());
  run(io);
  CHECK(std::ranges::equal(must(memory.bytes()), must(target.bytes())));
}
