// SPDX-License-Identifier: MIT OR Apache-2.0
// A byte stream between two processes that spin, each with a CPU of its own: half of a round trip,
// or bytes one way until the peer says that it has all. Streams of lend by kind of transport, TCP
// over loopback, and AF_UNIX, all read and written alike.
// Usage: streams credit_ring|send_receive|tcp|unix latency|rate BYTES COUNT
#include "measurement.hpp"
#include "number.hpp"

#include <lend/stream/byte_stream.hpp>
#include <lend/transport/connect.hpp>

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

using namespace lend;
using namespace lend::bench;
using Clock = std::chrono::steady_clock;

constexpr std::size_t read_at_once = std::size_t{64} << 10;

struct Asked {
  std::string_view kind{}, what{};
  std::size_t bytes = 0;
  std::uint64_t count = 0;
};

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

Result<LendStream> connect(End const& end, TransportKind kind) {
  using namespace std::chrono_literals;
  TransportOptions const options{.kind = kind, .wait = Wait::spin};
  LEND_TRY(domain, end.device.allocate_protection_domain());
  std::array<char, 64> address{};
  if (!end.near) {
    if (::recv(end.socket, address.data(), address.size(), MSG_WAITALL) != ssize_t(address.size()))
      return Errc::peer_lost;
    LEND_TRY(transport, connect_transport(address.data(), domain, options, within(10s)));
    return LendStream{ByteStream{std::move(transport)}};
  }
  LEND_TRY(listener, TransportListener::open("127.0.0.1:0"));
  std::ranges::copy(listener.address(), address.begin());
  if (::send(end.socket, address.data(), address.size(), MSG_NOSIGNAL) != ssize_t(address.size()))
    return Errc::peer_lost;
  LEND_TRY(transport, listener.accept(domain, options, within(10s)));
  return LendStream{ByteStream{std::move(transport)}};
}

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
Result<double> rounds(End const& end, Stream& stream, Asked const& asked, std::uint64_t count) {
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
  std::ranges::nth_element(took, took.begin() + std::ptrdiff_t(count / 2));
  return took[count / 2];
}

/// Parts a second.
template <class Stream>
Result<double> rate(End const& end, Stream& stream, Asked const& asked, std::uint64_t count) {
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
Result<double> measure(End const& end, Stream stream, Asked const& asked) {
  auto const run = asked.what == "latency" ? rounds<Stream> : rate<Stream>;
  LEND_TRYV(run(end, stream, asked, asked.count / 10 + 1));
  LEND_TRY(figure, run(end, stream, asked, asked.count));
  LEND_TRYV(stream.finish());
  return figure;
}

Result<double> measure(End const& end, Asked const& asked) {
  if (asked.kind == "tcp" || asked.kind == "unix") {
    LEND_TRY(socket, asked.kind == "tcp" ? Socket::connect(end) : Socket::of_pair(end));
    return measure(end, std::move(socket), asked);
  }
  LEND_TRY(stream, connect(end, asked.kind == "credit_ring" ? TransportKind::credit_ring
                                                            : TransportKind::send_receive));
  return measure(end, std::move(stream), asked);
}

}  // namespace

int main(int count, char** words) {
  std::vector<std::string_view> const plain{words + 1, words + count};
  Asked asked;
  auto const is_one_of = [](std::string_view word, std::initializer_list<char const*> all) {
    return std::ranges::find(all, word) != all.end();
  };
  if (plain.size() != 4 || !is_one_of(plain[0], {"credit_ring", "send_receive", "tcp", "unix"}) ||
      !is_one_of(plain[1], {"latency", "rate"}) || !parse_number(plain[2], asked.bytes) ||
      !parse_number(plain[3], asked.count) || asked.bytes == 0) {
    std::fputs("streams credit_ring|send_receive|tcp|unix latency|rate BYTES COUNT\n", stderr);
    return 2;
  }
  asked.kind = plain[0];
  asked.what = plain[1];
  double figure = 0;
  PairOptions options;
  options.cpus = {0, 1};
  auto const done = run_pair(options, std::as_writable_bytes(std::span{&figure, 1}),
                             [&](End& end) -> Result<void> {
                               LEND_TRY(measured, measure(end, asked));
                               figure = measured;
                               return success();
                             });
  if (!done) {
    std::fprintf(stderr, "streams: %s\n", done.error().message().c_str());
    return 1;
  }
  std::printf("{\"kind\": \"%s\", \"bytes\": %zu, \"%s\": %.4f}\n", words[1], asked.bytes,
              asked.what == "latency" ? "median_us" : "parts_per_s", figure);
  return 0;
}
