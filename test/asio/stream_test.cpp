// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a stream is for Asio's programs what a socket is: by callbacks and by coroutines, many in
// one io_context, half closed, cancelled, timed out and left behind. Method: both ends in one
// process.
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#ifdef LEND_TEST_COUNTS_ALLOCATIONS
#include "support/allocation_counter.hpp"
#endif
#include "asio/streams.hpp"

using namespace lend;
using namespace lend::test;

static_assert(!std::is_copy_constructible_v<asio::stream>);

namespace {

/// Returns what comes, until the peer has finished; then finishes, too.
class CallbackEcho {
 public:
  explicit CallbackEcho(asio::stream& stream) : stream_{stream} { read(); }

 private:
  void read() {
    stream_.async_read_some(net::buffer(room_), [this](error_code code, std::size_t bytes) {
      if (code == net::error::eof) return stream_.shutdown(net::socket_base::shutdown_send);
      REQUIRE_FALSE(code);
      net::async_write(stream_, net::buffer(room_, bytes), [this](error_code wrong, std::size_t) {
        REQUIRE_FALSE(wrong);
        read();
      });
    });
  }
  asio::stream& stream_;
  std::array<char, 5'000> room_{};
};

net::awaitable<void> echo(asio::stream& stream) {
  std::array<char, 3'000> room{};
  for (;;) {
    error_code code;
    auto const bytes = co_await stream.async_read_some(net::buffer(room),
                                                       net::redirect_error(use_awaitable, code));
    if (code == net::error::eof) co_return stream.shutdown(net::socket_base::shutdown_send);
    co_await net::async_write(stream, net::buffer(room, bytes), use_awaitable);
  }
}

net::awaitable<void> write_all(asio::stream& stream, std::string const& text) {
  std::array const parts{net::buffer(text.data(), 1), net::buffer(text.data() + 1, 0),
                         net::buffer(text.data() + 1, text.size() - 1)};
  co_await net::async_write(stream, parts, use_awaitable);
  stream.shutdown(net::socket_base::shutdown_send);
}

/// Until the end, or an error.
net::awaitable<void> read_all(asio::stream& stream, std::string& text, error_code& code) {
  co_await net::async_read(stream, net::dynamic_buffer(text),
                           net::redirect_error(use_awaitable, code));
}

net::awaitable<void> expect(asio::stream& stream, std::string const& text) {
  std::string got;
  error_code code;
  co_await read_all(stream, got, code);
  CHECK(code == net::error::eof);
  CHECK(got == text);
}

}  // namespace

TEST_CASE("callbacks echo a stream that is larger than its window", "[asio]") {
  auto const means = GENERATE(Means::memory, Means::send_receive);
  net::io_context io;
  auto [a, b] = stream_pair(io, means);
  auto const text = text_of(2'000'003);
  CallbackEcho const echoes{b};

  spawn(io, write_all(a, text));
  spawn(io, expect(a, text));
  run(io);
}

TEST_CASE("coroutines echo on many streams of one io_context", "[asio]") {
  auto const means = GENERATE(Means::memory, Means::send_receive);
  auto const spins = GENERATE(0us, 20us);
  net::io_context io;
  std::vector<StreamPair> pairs;
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < 20; ++i) {
    pairs.push_back(stream_pair(io, means));
    texts.push_back(text_of(20'000 + 997 * i));
  }
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    auto& [a, b] = pairs[i];
    a.spin_for(spins);
    b.spin_for(spins);
    spawn(io, echo(b));
    spawn(io, write_all(a, texts[i]));
    spawn(io, expect(a, texts[i]));
  }
  run(io);
}

TEST_CASE("several threads run the streams of one io_context, each in its strand", "[asio]") {
  net::io_context io;
  struct Talk {
    StreamPair pair;
    std::string got{};
    error_code code{};
  };
  auto const text = text_of(100'000);
  std::vector<std::unique_ptr<Talk>> talks;
  for (int i = 0; i < 6; ++i) {
    auto transports = ends<SendReceive>();
    auto const made = [&](auto& transport) {
      return asio::stream{net::make_strand(io), ByteStream{AnyTransport{std::move(transport)}}};
    };
    auto& [pair, got, code] =
        *talks.emplace_back(new Talk{{made(transports.first), made(transports.second)}});
    spawn(pair.b.get_executor(), echo(pair.b));
    spawn(pair.a.get_executor(), write_all(pair.a, text));
    spawn(pair.a.get_executor(), read_all(pair.a, got, code));
  }
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back([&] { io.run_for(patience); });
  threads.clear();
  for (auto const& talk : talks) CHECK(talk->got == text);
}

TEST_CASE("a descriptor that is silent, or wakes for nothing, costs no byte", "[asio]") {
  MemoryFaults const faults{.late_polls = 3,
                            .is_silent = GENERATE(false, true),
                            .wakes_for_nothing = GENERATE(false, true)};
  net::io_context io;
  auto [a, b] = stream_pair(io, must(memory_transports({}, faults)));
  auto const text = text_of(300'000);
  spawn(io, echo(b));
  spawn(io, write_all(a, text));
  spawn(io, expect(a, text));
  run(io);
}

TEST_CASE("a read that waits for nothing makes few turns", "[asio]") {
  net::io_context io;
  auto pair = stream_pair(io, GENERATE(Means::memory, Means::send_receive));
  auto& [a, b] = pair;
  a.spin_for(0us);
  std::array<char, 8> room{};
  Ending end;
  a.async_read_some(net::buffer(room), end.note());

  CHECK(io.run_for(300ms) < 100);

  CHECK(end.calls == 0);
  CHECK(b.write_some(net::buffer("x", 1)) == 1);
  run(io);
  CHECK(end.bytes == 1);
}

TEST_CASE("cancel() ends what waits, and the stream goes on", "[asio]") {
  net::io_context io;
  auto pair = stream_pair(io, Means::send_receive);
  auto& [a, b] = pair;
  std::array<char, 8> room{};
  Ending end;
  a.async_read_some(net::buffer(room), end.note());
  REQUIRE(io.run_for(20ms) > 0);

  a.cancel();
  CHECK(end.calls == 0);  // never inside the call
  run(io);

  CHECK(end.code == net::error::operation_aborted);
  b.async_write_some(net::buffer("more", 4), end.note());
  a.async_read_some(net::buffer(room), end.note());
  run(io);
  CHECK_FALSE(end.code);
  CHECK(std::string_view{room.data(), 4} == "more");
  CHECK(end.calls == 3);
}

TEST_CASE("what expires has read nothing, and the stream goes on", "[asio]") {
  net::io_context io;
  auto [a, b] = stream_pair(io, Means::send_receive);
  std::array<char, 8> room{};
  Ending end;
  a.expires_after(10ms);
  a.async_read_some(net::buffer(room), end.note());
  run(io);
  CHECK(end.code == net::error::timed_out);
  CHECK_THROWS_AS(a.read_some(net::buffer(room)), boost::system::system_error);
  CHECK_FALSE(a.last_error());

  a.expires_never();
  b.async_write_some(net::buffer("more", 4), end.note());
  run(io);
  CHECK(a.read_some(net::buffer(room), end.code) == 4);
}

TEST_CASE("a second read beside one that waits is refused", "[asio]") {
  net::io_context io;
  auto [a, b] = stream_pair(io);
  std::array<char, 8> room{};
  Ending first, second;
  a.async_read_some(net::buffer(room), first.note());
  a.async_read_some(net::buffer(room), second.note());
  CHECK(b.write_some(net::buffer("x", 1)) == 1);
  run(io);
  CHECK(second.code == net::error::already_started);
  CHECK(first.bytes == 1);
}

TEST_CASE("a synchronous call beside an operation that waits is refused", "[asio]") {
  net::io_context io;
  auto [a, b] = stream_pair(io);
  Ending end;
  std::array<char, 8> room{};
  a.async_read_some(net::buffer(room), end.note());
  error_code code;
  CHECK(a.write_some(net::buffer("x", 1), code) == 0);
  CHECK(code == net::error::already_started);
  CHECK(b.write_some(net::buffer("x", 1)) == 1);
  run(io);
  CHECK(end.bytes == 1);
}

TEST_CASE("what one direction finds broken ends the wait of the other", "[asio]") {
  net::io_context io;
  auto [a, b] = stream_pair(io, must(memory_transports({}, {.dies_at_word = 1})));
  Ending end;
  std::array<char, 8> room{};
  a.async_read_some(net::buffer(room), end.note());
  io.run_for(20ms);
  error_code ignored;
  if (GENERATE(false, true))
    a.shutdown(net::socket_base::shutdown_send, ignored);
  else
    a.async_write_some(net::buffer("x", 1), [](error_code, std::size_t) {});
  run(io);
  CHECK(end.code == net::error::connection_reset);
}

TEST_CASE("a half closed stream reads on, and writes no more", "[asio]") {
  net::io_context io;
  auto [a, b] = stream_pair(io, GENERATE(Means::memory, Means::send_receive));
  auto const text = text_of(1'000'000);
  std::string const nothing;
  a.shutdown(net::socket_base::shutdown_send);
  error_code code;
  CHECK(a.write_some(net::buffer(text), code) == 0);
  CHECK(code == net::error::broken_pipe);
  CHECK(a.last_error().value() == Errc::finished);

  spawn(io, expect(b, nothing));
  spawn(io, write_all(b, text));
  spawn(io, expect(a, text));
  run(io);
}

TEST_CASE("a stream closed without a shutdown delivers all, and is no end", "[asio]") {
  net::io_context io;
  auto pair = stream_pair(io, Means::send_receive);
  auto& [a, b] = pair;
  auto const text = text_of(100'000);
  net::async_write(a, net::buffer(text), [&one = a](error_code, std::size_t) { one.close(); });
  error_code code;
  std::string got;
  spawn(io, read_all(b, got, code));
  run(io);
  CHECK(code == net::error::connection_reset);
  CHECK(got == text);
  CHECK_FALSE(a.is_open());
  CHECK(a.read_some(net::buffer(got), code) == 0);
  CHECK(code == net::error::bad_descriptor);
}

TEST_CASE("a stream that is destroyed aborts what waits", "[asio]") {
  net::io_context io;
  std::array<char, 8> room{};
  Ending end;
  {
    auto [a, b] = stream_pair(io, Means::send_receive);
    a.async_read_some(net::buffer(room), end.note());
    io.run_for(5ms);
  }
  run(io);
  CHECK(end.code == net::error::operation_aborted);
}

TEST_CASE("an io_context that goes destroys what waits, also frames that own their stream",
          "[asio]") {
  auto const means = GENERATE(Means::memory, Means::send_receive);
  auto const owned = std::make_shared<int>(0);
  {
    net::io_context io;
    auto [a, b] = stream_pair(io, means);
    auto const hold = [](asio::stream stream, std::shared_ptr<int>) -> net::awaitable<void> {
      std::string text;
      error_code code;
      co_await read_all(stream, text, code);
    };
    spawn(io, hold(std::move(a), owned));
    io.run_for(5ms);
    CHECK(owned.use_count() > 1);
  }
  CHECK(owned.use_count() == 1);
}

TEST_CASE("threads that read and write without an io_context's help wait in the calls", "[asio]") {
  net::io_context io;
  auto [a, b] = stream_pair(io, Means::send_receive);
  auto const text = text_of(1'000'000);
  std::string got(text.size(), ' ');
  std::jthread const writing{[&, &one = a] { net::write(one, net::buffer(text)); }};
  CHECK(net::read(b, net::buffer(got)) == text.size());
  CHECK(got == text);
}

#ifdef LEND_TEST_COUNTS_ALLOCATIONS
TEST_CASE("a warm stream takes nothing from the heap for an operation", "[asio]") {
  net::io_context io;
  auto [a, b] = stream_pair(io, GENERATE(Means::memory, Means::send_receive));
  std::array<char, 64> room{};
  constexpr int warm = 300, all = 3'000;
  int done = 0;
  std::uint64_t before = 0, after = 0;
  std::function<void()> next;
  auto const has_read = [&](error_code, std::size_t) {
    if (++done == warm) before = allocations();
    done < all ? next() : void(after = allocations());
  };
  // One completion at a time: Asio keeps one block per thread for the next.
  auto const has_written = [&, &other = b](error_code, std::size_t) {
    other.async_read_some(net::buffer(room), std::ref(has_read));
  };
  next = [&, &one = a] { one.async_write_some(net::buffer(room), std::ref(has_written)); };
  next();
  run(io);
  CHECK(after == before);
  CHECK(done == all);
}
#endif
