// SPDX-License-Identifier: MIT OR Apache-2.0
// One latency of one operation on any device, measured as perftest and ucx_perftest measure it: two
// processes that spin, each with a CPU of its own, and every round is timed. send and write: half
// of a round trip, a write being noticed by its last byte; read: the whole of one. A receive is
// posted before the message that it is for, by `blocking` from a scope: were it posted only after
// the blocking send, the answer might come before it, and a card tries again after a rest. `raw` is
// verbs without lend on the same queue pair; `tcp` instead of a device is a socket.
// Usage: latency DEVICE send|write|read raw|unsafe|scoped|blocking BYTES ROUNDS
//                [--json] [--cores one|two|any] [--own-memory]
#include "measurement.hpp"
#include "raw_end.hpp"

#include <sched.h>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <vector>

namespace {

using namespace lend;
using namespace lend::bench;
using Clock = std::chrono::steady_clock;

struct Latency {
  // us; a tenth of the rounds were faster than `lowest_tenth`; `middle` is the mean of the half
  // round the median
  double median = 0, lowest_tenth = 0, mean = 0, middle = 0;
};

/// When each round of the near end began.
class Stamps {
 public:
  explicit Stamps(std::uint64_t rounds) { begun_.reserve(rounds + 1); }
  void take() { begun_.push_back(Clock::now()); }
  [[nodiscard]] Latency in_us(double parts) const {
    std::vector<double> rounds;
    for (std::size_t i = 1; i < begun_.size(); ++i)
      rounds.push_back(std::chrono::duration<double, std::micro>{begun_[i] - begun_[i - 1]} /
                       parts / std::chrono::duration<double, std::micro>{1});
    std::sort(rounds.begin(), rounds.end());
    auto const mean = [](std::span<double const> some) {
      return std::accumulate(some.begin(), some.end(), 0.0) / double(some.size());
    };
    std::span<double const> const all{rounds};
    return {all[all.size() / 2], all[all.size() / 10], mean(all),
            mean(all.subspan(all.size() / 4, all.size() - all.size() / 4 * 2))};
  }

 private:
  std::vector<Clock::time_point> begun_;
};

Result<Latency> send_rounds(End& end, Measurement const& asked) {
  Poster poster{end.channel, asked.via};
  auto const ahead = std::min<std::uint64_t>(asked.receives_ahead(), asked.count);
  std::vector<std::optional<PendingWork>> expected(ahead);
  auto const expect = [&](std::uint64_t i) -> Result<void> {
    LEND_TRY(arrival, poster.receive(end.memory.scatter(asked.lane(i), asked.bytes)));
    expected[i % ahead] = std::move(arrival);
    return success();
  };
  for (std::uint64_t i = 0; i < ahead; ++i) {
    LEND_TRYV(expect(i));
  }
  LEND_TRYV(end.meet());
  Stamps stamps{asked.count};
  std::optional<PendingWork> departure;
  auto const send = [&]() -> Result<void> {
    auto const bytes = end.memory.gather(0, asked.bytes);
    if (asked.via == "blocking") return end.channel.send(bytes);
    LEND_TRY(sent, poster.send(bytes));
    departure = std::move(sent);
    return success();
  };
  for (std::uint64_t i = 0; i < asked.count; ++i) {
    if (end.near) {
      stamps.take();
      LEND_TRYV(send());
    }
    LEND_TRYV(expected[i % ahead]->wait());
    if (i + ahead < asked.count) {
      LEND_TRYV(expect(i + ahead));
    }
    if (!end.near) {
      LEND_TRYV(send());
    }
  }
  if (end.near) stamps.take();
  if (departure) {
    LEND_TRYV(departure->wait());
  }
  LEND_TRYV(poster.finish());
  return end.near ? stamps.in_us(2) : Latency{};
}

Result<Latency> write_rounds(End& end, Measurement const& asked) {
  Poster poster{end.channel, asked.via};
  auto const last = asked.bytes - 1;
  LEND_TRY(ours, end.memory.mutable_bytes(last, 1));
  LEND_TRY(theirs, end.exposed.bytes(last, 1));
  auto const* const arrived = static_cast<std::byte const volatile*>(theirs.data());
  auto const write = [&](std::byte turn) -> Result<void> {
    ours[0] = turn;
    Write const work{end.memory.gather(0, asked.bytes), end.remote.slice(0, asked.bytes)};
    if (asked.via == "blocking") return end.channel.write(work);
    LEND_TRY(written, poster.write(work));
    LEND_TRYV(written.wait());
    return success();
  };
  LEND_TRYV(end.meet());
  Stamps stamps{asked.count};
  for (std::uint64_t i = 1; i <= asked.count; ++i) {
    auto const turn = static_cast<std::byte>(i);
    if (end.near) {
      stamps.take();
      LEND_TRYV(write(turn));
    }
    while (*arrived != turn) {
      if (end.one_core) sched_yield();
    }
    if (!end.near) {
      LEND_TRYV(write(turn));
    }
  }
  if (end.near) stamps.take();
  return end.near ? stamps.in_us(2) : Latency{};
}

Result<Latency> read_rounds(End& end, Measurement const& asked) {
  LEND_TRYV(end.meet());
  if (!end.near) return Latency{};
  Poster poster{end.channel, asked.via};
  Stamps stamps{asked.count};
  for (std::uint64_t i = 0; i < asked.count; ++i) {
    stamps.take();
    Read const work{end.memory.scatter(0, asked.bytes), end.remote.slice(0, asked.bytes)};
    if (asked.via == "blocking") {
      LEND_TRYV(end.channel.read(work));
      continue;
    }
    LEND_TRY(pending, poster.read(work));
    LEND_TRYV(pending.wait());
  }
  stamps.take();
  return stamps.in_us(1);
}

// ---- without lend ----

Result<Latency> raw_send_rounds(End& end, Measurement const& asked) {
  RawEnd raw{end};
  std::uint64_t expected = 0;
  bool ok = true;
  auto const expect = [&] {
    if (expected < asked.count) ok = raw.receive(asked.lane(expected++), asked.bytes) && ok;
  };
  for (std::uint32_t i = 0; i < asked.receives_ahead(); ++i) expect();
  LEND_TRYV(end.meet());
  Stamps stamps{asked.count};
  std::uint32_t sent = 0, arrived = 0;
  auto const look = [&] {
    auto const seen = raw.poll();
    ok = ok && !seen.failed;
    sent += seen.others;
    arrived += seen.receives;
  };
  for (std::uint32_t i = 0; i < asked.count && ok; ++i) {
    if (end.near) {
      stamps.take();
      ok = raw.send(0, asked.bytes);
    }
    while (arrived == i && ok) look();
    expect();
    if (!end.near) ok = raw.send(0, asked.bytes) && ok;
  }
  if (end.near) stamps.take();
  while (sent < asked.count && ok) look();
  LEND_TRYV(end.meet());
  if (!ok) return Error{Errc::system_failed, "a raw post or poll failed"};
  return end.near ? stamps.in_us(2) : Latency{};
}

Result<Latency> raw_write_rounds(End& end, Measurement const& asked) {
  RawEnd raw{end};
  auto const last = asked.bytes - 1;
  LEND_TRY(ours, end.memory.mutable_bytes(last, 1));
  LEND_TRY(theirs, end.exposed.bytes(last, 1));
  auto const* const arrived = static_cast<std::byte const volatile*>(theirs.data());
  bool ok = true;
  auto const write = [&](std::byte turn) {
    ours[0] = turn;
    ok = raw.write(0, asked.bytes) && ok;
    for (RawEnd::Seen seen{}; ok && seen.others == 0;) {
      seen = raw.poll();
      ok = !seen.failed;
    }
  };
  LEND_TRYV(end.meet());
  Stamps stamps{asked.count};
  for (std::uint64_t i = 1; i <= asked.count && ok; ++i) {
    auto const turn = static_cast<std::byte>(i);
    if (end.near) {
      stamps.take();
      write(turn);
    }
    while (*arrived != turn) {
      if (end.one_core) sched_yield();
    }
    if (!end.near) write(turn);
  }
  if (end.near) stamps.take();
  if (!ok) return Error{Errc::system_failed, "a raw post or poll failed"};
  return end.near ? stamps.in_us(2) : Latency{};
}

Result<Latency> raw_read_rounds(End& end, Measurement const& asked) {
  LEND_TRYV(end.meet());
  if (!end.near) return Latency{};
  RawEnd raw{end};
  Stamps stamps{asked.count};
  bool ok = true;
  for (std::uint64_t i = 0; i < asked.count && ok; ++i) {
    stamps.take();
    ok = raw.read(0, asked.bytes);
    for (RawEnd::Seen seen{}; ok && seen.others == 0;) {
      seen = raw.poll();
      ok = !seen.failed;
    }
  }
  stamps.take();
  if (!ok) return Error{Errc::system_failed, "a raw post or poll failed"};
  return stamps.in_us(1);
}

Result<Latency> tcp_rounds(End& end, Measurement const& asked) {
  LEND_TRY(socket, Socket::connect(end));
  std::vector<std::byte> bytes(asked.bytes);
  LEND_TRYV(end.meet());
  Stamps stamps{asked.count};
  for (std::uint64_t i = 0; i < asked.count; ++i) {
    if (end.near) {
      stamps.take();
      LEND_TRYV(socket.send(bytes));
    }
    LEND_TRYV(socket.receive(bytes));
    if (!end.near) {
      LEND_TRYV(socket.send(bytes));
    }
  }
  if (end.near) stamps.take();
  return end.near ? stamps.in_us(2) : Latency{};
}

Result<Latency> measure(End& end, Measurement const& asked) {
  if (asked.device == "tcp") return tcp_rounds(end, asked);
  bool const is_raw = asked.via == "raw";
  if (asked.operation == "write") return (is_raw ? raw_write_rounds : write_rounds)(end, asked);
  if (asked.operation == "read") return (is_raw ? raw_read_rounds : read_rounds)(end, asked);
  return (is_raw ? raw_send_rounds : send_rounds)(end, asked);
}

Result<void> run(Measurement const& asked) {
  Latency latency;
  LEND_TRYV(
      asked.run(std::as_writable_bytes(std::span{&latency, 1}), [&](End& end) -> Result<void> {
        auto warm_up = asked;
        warm_up.count = asked.count / 10 + 1;
        LEND_TRYV(measure(end, warm_up));
        LEND_TRY(measured, measure(end, asked));
        latency = measured;
        return success();
      }));
  if (asked.json)
    std::printf(
        "{%s, \"median_us\": %.4f, \"lowest_tenth_us\": %.4f, \"mean_us\": %.4f, "
        "\"middle_us\": %.4f}\n",
        asked.json_head().c_str(), latency.median, latency.lowest_tenth, latency.mean,
        latency.middle);
  else
    std::printf("%.3f us median, %.3f us lowest tenth, %.3f us mean, %.3f us middle half\n",
                latency.median, latency.lowest_tenth, latency.mean, latency.middle);
  return success();
}

}  // namespace

int main(int count, char** words) {
  return measure_by_command({words, static_cast<std::size_t>(count)}, "latency",
                            {"raw", "unsafe", "scoped", "blocking"}, "ROUNDS", run);
}
