// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: channels are accepted and connected in an io_context, also those of a set whose work is
// awaited there, and no peer makes another wait. Method: both sides in one io_context, and peers
// that are silent, refused or not there.
#include <lend/asio/channels.hpp>
#include <lend/asio/waits.hpp>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_future.hpp>

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "asio/streams.hpp"
#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;

static_assert(!std::is_copy_constructible_v<asio::channel_acceptor>);

namespace {

using MaybeAccepted = std::optional<Accepted<Channel>>;

/// A set, its waits and an acceptor of channels of it.
struct SetServer {
  explicit SetServer(net::io_context& io, std::string_view address = "127.0.0.1:0")
      : waits{io.get_executor(), set},
        acceptor{io.get_executor(), must(Listener::open(address)),
                 [this](Arrival const& arrival) { return prepared(arrival.id); }} {}

  Result<PreparedChannel> prepared(std::uint64_t tag) {
    if (refuses) return Error{Errc::denied, "no room for you"};
    ChannelOptions options = options_with_depth(8);
    options.wait_set = &set;
    options.tag = tag;
    return prepare_channel(domain, options);
  }

  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  MemoryRegion memory = must(domain.allocate(4'096));
  WaitSet set = must(WaitSet::create(context));
  bool refuses = false;
  asio::waits waits;
  asio::channel_acceptor acceptor;
};

/// Accepts so many, and returns the first message of each.
net::awaitable<void> serve_channels(SetServer& server, std::deque<Channel>& served, int clients) {
  for (int i = 0; i < clients; ++i) {
    auto accepted = co_await server.acceptor.async_accept(use_awaitable);
    spawn(co_await net::this_coro::executor,
          [](SetServer& in, Channel& channel, std::size_t place) -> net::awaitable<void> {
            PollingScope scope{channel};
            auto received = must(scope.post_receive(in.memory.scatter(place, 8)));
            co_await in.waits.async_wait(received, use_awaitable);
            auto sent = must(scope.post_send(in.memory.gather(place, 8)));
            co_await in.waits.async_wait(sent, use_awaitable);
          }(server, served.emplace_back(std::move(accepted->made)), 8 * (accepted->id % 100)));
  }
}

/// Connects a channel of its own set, and expects its number back.
net::awaitable<void> ask_by_channel(SetServer& own, std::string address, std::uint64_t number,
                                    int& answers) {
  auto channel = co_await asio::async_connect_channel(own.acceptor.get_executor(), address,
                                                      must(own.prepared(number)), use_awaitable);
  auto const place = 1'000 + 16 * number;
  put(own.memory, place, "word 00" + std::to_string(number));
  PollingScope scope{*channel};
  auto received = must(scope.post_receive(own.memory.scatter(place + 8, 8)));
  auto sent = must(scope.post_send(own.memory.gather(place, 8)));
  co_await own.waits.async_wait(sent, use_awaitable);
  co_await own.waits.async_wait(received, use_awaitable);
  answers += text_at(own.memory, place, 8) == text_at(own.memory, place + 8, 8) ? 1 : 0;
}

/// What an accept or a connect by a callback came to.
template <class Made>
struct MadeEnding {
  error_code code{};
  std::optional<Made> made{};
  int calls = 0;
  auto note() {
    return [this](error_code what, std::optional<Made> own) {
      code = what;
      made = std::move(own);
      ++calls;
    };
  }
};

error_code as_code(Errc code) {
  return {static_cast<int>(code), asio::category()};
}

}  // namespace

TEST_CASE("channels of a set are accepted and connected where their work is awaited", "[asio]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  net::io_context io;
  SetServer server{io}, clients{io};
  std::deque<Channel> served;
  int answers = 0;
  spawn(io, serve_channels(server, served, 9));
  for (std::uint64_t i = 1; i < 10; ++i)
    spawn(io, ask_by_channel(clients, server.acceptor.address(), i, answers));
  run(io);
  CHECK(answers == 9);
}

TEST_CASE("a channel's client that says nothing delays none", "[asio]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  net::io_context io;
  SetServer server{io};
  auto const silent = silent_client(io, server.acceptor.address());
  MadeEnding<Accepted<Channel>> accepted;
  MadeEnding<Channel> connected;
  server.acceptor.async_accept(accepted.note());
  asio::async_connect_channel(io.get_executor(), server.acceptor.address(),
                              must(server.prepared(1)), connected.note());
  CHECK(accepted.calls + connected.calls == 0);
  run(io);
  CHECK(accepted.made);
  CHECK(connected.made);
  CHECK(is_connected(*silent));
}

TEST_CASE("a client that is refused learns it, and the next one is accepted", "[asio]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  net::io_context io;
  SetServer server{io}, clients{io};
  MadeEnding<Accepted<Channel>> accepted;
  MadeEnding<Channel> connected;
  server.refuses = true;
  server.acceptor.async_accept(accepted.note());
  auto const connect = [&] {
    int const before = connected.calls;
    asio::async_connect_channel(io.get_executor(), server.acceptor.address(),
                                must(clients.prepared(1)), connected.note());
    run_until(io, [&] { return connected.calls > before; });
  };
  connect();
  CHECK(connected.code == net::error::connection_reset);
  CHECK_FALSE(connected.made);
  CHECK(accepted.calls == 0);
  server.refuses = false;
  connect();
  CHECK_FALSE(connected.code);
  run(io);
  CHECK(accepted.made.value().id == 2);
}

TEST_CASE("a channel that cannot be connected says why", "[asio]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  net::io_context io;
  SetServer server{io};
  MadeEnding<Channel> late, unnamed, used;
  asio::ConnectOptions options;
  options.patience = 50ms;
  asio::async_connect_channel(io.get_executor(), "127.0.0.1:1", must(server.prepared(1)), options,
                              late.note());
  asio::async_connect_channel(io.get_executor(), "localhost:1", must(server.prepared(1)), options,
                              unnamed.note());
  auto prepared = must(server.prepared(1));
  PreparedChannel const taken{std::move(prepared)};
  asio::async_connect_channel(io.get_executor(), "127.0.0.1:1", std::move(prepared), used.note());
  CHECK(late.calls + unnamed.calls + used.calls == 0);  // never inside the call
  run(io);
  CHECK(late.code == net::error::timed_out);
  CHECK(unnamed.code == as_code(Errc::invalid_argument));
  CHECK(used.code == as_code(Errc::stale_handle));
  CHECK_FALSE((late.made || unnamed.made || used.made));
}

TEST_CASE("accepts of channels end when they are cancelled, and when their acceptor goes",
          "[asio]") {
  net::io_context io;
  std::optional<SetServer> server{std::in_place, io};
  auto const address = server->acceptor.address();
  MadeEnding<Accepted<Channel>> first, second, third;
  server->acceptor.async_accept(first.note());
  server->acceptor.async_accept(second.note());
  auto const time = GENERATE(0ms, 5ms);  // turning, or asleep
  io.run_for(time);
  server->acceptor.cancel();
  CHECK(first.calls + second.calls == 0);
  run(io);
  CHECK(first.code == net::error::operation_aborted);
  CHECK(second.code == net::error::operation_aborted);
  CHECK_FALSE(server->acceptor.last_error());

  server->acceptor.async_accept(third.note());
  server.reset();
  CHECK(Listener::open(address).has_value());  // the old one is gone
  run(io);
  CHECK(third.code == net::error::operation_aborted);
}

TEST_CASE("a listener that cannot begin is the error of each accept", "[asio]") {
  net::io_context io;
  asio::channel_acceptor acceptor{
      io.get_executor(),
      must(Listener::open("127.0.0.1:0")),
      [](Arrival const&) -> Result<PreparedChannel> { return Errc::denied; },
      {.connecting_max = 0}};
  error_code code;
  acceptor.async_accept([&](error_code failed, MaybeAccepted const&) { code = failed; });
  run(io);
  CHECK(code.failed());
  CHECK(acceptor.last_error().value() == Errc::invalid_argument);
}

TEST_CASE("an io_context that goes destroys accepts and connects of channels that wait", "[asio]") {
  auto const owned = std::make_shared<int>(0);
  {
    net::io_context io;
    SetServer server{io};
    server.acceptor.async_accept([owned](error_code, MaybeAccepted const&) {});
    asio::async_connect_channel(io.get_executor(), "127.0.0.1:1", must(server.prepared(1)),
                                [owned](error_code, std::optional<Channel> const&) {});
    auto const hold = [](net::io_context& own, std::shared_ptr<int>) -> net::awaitable<void> {
      SetServer inside{own};
      static_cast<void>(co_await inside.acceptor.async_accept(use_awaitable));
    };
    spawn(io, hold(io, owned));
    io.run_for(5ms);
    CHECK(owned.use_count() == 4);
  }
  CHECK(owned.use_count() == 1);
}
