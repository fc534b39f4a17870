// SPDX-License-Identifier: MIT OR Apache-2.0
// One latency of one operation on any device, measured as perftest measures it: two processes that
// spin, data inline up to perftest's own limits, the median of many rounds. send and write: half of
// a round trip, a write being noticed by its last byte; read: the whole of one. Each process has a
// CPU of its own, 0 and 1.
// Usage: latency DEVICE send|write|read blocking|scoped|unsafe BYTES ROUNDS
#include "pair.hpp"

#include <lend/channel/unsafe.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

namespace {

using namespace lend;
using namespace lend::bench;
using Clock = std::chrono::steady_clock;

constexpr std::size_t incoming = pair_bytes / 2;  // where receives land
constexpr std::uint32_t receives = 64;            // posted ahead; perftest has up to 512
// Source: perftest src/perftest_parameters.h, DEF_INLINE_SEND_RC_UC_XRC and DEF_INLINE_WRITE.
constexpr std::uint32_t inline_send = 236, inline_write = 220;

struct Options {
  std::string device;
  std::string_view operation, via;
  std::size_t bytes = 0;
  std::uint64_t rounds = 0;
};

struct Latency {
  double median = 0, lowest_tenth = 0;  // us; a tenth of the rounds were faster than the latter
};

/// The three ways of posting, as one.
class Poster {
 public:
  Poster(Channel& channel, std::string_view via) : channel_{channel}, unsafe_{via == "unsafe"} {
    if (via != "unsafe") scope_.emplace(channel);
  }
  Result<PendingWork> receive(Receive const& work) {
    return unsafe_ ? unsafe_post_receive(channel_, work) : scope_->post_receive(work);
  }
  Result<PendingWork> send(Send const& work) {
    return unsafe_ ? unsafe_post_send(channel_, work) : scope_->post_send(work);
  }
  Result<PendingWork> write(Write const& work) {
    return unsafe_ ? unsafe_post_write(channel_, work) : scope_->post_write(work);
  }
  Result<PendingWork> read(Read const& work) {
    return unsafe_ ? unsafe_post_read(channel_, work) : scope_->post_read(work);
  }

 private:
  Channel& channel_;
  bool unsafe_;
  std::optional<PollingScope> scope_{};
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
    return {rounds[rounds.size() / 2], rounds[rounds.size() / 10]};
  }

 private:
  std::vector<Clock::time_point> begun_;
};

Result<Latency> send_rounds(End& end, Options const& options) {
  Poster poster{end.channel, options.via};
  std::vector<std::optional<PendingWork>> expected(receives);
  auto const place = [&](std::uint64_t i) { return incoming + i % receives * options.bytes; };
  auto const expect = [&](std::uint64_t i) -> Result<void> {
    LEND_TRY(arrival, poster.receive(end.memory.scatter(place(i), options.bytes)));
    expected[i % receives] = std::move(arrival);
    return success();
  };
  for (std::uint64_t i = 0; i < receives; ++i) {
    LEND_TRYV(expect(i));
  }
  LEND_TRYV(end.meet());
  Stamps stamps{options.rounds};
  std::optional<PendingWork> departure;
  for (std::uint64_t i = 0; i < options.rounds; ++i) {
    if (end.near) {
      stamps.take();
      LEND_TRY(sent, poster.send(end.memory.gather(0, options.bytes)));
      departure = std::move(sent);
    }
    LEND_TRYV(expected[i % receives]->wait());
    LEND_TRYV(expect(i + receives));
    if (!end.near) {
      LEND_TRY(sent, poster.send(end.memory.gather(0, options.bytes)));
      departure = std::move(sent);
    }
  }
  if (end.near) stamps.take();
  LEND_TRYV(departure->wait());
  LEND_TRYV(end.meet());
  for (std::uint64_t i = 0; i < receives; ++i) {  // what both have still posted
    LEND_TRY(sent, poster.send(end.memory.gather(0, options.bytes)));
    LEND_TRYV(sent.wait());
  }
  for (auto& arrival : expected) {
    LEND_TRYV(arrival->wait());
  }
  return end.near ? stamps.in_us(2) : Latency{};
}

Result<Latency> blocking_send_rounds(End& end, Options const& options) {
  LEND_TRYV(end.meet());
  Stamps stamps{options.rounds};
  for (std::uint64_t i = 0; i < options.rounds; ++i) {
    if (end.near) {
      stamps.take();
      LEND_TRYV(end.channel.send(end.memory.gather(0, options.bytes)));
    }
    LEND_TRYV(end.channel.receive(end.memory.scatter(incoming, options.bytes)));
    if (!end.near) {
      LEND_TRYV(end.channel.send(end.memory.gather(0, options.bytes)));
    }
  }
  if (end.near) stamps.take();
  return end.near ? stamps.in_us(2) : Latency{};
}

Result<Latency> write_rounds(End& end, Options const& options) {
  Poster poster{end.channel, options.via};
  auto const last = options.bytes - 1;
  LEND_TRY(ours, end.memory.mutable_bytes(last, 1));
  LEND_TRY(theirs, end.exposed.bytes(last, 1));
  auto const* const arrived = static_cast<std::byte const volatile*>(theirs.data());
  auto const write = [&](std::byte turn) -> Result<void> {
    ours[0] = turn;
    Write const work{end.memory.gather(0, options.bytes), end.remote.slice(0, options.bytes)};
    if (options.via == "blocking") return end.channel.write(work);
    LEND_TRY(written, poster.write(work));
    LEND_TRYV(written.wait());
    return success();
  };
  LEND_TRYV(end.meet());
  Stamps stamps{options.rounds};
  for (std::uint64_t i = 1; i <= options.rounds; ++i) {
    auto const turn = static_cast<std::byte>(i);
    if (end.near) {
      stamps.take();
      LEND_TRYV(write(turn));
    }
    while (*arrived != turn) continue;
    if (!end.near) {
      LEND_TRYV(write(turn));
    }
  }
  if (end.near) stamps.take();
  return end.near ? stamps.in_us(2) : Latency{};
}

Result<Latency> read_rounds(End& end, Options const& options) {
  LEND_TRYV(end.meet());
  if (!end.near) return Latency{};
  Poster poster{end.channel, options.via};
  Stamps stamps{options.rounds};
  for (std::uint64_t i = 0; i < options.rounds; ++i) {
    stamps.take();
    Read const work{end.memory.scatter(0, options.bytes), end.remote.slice(0, options.bytes)};
    if (options.via == "blocking") {
      LEND_TRYV(end.channel.read(work));
      continue;
    }
    LEND_TRY(pending, poster.read(work));
    LEND_TRYV(pending.wait());
  }
  stamps.take();
  return stamps.in_us(1);
}

Result<void> run(Options const& options) {
  PairOptions pair;
  pair.cpus = {0, 1};
  pair.device =
      options.device == "soft" ? DeviceChoice::soft() : DeviceChoice::named(options.device);
  pair.channel.wait = Wait::spin;
  pair.channel.queue_pair.inline_bytes = options.operation == "send"    ? inline_send
                                         : options.operation == "write" ? inline_write
                                                                        : 0;
  Latency latency;
  LEND_TRYV(
      run_pair(pair, std::as_writable_bytes(std::span{&latency, 1}), [&](End& end) -> Result<void> {
        auto const rounds = options.operation == "write"  ? write_rounds
                            : options.operation == "read" ? read_rounds
                            : options.via == "blocking"   ? blocking_send_rounds
                                                          : send_rounds;
        LEND_TRY(measured, rounds(end, options));
        latency = measured;
        return success();
      }));
  std::printf("%.3f us median, %.3f us lowest tenth\n", latency.median, latency.lowest_tenth);
  return success();
}

std::optional<Options> parse(std::vector<std::string_view> const& arguments) {
  auto const is_one_of = [](std::string_view text, std::initializer_list<std::string_view> all) {
    return std::ranges::find(all, text) != all.end();
  };
  if (arguments.size() != 5 || !is_one_of(arguments[1], {"send", "write", "read"}) ||
      !is_one_of(arguments[2], {"blocking", "scoped", "unsafe"}))
    return {};
  Options options{std::string{arguments[0]}, arguments[1], arguments[2]};
  auto const number = [](std::string_view text, auto& value) {
    return std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc{};
  };
  if (!number(arguments[3], options.bytes) || !number(arguments[4], options.rounds)) return {};
  if (options.bytes == 0 || options.bytes > incoming / receives || options.rounds == 0) return {};
  return options;
}

}  // namespace

int main(int count, char** arguments) {
  auto const options = parse({arguments + 1, arguments + count});
  if (!options) {
    std::fputs("latency DEVICE send|write|read blocking|scoped|unsafe BYTES ROUNDS\n", stderr);
    return 2;
  }
  auto const done = run(*options);
  if (!done) std::fprintf(stderr, "latency: %s\n", done.error().message().c_str());
  return done ? 0 : 1;
}
