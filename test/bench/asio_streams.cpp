// SPDX-License-Identifier: MIT OR Apache-2.0
// As `streams`, but by coroutines of Boost.Asio: a stream of lend's by kind of transport, and a TCP
// socket of Asio's, in the same code. Both contexts spin, or both sleep while they wait.
// Usage: asio_streams credit_ring|send_receive|tcp|credit_ring_asleep|tcp_asleep latency|rate BYTES
// COUNT
#include "measurement.hpp"
#include "stream_runs.hpp"

#include <lend/asio/stream.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <utility>
#include <vector>

namespace {

using namespace lend;
using namespace lend::bench;
namespace net = boost::asio;
using net::use_awaitable;
using Clock = std::chrono::steady_clock;

void meet(End const& end) {
  if (auto const met = end.meet(); !met) throw std::runtime_error{met.error().message()};
}

template <class Stream>
net::awaitable<double> rounds(End const& end, Stream& stream, StreamRun const& asked,
                              std::uint64_t count) {
  std::vector<std::byte> bytes(asked.bytes);
  std::vector<double> took;
  took.reserve(count);
  meet(end);
  for (std::uint64_t i = 0; i < count; ++i) {
    auto const started = Clock::now();
    if (end.near) co_await net::async_write(stream, net::buffer(bytes), use_awaitable);
    co_await net::async_read(stream, net::buffer(bytes), use_awaitable);
    if (!end.near) co_await net::async_write(stream, net::buffer(bytes), use_awaitable);
    took.push_back(std::chrono::duration<double, std::micro>{Clock::now() - started}.count() / 2);
  }
  co_return median_of(took);
}

template <class Stream>
net::awaitable<double> rate(End const& end, Stream& stream, StreamRun const& asked,
                            std::uint64_t count) {
  std::vector<std::byte> bytes(std::max(asked.bytes, read_at_once));
  meet(end);
  auto const started = Clock::now();
  if (end.near) {
    for (std::uint64_t i = 0; i < count; ++i)
      co_await net::async_write(stream, net::buffer(bytes, asked.bytes), use_awaitable);
    co_await net::async_read(stream, net::buffer(bytes, 1), use_awaitable);
  } else {
    for (std::uint64_t left = count * asked.bytes; left > 0;)
      left -= co_await stream.async_read_some(net::buffer(bytes, std::min(left, read_at_once)),
                                              use_awaitable);
    co_await net::async_write(stream, net::buffer(bytes, 1), use_awaitable);
  }
  co_return double(count) / std::chrono::duration<double>{Clock::now() - started}.count();
}

template <class Stream>
net::awaitable<double> measured(End const& end, Stream stream, StreamRun const& asked) {
  auto const run = asked.what == "latency" ? rounds<Stream> : rate<Stream>;
  co_await run(end, stream, asked, asked.count / 10 + 1);
  auto const figure = co_await run(end, stream, asked, asked.count);
  boost::system::error_code end_of_stream;
  stream.shutdown(net::socket_base::shutdown_send);
  std::byte none;
  co_await net::async_read(stream, net::buffer(&none, 1),
                           net::redirect_error(use_awaitable, end_of_stream));
  co_return figure;
}

bool sleeps(StreamRun const& asked) {
  return asked.kind.ends_with("_asleep");
}

template <class Stream>
Result<double> measure(net::io_context& io, End const& end, Stream stream, StreamRun const& asked) {
  double figure = 0;
  std::exception_ptr failure;
  net::co_spawn(io, measured(end, std::move(stream), asked),
                [&](std::exception_ptr thrown, double value) {
                  failure = std::move(thrown);
                  figure = value;
                });
  if (sleeps(asked)) io.run();
  while (!io.stopped()) io.poll();
  try {
    if (failure) std::rethrow_exception(failure);
  } catch (std::exception const& error) {
    return Error{Errc::system_failed, error.what()};
  }
  return figure;
}

Result<double> measure(End const& end, StreamRun const& asked) {
  net::io_context io{1};
  if (asked.kind.starts_with("tcp")) {
    LEND_TRY(socket, Socket::connect(end));
    return measure(io, end, net::ip::tcp::socket{io, net::ip::tcp::v4(), socket.release()}, asked);
  }
  TransportOptions options{.kind = asked.kind == "send_receive" ? TransportKind::send_receive
                                                                : TransportKind::credit_ring};
  options.wait = sleeps(asked) ? Wait::event : Wait::spin;
  LEND_TRY(stream, connect_stream(end, options));
  asio::stream connected{io.get_executor(), std::move(stream)};
  if (sleeps(asked)) connected.spin_for({});
  return measure(io, end, std::move(connected), asked);
}

}  // namespace

int main(int count, char** words) {
  return run_streams({words, std::size_t(count)}, "asio_streams",
                     {"credit_ring", "send_receive", "tcp", "credit_ring_asleep", "tcp_asleep"},
                     measure);
}
