// SPDX-License-Identifier: MIT OR Apache-2.0
// One latency of one operation on any device, by the loops of `lend bench`: two processes that
// spin, each with a CPU of its own. `raw` is verbs without lend on the same queue pair; `tcp`
// instead of a device is a socket.
// Usage: latency DEVICE send|write|read raw|unsafe|scoped|blocking BYTES ROUNDS
//                [--json] [--cores one|two|any] [--own-memory]
#include "measurement.hpp"
#include "raw_end.hpp"

#include <sched.h>
#include <cstdio>
#include <numeric>
#include <tools/loops/rounds.hpp>
#include <vector>

namespace {

using namespace lend;
using namespace lend::bench;
using namespace lend::tools;
using lend::bench::End;

struct Latency {
  // us; a tenth of the rounds were faster than `lowest_tenth`; `middle` is the mean of the half
  // round the median
  double median = 0, lowest_tenth = 0, mean = 0, middle = 0;
};

Latency summary_of(Durations const& rounds) {
  if (rounds.empty()) return {};
  auto const mean = [](std::span<double const> some) {
    return std::accumulate(some.begin(), some.end(), 0.0) / double(some.size()) / 1e3;
  };
  std::span<double const> const all{rounds};
  return {all[all.size() / 2] / 1e3, all[all.size() / 10] / 1e3, mean(all),
          mean(all.subspan(all.size() / 4, all.size() - all.size() / 4 * 2))};
}

// ---- without lend ----

Result<Durations> raw_send_rounds(End& end, Measurement const& asked) {
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
  return end.near ? stamps.durations(2) : Durations{};
}

Result<Durations> raw_write_rounds(End& end, Measurement const& asked) {
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
  return end.near ? stamps.durations(2) : Durations{};
}

Result<Durations> raw_read_rounds(End& end, Measurement const& asked) {
  LEND_TRYV(end.meet());
  if (!end.near) return Durations{};
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
  return stamps.durations(1);
}

Result<Durations> tcp_rounds(End& end, Measurement const& asked) {
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
  return end.near ? stamps.durations(2) : Durations{};
}

Result<Durations> measure(End& end, Measurement const& asked) {
  if (asked.device == "tcp") return tcp_rounds(end, asked);
  bool const is_raw = asked.via == "raw";
  if (!is_raw) return measure_rounds(end, asked);
  if (asked.operation == "write") return raw_write_rounds(end, asked);
  if (asked.operation == "read") return raw_read_rounds(end, asked);
  return raw_send_rounds(end, asked);
}

Result<void> run(Measurement const& asked) {
  Latency latency;
  LEND_TRYV(
      asked.run(std::as_writable_bytes(std::span{&latency, 1}), [&](End& end) -> Result<void> {
        auto warm_up = asked;
        warm_up.count = asked.count / 10 + 1;
        LEND_TRYV(lend::without_value(measure(end, warm_up)));
        LEND_TRY(measured, measure(end, asked));
        latency = summary_of(measured);
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
