// SPDX-License-Identifier: MIT OR Apache-2.0
// A byte stream between two processes that spin, each with a CPU of its own: half of a round trip,
// or bytes one way until the peer says that it has all. Streams of lend by kind of transport, TCP
// over loopback, and AF_UNIX, all read and written alike.
// Usage: streams KIND latency|rate BYTES COUNT [DEVICE]; with `_asleep` a stream of lend's sleeps
// while it waits.
#include "measurement.hpp"
#include "stream_runs.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

namespace {

using namespace lend;
using namespace lend::bench;
using Clock = std::chrono::steady_clock;

/// A ByteStream, read as a Socket is.
class LendStream {
 public:
  explicit LendStream(ByteStream stream) : stream_{std::move(stream)} {}
  Result<void> send(std::span<std::byte const> bytes) {
    LEND_TRY(written, stream_.write(bytes));
    return written == bytes.size() ? success() : Result<void>{Errc::peer_lost};
  }
  Result<std::size_t> receive_some(std::span<std::byte> bytes) {
    LEND_TRY(taken, stream_.read_some(bytes));
    return taken.at_end ? Result<std::size_t>{Errc::peer_lost} : taken.bytes;
  }
  Result<void> finish() { return stream_.finish(within(std::chrono::seconds{10})); }

 private:
  ByteStream stream_;
};

template <class Stream>
Result<void> receive_all(Stream& stream, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    LEND_TRY(got, stream.receive_some(bytes));
    bytes = bytes.subspan(got);
  }
  return success();
}

/// Microseconds of half a round trip, the median.
template <class Stream>
Result<double> rounds(End const& end, Stream& stream, StreamRun const& asked, std::uint64_t count) {
  std::vector<std::byte> bytes(asked.bytes);
  std::vector<double> took;
  took.reserve(count);
  LEND_TRYV(end.meet());
  for (std::uint64_t i = 0; i < count; ++i) {
    auto const started = Clock::now();
    if (end.near) {
      LEND_TRYV(stream.send(bytes));
    }
    LEND_TRYV(receive_all(stream, bytes));
    if (!end.near) {
      LEND_TRYV(stream.send(bytes));
    }
    took.push_back(std::chrono::duration<double, std::micro>{Clock::now() - started}.count() / 2);
  }
  return median_of(took);
}

/// Parts a second.
template <class Stream>
Result<double> rate(End const& end, Stream& stream, StreamRun const& asked, std::uint64_t count) {
  std::vector<std::byte> bytes(std::max(asked.bytes, read_at_once));
  LEND_TRYV(end.meet());
  auto const started = Clock::now();
  if (end.near) {
    for (std::uint64_t i = 0; i < count; ++i) {
      LEND_TRYV(stream.send(std::span{bytes}.first(asked.bytes)));
    }
    LEND_TRYV(receive_all(stream, std::span{bytes}.first(1)));
  } else {
    // As a stream's reader does, it takes what has come.
    for (std::uint64_t left = count * asked.bytes; left > 0;) {
      LEND_TRY(got, stream.receive_some(std::span{bytes}.first(std::min(left, read_at_once))));
      left -= got;
    }
    LEND_TRYV(stream.send(std::span{bytes}.first(1)));
  }
  return double(count) / std::chrono::duration<double>{Clock::now() - started}.count();
}

template <class Stream>
Result<double> measure(End const& end, Stream stream, StreamRun const& asked) {
  auto const run = asked.what == "latency" ? rounds<Stream> : rate<Stream>;
  LEND_TRYV(lend::without_value(run(end, stream, asked, asked.count / 10 + 1)));
  LEND_TRY(figure, run(end, stream, asked, asked.count));
  LEND_TRYV(stream.finish());
  return figure;
}

Result<double> measure(End const& end, StreamRun const& asked) {
  if (asked.kind == "tcp" || asked.kind == "unix") {
    LEND_TRY(socket, asked.kind == "tcp" ? Socket::connect(end) : Socket::of_pair(end));
    return measure(end, std::move(socket), asked);
  }
  auto const kind = asked.kind.starts_with("credit_ring") ? TransportKind::credit_ring
                                                          : TransportKind::send_receive;
  auto const wait = asked.kind.ends_with("_asleep") ? Wait::event : Wait::spin;
  LEND_TRY(stream, connect_stream(end, {.kind = kind, .wait = wait}));
  return measure(end, LendStream{std::move(stream)}, asked);
}

}  // namespace

int main(int count, char** words) {
  return run_streams(
      {words, std::size_t(count)}, "streams",
      {"credit_ring", "send_receive", "tcp", "unix", "credit_ring_asleep", "send_receive_asleep"},
      measure);
}
