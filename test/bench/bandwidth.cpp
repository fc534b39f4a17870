// SPDX-License-Identifier: MIT OR Apache-2.0
// One stream of one operation on any device, by the loops of `lend bench`: two processes that
// spin, each with a CPU of its own. `raw` is verbs without lend on the same queue pair; `tcp`
// instead of a device is a socket.
// Usage: bandwidth DEVICE send|write|read raw|unsafe|scoped|batch BYTES MESSAGES
//                  [--json] [--cores one|two|any] [--own-memory]
#include "measurement.hpp"
#include "raw_end.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <tools/loops/stream.hpp>
#include <vector>

namespace {

using namespace lend;
using namespace lend::bench;
using Clock = std::chrono::steady_clock;

using Seconds = std::chrono::duration<double>;

Result<Seconds> raw_take_messages(End& end, Measurement const& asked) {
  RawEnd raw{end};
  std::uint64_t expected = 0;
  bool ok = true;
  auto const expect = [&] {
    if (expected < asked.count) ok = raw.receive(asked.lane(expected++), asked.bytes) && ok;
  };
  for (std::uint32_t i = 0; i < asked.receives_ahead(); ++i) expect();
  LEND_TRYV(end.meet());
  for (std::uint64_t arrived = 0; arrived < asked.count && ok;) {
    auto const seen = raw.poll();
    ok = ok && !seen.failed;
    arrived += seen.receives;
    for (std::uint32_t i = 0; i < seen.receives; ++i) expect();
  }
  if (!ok) return Error{Errc::system_failed, "a raw post or poll failed"};
  return Seconds{};
}

Result<Seconds> raw_post_messages(End& end, Measurement const& asked) {
  RawEnd raw{end};
  LEND_TRYV(end.meet());
  auto const started = Clock::now();
  auto const depth = end.channel.send_depth();
  bool ok = true;
  for (std::uint64_t posted = 0, over = 0; over < asked.count && ok;) {
    while (posted < asked.count && posted - over < depth && ok) {
      ok = asked.operation == "send"    ? raw.send(0, asked.bytes)
           : asked.operation == "write" ? raw.write(0, asked.bytes)
                                        : raw.read(asked.lane(posted), asked.bytes);
      ++posted;
    }
    auto const seen = raw.poll();
    ok = ok && !seen.failed;
    over += seen.others;
  }
  if (!ok) return Error{Errc::system_failed, "a raw post or poll failed"};
  return Seconds{Clock::now() - started};
}

Result<Seconds> tcp_stream(End& end, Measurement const& asked) {
  LEND_TRY(socket, Socket::connect(end));
  // The receiver takes what has come, many small messages at once, as a stream's reader does.
  constexpr std::size_t at_once = std::size_t{64} << 10;
  std::vector<std::byte> bytes(end.near ? asked.bytes : at_once);
  LEND_TRYV(end.meet());
  auto const started = Clock::now();
  if (end.near) {
    for (std::uint64_t i = 0; i < asked.count; ++i) {
      LEND_TRYV(socket.send(bytes));
    }
    LEND_TRYV(socket.receive(std::span{bytes}.first(1)));  // all has arrived
    return Seconds{Clock::now() - started};
  }
  for (std::uint64_t left = asked.count * asked.bytes; left > 0;) {
    auto const part = std::min<std::uint64_t>(left, at_once);
    LEND_TRYV(socket.receive(std::span{bytes}.first(part)));
    left -= part;
  }
  LEND_TRYV(socket.send(std::span{bytes}.first(1)));
  return Seconds{};
}

Result<Seconds> measure(End& end, Measurement const& asked) {
  if (asked.device == "tcp") return tcp_stream(end, asked);
  if (asked.via != "raw") return tools::measure_stream(end, asked);
  if (end.near) return raw_post_messages(end, asked);
  if (asked.operation == "send") return raw_take_messages(end, asked);
  LEND_TRYV(end.meet());
  return Seconds{};
}

Result<void> run(Measurement const& asked) {
  Seconds took{};
  LEND_TRYV(asked.run(std::as_writable_bytes(std::span{&took, 1}), [&](End& end) -> Result<void> {
    auto warm_up = asked;
    warm_up.count = asked.count / 10 + 1;
    LEND_TRYV(lend::without_value(measure(end, warm_up)));
    LEND_TRYV(end.meet());
    LEND_TRY(measured, measure(end, asked));
    took = measured;
    return success();
  }));
  auto const messages = double(asked.count) / took.count();
  if (asked.json)
    std::printf("{%s, \"messages_per_s\": %.0f, \"gigabytes_per_s\": %.4f}\n",
                asked.json_head().c_str(), messages, messages * double(asked.bytes) * 1e-9);
  else
    std::printf("%.3f GB/s, %.3f million messages/s\n", messages * double(asked.bytes) * 1e-9,
                messages * 1e-6);
  return success();
}

}  // namespace

int main(int count, char** words) {
  return measure_by_command({words, static_cast<std::size_t>(count)}, "bandwidth",
                            {"raw", "unsafe", "scoped", "batch"}, "MESSAGES", run);
}
