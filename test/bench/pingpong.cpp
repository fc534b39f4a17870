// SPDX-License-Identifier: MIT OR Apache-2.0
// Two processes on the soft device: half round trips and streaming, on two cores and on one.
//
// Method: every round is timed; the median and the 99th percentile of half of it are kept. Beside
// the channel stands `floor`: the bytes copied into shared memory and a flag set, without a device.
// Ratios to it travel between machines, microseconds do not.
// Usage: pingpong [--json] [--via floor|unsafe|scoped|blocking] [--cores two|one]
#include "pair.hpp"

#include <lend/channel/unsafe.hpp>

#include <sched.h>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

namespace {

using namespace lend;
using namespace lend::bench;
using Clock = std::chrono::steady_clock;

enum class Via : std::size_t { floor, unsafe, scoped, blocking };
constexpr std::array<std::string_view, 4> via_names{"floor", "unsafe", "scoped", "blocking"};

struct Size {
  std::size_t bytes;
  char const* name;
  std::uint64_t rounds;
};
constexpr std::array sizes{Size{8, "8 B", 50'000}, Size{64, "64 B", 50'000},
                           Size{4096, "4 KiB", 50'000}, Size{65536, "64 KiB", 20'000},
                           Size{1 << 20, "1 MiB", 1'000}};
constexpr std::size_t incoming = pair_bytes / 2;  // where receives land
constexpr std::uint64_t stream_bytes = std::uint64_t{2} << 30, stream_messages_max = 500'000;
constexpr std::size_t window_max = 64;  // messages of a stream under way at once

struct Latency {
  double median_us = 0, p99_us = 0;
};
struct Figures {
  std::array<std::array<Latency, via_names.size()>, sizes.size()> latency{};
  std::array<double, sizes.size()> send_gigabytes{}, write_gigabytes{};  // a second
};

/// Times `round` often.
template <class Round>
Result<Latency> time_rounds(std::uint64_t rounds, Round&& round) {
  std::vector<float> halves;
  halves.reserve(rounds);
  for (std::uint64_t i = 0; i < rounds + rounds / 10; ++i) {
    auto const started = Clock::now();
    LEND_TRYV(round());
    std::chrono::duration<double, std::micro> const took = Clock::now() - started;
    if (i >= rounds / 10) halves.push_back(float(took.count() / 2));
  }
  auto const at = [&](double part) {
    auto const place = halves.begin() + std::ptrdiff_t(part * double(halves.size()));
    std::nth_element(halves.begin(), place, halves.end());
    return double(*place);
  };
  return Latency{at(0.5), at(0.99)};
}

/// Runs `round` as time_rounds() does, in the process that only answers.
template <class Round>
Result<Latency> answer_rounds(std::uint64_t rounds, Round&& round) {
  for (std::uint64_t i = 0; i < rounds + rounds / 10; ++i) {
    LEND_TRYV(round());
  }
  return Latency{};
}

template <class Round>
Result<Latency> play(End const& end, std::uint64_t rounds, Round&& round) {
  LEND_TRYV(end.meet());
  return end.near ? time_rounds(rounds, round) : answer_rounds(rounds, round);
}

Result<Latency> blocking_rounds(End& end, Size const& size) {
  return play(end, size.rounds, [&]() -> Result<void> {
    if (end.near) {
      LEND_TRYV(end.channel.send(end.memory.gather(0, size.bytes)));
    }
    LEND_TRYV(end.channel.receive(end.memory.scatter(incoming, size.bytes)));
    if (!end.near) {
      LEND_TRYV(end.channel.send(end.memory.gather(0, size.bytes)));
    }
    return success();
  });
}

/// Rounds in which the next receive is posted before the peer can answer. `post_receive()` and
/// `post_send()` differ in who guards the bytes.
template <class PostReceive, class PostSend>
Result<Latency> overlapped_rounds(End& end, Size const& size, PostReceive&& post_receive,
                                  PostSend&& post_send) {
  LEND_TRY(expected, post_receive());
  LEND_TRY(latency, play(end, size.rounds, [&]() -> Result<void> {
             if (end.near) {
               LEND_TRYV(post_send());
             }
             LEND_TRYV(expected.wait());
             LEND_TRY(next, post_receive());
             expected = std::move(next);
             if (!end.near) {
               LEND_TRYV(post_send());
             }
             return success();
           }));
  LEND_TRYV(post_send());  // each takes the receive that the other has still posted
  LEND_TRYV(expected.wait());
  return latency;
}

Result<Latency> scoped_rounds(End& end, Size const& size) {
  PollingScope scope{end.channel};
  LEND_TRY(
      latency,
      overlapped_rounds(
          end, size, [&] { return scope.post_receive(end.memory.scatter(incoming, size.bytes)); },
          [&] { return scope.post_send(end.memory.gather(0, size.bytes)); }));
  LEND_TRYV(scope.finish());
  return latency;
}

Result<Latency> unsafe_rounds(End& end, Size const& size) {
  // SAFETY: one message each way is under way, nobody looks at the bytes, and the memory outlives
  // the channel's work: the last thing waited for is the answer to the last send.
  return overlapped_rounds(
      end, size,
      [&] { return unsafe_post_receive(end.channel, end.memory.scatter(incoming, size.bytes)); },
      [&] { return unsafe_post_send(end.channel, end.memory.gather(0, size.bytes)); });
}

Result<Latency> floor_rounds(End& end, Size const& size) {
  auto& plain = *end.plain;
  std::size_t const us = end.near ? 0 : 1, them = 1 - us;
  std::atomic_ref<std::uint32_t> ours{*reinterpret_cast<std::uint32_t*>(plain.flags[us])};
  std::atomic_ref<std::uint32_t> theirs{*reinterpret_cast<std::uint32_t*>(plain.flags[them])};
  std::uint32_t turn = ours.load();
  auto const bytes = end.memory.mutable_bytes(0, size.bytes).value();
  auto const tell = [&] {
    std::memcpy(plain.pages[us], bytes.data(), size.bytes);
    ours.store(++turn, std::memory_order_release);  // pairs with the load in `await`
  };
  auto const await = [&](std::uint32_t wanted) {
    while (theirs.load(std::memory_order_acquire) != wanted) {  // pairs with the store in `tell`
      if (end.one_core) sched_yield();
    }
  };
  return play(end, size.rounds, [&]() -> Result<void> {
    if (end.near) tell();
    await(end.near ? turn : turn + 1);
    if (!end.near) tell();
    return success();
  });
}

std::uint64_t messages_of(Size const& size) {
  return std::clamp<std::uint64_t>(stream_bytes / size.bytes, 1, stream_messages_max);
}
std::size_t window_of(Size const& size) {
  return std::min(window_max, pair_bytes / size.bytes);
}
/// Where message `i` of a stream is kept, on either side.
std::size_t lane_of(std::uint64_t i, Size const& size) {
  return i % window_of(size) * size.bytes;
}

Result<double> send_stream(End& end, Size const& size) {
  auto const messages = messages_of(size);
  auto const window = window_of(size);
  PollingScope scope{end.channel};
  std::array<std::optional<PendingWork>, window_max> expected;
  auto const expect = [&](std::uint64_t i) -> Result<void> {
    LEND_TRY(next, scope.post_receive(end.memory.scatter(lane_of(i, size), size.bytes)));
    expected[i % window] = std::move(next);
    return success();
  };
  for (std::uint64_t i = 0; !end.near && i < window; ++i) {
    LEND_TRYV(expect(i));
  }
  LEND_TRYV(end.meet());
  auto const started = Clock::now();
  for (std::uint64_t i = 0; i < messages; ++i) {
    if (end.near) {
      LEND_TRYV(scope.post_send(end.memory.gather(lane_of(i, size), size.bytes)));
      continue;
    }
    LEND_TRYV(expected[i % window]->wait());
    if (i + window < messages) {
      LEND_TRYV(expect(i + window));
    }
  }
  LEND_TRYV(scope.finish());
  LEND_TRYV(end.meet());
  std::chrono::duration<double, std::nano> const took = Clock::now() - started;
  return double(messages * size.bytes) / took.count();
}

Result<double> write_stream(End& end, Size const& size) {
  auto const messages = messages_of(size);
  LEND_TRYV(end.meet());
  auto const started = Clock::now();
  if (end.near) {
    PollingScope scope{end.channel};
    for (std::uint64_t i = 0; i < messages; ++i) {
      auto const lane = lane_of(i, size);
      LEND_TRYV(scope.post_write(
          {end.memory.gather(lane, size.bytes), end.remote.slice(lane, size.bytes)}));
    }
    LEND_TRYV(scope.finish());
  }
  std::chrono::duration<double, std::nano> const took = Clock::now() - started;
  LEND_TRYV(end.meet());
  return double(messages * size.bytes) / took.count();
}

struct Options {
  bool json = false;
  std::optional<Via> only{};
  bool two_cores = true, one_core = true;
};

Result<void> measure(End& end, Options const& options, Figures& figures) {
  static constexpr std::array ways{floor_rounds, unsafe_rounds, scoped_rounds, blocking_rounds};
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    for (std::size_t via = 0; via < ways.size(); ++via) {
      if (options.only && *options.only != Via(via)) continue;
      LEND_TRY(latency, ways[via](end, sizes[s]));
      figures.latency[s][via] = latency;
    }
    LEND_TRY(sent, send_stream(end, sizes[s]));
    LEND_TRY(written, write_stream(end, sizes[s]));
    figures.send_gigabytes[s] = sent;
    figures.write_gigabytes[s] = written;
  }
  return success();
}

void print_table(char const* cores, Figures const& figures) {
  std::printf(
      "\n%s: half round trip, us, median (p99)                              streams, GB/s\n",
      cores);
  std::printf("          ");
  for (auto const name : via_names) std::printf("%16s", name.data());
  std::printf("      SEND   WRITE\n");
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    std::printf("  %-8s", sizes[s].name);
    for (auto const& latency : figures.latency[s]) {
      if (latency.median_us > 0) {
        std::printf("%8.2f (%5.1f)", latency.median_us, latency.p99_us);
      } else {
        std::printf("%16s", "-");  // not asked for
      }
    }
    std::printf("  %8.2f %7.2f\n", figures.send_gigabytes[s], figures.write_gigabytes[s]);
  }
}

void print_json(char const* cores, Figures const& figures) {
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    std::printf("{\"cores\": \"%s\", \"bytes\": %zu, ", cores, sizes[s].bytes);
    for (std::size_t via = 0; via < via_names.size(); ++via) {
      auto const& [median, p99] = figures.latency[s][via];
      if (median == 0) continue;  // not asked for
      auto const* const name = via_names[via].data();
      std::printf("\"%s_median_us\": %.3f, \"%s_p99_us\": %.3f, ", name, median, name, p99);
    }
    std::printf("\"send_gigabytes_per_s\": %.3f, \"write_gigabytes_per_s\": %.3f}\n",
                figures.send_gigabytes[s], figures.write_gigabytes[s]);
  }
}

Result<void> run(Options const& options) {
  auto const place = [&](char const* cores, std::array<int, 2> cpus) -> Result<void> {
    Figures figures;
    LEND_TRYV(run_pair({.cpus = cpus}, std::as_writable_bytes(std::span{&figures, 1}),
                       [&](End& end) { return measure(end, options, figures); }));
    options.json ? print_json(cores, figures) : print_table(cores, figures);
    return success();
  };
  cpu_set_t cpus;
  bool const has_two = sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) > 1;
  if (!has_two) std::fputs("pingpong: one CPU only, no figures for two\n", stderr);
  if (options.two_cores && has_two) {
    LEND_TRYV(place("two cores", {0, 1}));
  }
  if (options.one_core) {
    LEND_TRYV(place("one core", {0, 0}));
  }
  return success();
}

std::optional<Options> parse(std::vector<std::string_view> const& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    auto const value = i + 1 < arguments.size() ? arguments[i + 1] : std::string_view{};
    if (arguments[i] == "--json") {
      options.json = true;
    } else if (arguments[i] == "--cores" && (value == "two" || value == "one")) {
      (value == "two" ? options.one_core : options.two_cores) = false;
      ++i;
    } else if (auto const via = std::ranges::find(via_names, value);
               arguments[i] == "--via" && via != via_names.end()) {
      options.only = Via(via - via_names.begin());
      ++i;
    } else {
      return {};
    }
  }
  return options;
}

}  // namespace

int main(int count, char** arguments) {
  auto const options = parse({arguments + 1, arguments + count});
  if (!options) {
    std::fputs("pingpong [--json] [--via floor|unsafe|scoped|blocking] [--cores two|one]\n",
               stderr);
    return 2;
  }
  auto const done = run(*options);
  if (!done) std::fprintf(stderr, "pingpong: %s\n", done.error().message().c_str());
  return done ? 0 : 1;
}
