// SPDX-License-Identifier: MIT OR Apache-2.0
// One stream of one operation on any device, measured as perftest and ucx_perftest measure it: from
// the first post to the last completion at the end that posts, with as much under way as the queues
// hold. Two processes that spin, each with a CPU of its own. As there, all messages leave from the
// same bytes and writes go to the same bytes; what arrives by receive or read needs bytes of its
// own while it is under way. `raw` is verbs without lend on the same queue pair; `tcp` instead of
// a device is a socket.
// Usage: bandwidth DEVICE send|write|read raw|unsafe|scoped|batch BYTES MESSAGES
//                  [--json] [--cores one|two|any] [--own-memory]
#include "measurement.hpp"
#include "raw_end.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

namespace {

using namespace lend;
using namespace lend::bench;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t unsafe_ahead = 64;

struct Stream {
  double seconds = 0;
};

Stream since(Clock::time_point started) {
  return {std::chrono::duration<double>{Clock::now() - started}.count()};
}

/// The end that only receives.
template <class Way>
Result<Stream> take_messages(End& end, Measurement const& asked) {
  Way poster{end.channel, asked.via};
  auto const ahead = std::min<std::uint64_t>(asked.receives_ahead(), asked.count);
  auto const together = asked.receives_ahead() / 2;  // of a batch
  std::vector<std::optional<PendingWork>> expected(ahead);
  auto const expect = [&](std::uint64_t i) -> Result<void> {
    LEND_TRY(arrival, poster.receive(end.memory.scatter(asked.lane(i), asked.bytes)));
    expected[i % ahead] = std::move(arrival);
    return success();
  };
  for (std::uint64_t i = 0; i < ahead; ++i) {
    LEND_TRYV(expect(i));
  }
  LEND_TRYV(poster.post());  // else messages came before their receives, as below
  LEND_TRYV(end.meet());
  for (std::uint64_t i = 0; i < asked.count; ++i) {
    LEND_TRYV(expected[i % ahead]->wait());
    if (i + ahead < asked.count) {
      LEND_TRYV(expect(i + ahead));
    }
    if ((i + 1) % together == 0 || i + ahead + 1 == asked.count) {
      LEND_TRYV(poster.post());
    }
  }
  return Stream{};
}

template <class Way>
Result<Stream> post_messages(End& end, Measurement const& asked) {
  LEND_TRYV(end.meet());
  auto const started = Clock::now();
  Way poster{end.channel, asked.via};
  // Handles are asked in turn where nobody else does (unsafe), or where the bytes must be back.
  auto const ahead = asked.operation == "read" ? asked.receives_ahead() : unsafe_ahead;
  auto const together = asked.receives_ahead() / 2;  // of a batch: more would find no receives
  bool const asks = asked.operation == "read" || asked.via == "unsafe";
  std::vector<std::optional<PendingWork>> under_way(asks ? ahead : 0);
  for (std::uint64_t i = 0; i < asked.count; ++i) {
    auto const target = end.remote.slice(0, asked.bytes);
    if (asks && under_way[i % ahead]) {
      LEND_TRYV(under_way[i % ahead]->wait());
    }
    auto posted = asked.operation == "send" ? poster.send(end.memory.gather(0, asked.bytes))
                  : asked.operation == "write"
                      ? poster.write({end.memory.gather(0, asked.bytes), target})
                      : poster.read({end.memory.scatter(asked.lane(i), asked.bytes), target});
    LEND_TRY(work, std::move(posted));
    if (asks) under_way[i % ahead] = std::move(work);
    if (asked.operation == "send" && (i + 1) % together == 0) {
      LEND_TRYV(poster.post());
    }
  }
  for (auto& work : under_way) {
    if (!work) continue;
    LEND_TRYV(work->wait());
  }
  LEND_TRYV(poster.finish());
  return since(started);
}

Result<Stream> raw_take_messages(End& end, Measurement const& asked) {
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
  return Stream{};
}

Result<Stream> raw_post_messages(End& end, Measurement const& asked) {
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
  return since(started);
}

Result<Stream> tcp_stream(End& end, Measurement const& asked) {
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
    return since(started);
  }
  for (std::uint64_t left = asked.count * asked.bytes; left > 0;) {
    auto const part = std::min<std::uint64_t>(left, at_once);
    LEND_TRYV(socket.receive(std::span{bytes}.first(part)));
    left -= part;
  }
  LEND_TRYV(socket.send(std::span{bytes}.first(1)));
  return Stream{};
}

Result<Stream> measure(End& end, Measurement const& asked) {
  if (asked.device == "tcp") return tcp_stream(end, asked);
  bool const is_batch = asked.via == "batch";
  auto const post = asked.via == "raw" ? raw_post_messages
                    : is_batch         ? post_messages<BatchPoster>
                                       : post_messages<Poster>;
  auto const take = asked.via == "raw" ? raw_take_messages
                    : is_batch         ? take_messages<BatchPoster>
                                       : take_messages<Poster>;
  if (end.near) return post(end, asked);
  if (asked.operation == "send") return take(end, asked);
  LEND_TRYV(end.meet());
  return Stream{};
}

Result<void> run(Measurement const& asked) {
  Stream stream;
  LEND_TRYV(asked.run(std::as_writable_bytes(std::span{&stream, 1}), [&](End& end) -> Result<void> {
    auto warm_up = asked;
    warm_up.count = asked.count / 10 + 1;
    LEND_TRYV(measure(end, warm_up));
    LEND_TRYV(end.meet());
    LEND_TRY(measured, measure(end, asked));
    stream = measured;
    return success();
  }));
  auto const messages = double(asked.count) / stream.seconds;
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
