// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: acceptor and async_connect() make streams and messages without blocking the io_context; a
// peer that is killed is an error, never an end. Method: in one process, and with a forked one
// that is killed.
#include <lend/asio/connect.hpp>

#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/asio/write.hpp>

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <optional>

#include "asio/messages.hpp"
#include "support/peer_process.hpp"
#include "support/sanitizers.hpp"

using namespace lend;
using namespace lend::test;

namespace {

asio::acceptor acceptor_at(net::io_context& io, std::string_view address = "127.0.0.1:0") {
  TransportOptions options;
  options.keep_alive = 20ms;
  return {io.get_executor(), must(TransportListener::open(address)), domain_of_test(), options};
}

net::awaitable<void> serve(asio::acceptor& acceptor, int clients) {
  for (int i = 0; i < clients; ++i) {
    auto stream = co_await acceptor.async_accept(use_awaitable);
    std::array<char, 5> room{};
    co_await net::async_read(stream, net::buffer(room), use_awaitable);
    co_await net::async_write(stream, net::buffer(room), use_awaitable);
    stream.shutdown(net::socket_base::shutdown_send);
  }
}

net::awaitable<void> ask(net::io_context& io, std::string address, int& answers) {
  auto stream =
      co_await asio::async_connect(io.get_executor(), address, domain_of_test(), use_awaitable);
  co_await net::async_write(stream, net::buffer("hello", 5), use_awaitable);
  std::array<char, 5> room{};
  co_await net::async_read(stream, net::buffer(room), use_awaitable);
  answers += std::string_view{room.data(), 5} == "hello" ? 1 : 0;
}

/// Reads on and on; after some bytes the peer is killed.
net::awaitable<void> read_and_kill(asio::stream stream, PeerProcess const& peer, std::size_t& bytes,
                                   error_code& code) {
  std::array<char, 5'000> room{};
  while (!code) {
    bytes += co_await stream.async_read_some(net::buffer(room),
                                             net::redirect_error(use_awaitable, code));
    if (bytes > 500'000) peer.kill();
  }
}

}  // namespace

TEST_CASE("clients connect and are accepted in one io_context", "[asio]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  net::io_context io;
  auto acceptor = acceptor_at(io);
  int answers = 0;
  spawn(io, serve(acceptor, 5));
  for (int i = 0; i < 5; ++i) spawn(io, ask(io, acceptor.address(), answers));
  run(io);
  CHECK(answers == 5);
}

TEST_CASE("where no peer listens the stream is not open and says why", "[asio]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  net::io_context io;
  error_code code;
  std::optional<asio::stream> made;
  asio::async_connect(io.get_executor(), "127.0.0.1:1", domain_of_test(), {.patience = 50ms},
                      [&](error_code what, asio::stream stream) {
                        code = what;
                        made = std::move(stream);
                      });
  run(io);
  CHECK(code == net::error::timed_out);
  CHECK_FALSE(made.value().is_open());
  CHECK(made->last_error().value().message().find("127.0.0.1:1") != std::string::npos);
  std::array<char, 5> room{};
  CHECK(made->read_some(net::buffer(room), code) == 0);
  CHECK(code == net::error::bad_descriptor);
}

TEST_CASE("a stream of a WaitSet, which sleeps on the set's descriptor, is refused", "[asio]") {
  auto set = must(WaitSet::create(open_test_device()));
  asio::ConnectOptions options;
  options.transport.wait_set = &set;
  net::io_context io;
  std::optional<asio::stream> made;
  error_code code;
  asio::async_connect(io.get_executor(), "127.0.0.1:1", domain_of_test(), options,
                      [&](error_code failed, asio::stream stream) {
                        code = failed;
                        made = std::move(stream);
                      });
  run(io);
  CHECK(code == error_code{static_cast<int>(Errc::invalid_argument), asio::category()});
  CHECK(made.value().last_error().value().message().find("WaitSet") != std::string::npos);
}

TEST_CASE("an acceptor whose options are of lent messages accepts no streams", "[asio]") {
  net::io_context io;
  TransportOptions options;
  options.lent_bytes_max = 1 << 20;
  asio::acceptor acceptor{io.get_executor(), must(TransportListener::open("127.0.0.1:0")),
                          domain_of_test(), options};
  std::optional<asio::stream> made;
  acceptor.async_accept([&](error_code, asio::stream stream) { made = std::move(stream); });
  CHECK_FALSE(made);
  run(io);
  CHECK(made.value().last_error().value() == Errc::invalid_argument);
}

TEST_CASE("messages connect and are accepted beside streams, and say why there are none",
          "[asio]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  net::io_context io;
  auto acceptor = acceptor_at(io);
  std::optional<asio::messages> near, far, none;
  error_code code;
  acceptor.async_accept_messages([&](error_code failed, asio::messages made) {
    REQUIRE_FALSE(failed);
    near = std::move(made);
  });
  asio::async_connect_messages(io.get_executor(), acceptor.address(), domain_of_test(),
                               [&](error_code failed, asio::messages made) {
                                 REQUIRE_FALSE(failed);
                                 far = std::move(made);
                               });
  asio::async_connect_messages(io.get_executor(), "127.0.0.1:1", domain_of_test(),
                               {.patience = 50ms}, [&](error_code failed, asio::messages made) {
                                 code = failed;
                                 none = std::move(made);
                               });
  run_until(io, [&] { return near && far && none; });
  far->async_send(net::buffer("word", 4), [](error_code) {});
  CHECK(next_text(io, *near) == "word");
  CHECK(near->limits().wait == Wait::event);

  CHECK(code == net::error::timed_out);
  CHECK_FALSE(none->is_open());
  CHECK(none->limits().send_bytes_max == 0);
  CHECK(none->last_error().value().message().find("127.0.0.1:1") != std::string::npos);
  MessageEnding end;
  none->async_receive(end.note());
  run_until(io, [&] { return end.calls > 0; });
  CHECK(end.code == net::error::bad_descriptor);

  int answers = 0;
  spawn(io, serve(acceptor, 1));
  spawn(io, ask(io, acceptor.address(), answers));
  run_until(io, [&] { return answers > 0; });
}

TEST_CASE("a client that says nothing delays no accept", "[asio]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  net::io_context io;
  auto acceptor = acceptor_at(io);
  auto const silent = silent_client(io, acceptor.address());
  bool is_accepted = false;
  acceptor.async_accept_messages([&](error_code code, asio::messages const&) {
    is_accepted = !code;
    io.stop();
  });
  asio::async_connect_messages(io.get_executor(), acceptor.address(), domain_of_test(),
                               [](error_code, asio::messages const&) {});
  io.run_for(patience);
  CHECK(is_accepted);
  CHECK(is_connected(*silent));
}

TEST_CASE("accepts end when they are cancelled, and when their acceptor goes", "[asio]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  net::io_context io;
  std::optional acceptor{acceptor_at(io)};
  int aborted = 0;
  auto const note = [&](error_code code, asio::stream const&) {
    aborted += code == net::error::operation_aborted ? 1 : 0;
  };
  acceptor->async_accept(note);
  acceptor->async_accept(note);
  acceptor->cancel();
  run(io);
  CHECK(aborted == 2);

  acceptor->async_accept(note);
  acceptor.reset();
  run(io);
  CHECK(aborted == 3);
}

TEST_CASE("a coroutine's accept ends when its acceptor goes, or is replaced", "[asio]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  net::io_context io;
  std::optional acceptor{acceptor_at(io)};
  error_code code;
  spawn(io, [](asio::acceptor& own, error_code& failed) -> net::awaitable<void> {
    co_await own.async_accept(net::redirect_error(use_awaitable, failed));
  }(*acceptor, code));
  io.run_for(20ms);
  if (GENERATE(false, true))
    acceptor.reset();
  else
    *acceptor = acceptor_at(io);
  run(io);
  CHECK(code == net::error::operation_aborted);
}

TEST_CASE("a peer that is not there keeps no other connection waiting", "[asio]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  net::io_context io;
  auto acceptor = acceptor_at(io);
  acceptor.async_accept([](error_code, asio::stream const&) {});
  bool has_given_up = false;
  asio::async_connect(io.get_executor(), "127.0.0.1:1", domain_of_test(), {.patience = 10s},
                      [&](error_code, asio::stream const&) { has_given_up = true; });
  std::optional<error_code> live;
  asio::async_connect(io.get_executor(), acceptor.address(), domain_of_test(),
                      [&](error_code code, asio::stream const&) {
                        live = code;
                        io.stop();
                      });
  io.run_for(patience);
  CHECK(live == error_code{});
  CHECK_FALSE(has_given_up);
}

TEST_CASE("each accept of options that allow no end says so, and so do those who connect",
          "[asio]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  net::io_context io;
  TransportOptions options;
  options.window = 5;  // not a multiple of 4
  asio::acceptor acceptor{io.get_executor(), must(TransportListener::open("127.0.0.1:0")),
                          domain_of_test(), options};
  for (int i = 0; i < 2; ++i) {
    std::optional<Error> why, of_client;
    acceptor.async_accept([&](error_code, asio::stream const& s) { why = s.last_error(); });
    asio::async_connect(io.get_executor(), acceptor.address(), domain_of_test(),
                        [&](error_code, asio::stream const& s) { of_client = s.last_error(); });
    run(io);
    CHECK(why.value() == Errc::invalid_argument);
    CHECK(acceptor.last_rejected().find(why->message()) != std::string::npos);
    CHECK(of_client.value().message().find(why->message()) != std::string::npos);
  }
}

TEST_CASE("an idle stream that found no descriptor free naps, and asks again", "[asio]") {
  if (LEND_TEST_ASAN) {
    WARN("skipped: UBSan by clang makes a pipe to look at an object's type");
    return;
  }
  net::io_context io;
  auto [a, b] = stream_pair(io, Means::send_receive);
  std::array<char, 8> room{};
  std::size_t bytes = 0;
  a.spin_for(0us);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  int const free = ::dup(STDIN_FILENO);
  REQUIRE(free >= 0);
  ::close(free);
  rlimit const none{static_cast<rlim_t>(free), before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  a.async_read_some(net::buffer(room), [&](error_code, std::size_t read) { bytes = read; });
  auto const turns = io.run_for(300ms);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(turns < 200);
  REQUIRE(turns > 0);
  io.run_for(50ms);
  CHECK(io.run_for(300ms) < 100);
  CHECK(b.write_some(net::buffer("x", 1)) == 1);
  run(io);
  CHECK(bytes == 1);
}

TEST_CASE("an io_context that goes ends accepts, also of frames that own the acceptor", "[asio]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  auto const owned = std::make_shared<int>(0);
  {
    net::io_context io;
    auto const hold = [](asio::acceptor acceptor, std::shared_ptr<int>) -> net::awaitable<void> {
      static_cast<void>(co_await acceptor.async_accept(use_awaitable));
    };
    spawn(io, hold(acceptor_at(io), owned));
    io.run_for(20ms);
    CHECK(owned.use_count() > 1);
  }
  CHECK(owned.use_count() == 1);
}

TEST_CASE("a peer killed in the middle is connection_reset, never an end", "[asio]") {
  PeerProcess peer{[](Wire const& wire) {
    net::io_context io;
    std::string const text = text_of(64'000);
    spawn(io, [](auto& own, std::string address, auto& bytes) -> net::awaitable<void> {
      auto stream = co_await asio::async_connect(own.get_executor(), std::move(address),
                                                 domain_of_test(), use_awaitable);
      for (;;) co_await net::async_write(stream, net::buffer(bytes), use_awaitable);
    }(io, wire.take_text(), text));
    io.run();
    return 0;
  }};
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  net::io_context io;
  auto acceptor = acceptor_at(io);
  REQUIRE(peer.wire().put_text(acceptor.address()));
  error_code code;
  std::size_t bytes = 0;
  acceptor.async_accept([&](error_code failed, asio::stream stream) {
    REQUIRE_FALSE(failed);
    spawn(io, read_and_kill(std::move(stream), peer, bytes, code));
  });
  io.run_for(patience);
  CHECK(code == net::error::connection_reset);
  CHECK(bytes > 500'000);
  CHECK(peer.exit_status() == 128 + SIGKILL);
}

TEST_CASE("a sender of messages that is killed is connection_reset, after what had come",
          "[asio]") {
  PeerProcess peer{[](Wire const& wire) {
    net::io_context io;
    spawn(io, [](auto& own, std::string address) -> net::awaitable<void> {
      auto messages = co_await asio::async_connect_messages(own.get_executor(), std::move(address),
                                                            domain_of_test(), use_awaitable);
      for (int i = 0;; ++i) {
        auto const text = std::to_string(i);
        co_await messages.async_send(net::buffer(text), use_awaitable);
      }
    }(io, wire.take_text()));
    io.run();
    return 0;
  }};
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  net::io_context io;
  auto acceptor = acceptor_at(io);
  REQUIRE(peer.wire().put_text(acceptor.address()));
  auto messages = acceptor.async_accept_messages(net::use_future);
  run(io);
  auto own = messages.get();
  for (int i = 0; i < 1'000; ++i) CHECK(next_text(io, own) == std::to_string(i));
  peer.kill();
  CHECK(peer.exit_status() == 128 + SIGKILL);
  MessageEnding end;
  for (int i = 1'000; !end.code; ++i) {
    end = {};
    own.async_receive(end.note());
    run_until(io, [&] { return end.calls > 0; });
    if (!end.code) CHECK(text_of(end.message) == std::to_string(i));
  }
  CHECK(end.code == net::error::connection_reset);
  CHECK(own.last_error().value() == Errc::peer_lost);
}
