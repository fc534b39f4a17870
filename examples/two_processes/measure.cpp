// SPDX-License-Identifier: MIT OR Apache-2.0
// A few rounds choose how many to measure; then these are timed. One thread per side.
#include "measure.hpp"

#include <algorithm>
#include <vector>

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;
using Microseconds = std::chrono::duration<double, std::micro>;

namespace {

constexpr std::uint64_t rounds_probed = 50, rounds_max = 5500;
constexpr Seconds rounds_length{0.2};
constexpr std::uint64_t messages_probed = 8, messages_max = 100'000;
constexpr Seconds stream_length{0.1};

lend::Result<Seconds> time_stream(Line& line, std::size_t message_bytes, std::uint64_t messages) {
  LEND_TRYV(say(line, "stream " + std::to_string(message_bytes) + ' ' + std::to_string(messages)));
  auto const started = Clock::now();
  LEND_TRYV(send_stream(line, Stream{messages * message_bytes, message_bytes},
                        [](auto) -> lend::Result<void> { return lend::success(); }));
  LEND_TRYV(hear(line));  // all of them have arrived
  return Clock::now() - started;
}

/// The median of `rounds`, less the first tenth of them.
lend::Result<Microseconds> time_rounds(Line& line, std::size_t message_bytes,
                                       std::uint64_t rounds) {
  LEND_TRYV(say(line, "rounds " + std::to_string(message_bytes) + ' ' + std::to_string(rounds)));

  std::vector<Microseconds> halves;
  halves.reserve(rounds);
  LEND_TRYV(line.channel.scope([&](lend::PollingScope& scope) -> lend::Result<void> {
    scope.drain_within(patience);
    for (std::uint64_t round = 0; round < rounds; ++round) {
      LEND_TRY(answer, scope.post_receive(line.memory.scatter(line_bytes / 2, message_bytes)));
      auto const started = Clock::now();
      LEND_TRYV(scope.post_send(line.memory.gather(0, message_bytes)));
      LEND_TRYV(answer.wait(lend::until(started + patience)));
      if (round >= rounds / 10) halves.emplace_back((Clock::now() - started) / 2.0);
    }
    return lend::success();
  }));

  auto const middle = halves.begin() + std::ptrdiff_t(halves.size() / 2);
  std::nth_element(halves.begin(), middle, halves.end());
  return *middle;
}

}  // namespace

lend::Result<Microseconds> half_round_trip(Line& line, std::size_t message_bytes) {
  LEND_TRY(probe, time_rounds(line, message_bytes, rounds_probed));
  auto const wanted = rounds_length / (2 * probe);
  return time_rounds(line, message_bytes,
                     std::clamp(std::uint64_t(wanted), rounds_probed, rounds_max));
}

lend::Result<void> answer_rounds(Line& line, std::size_t message_bytes, std::uint64_t rounds) {
  return line.channel.scope([&](lend::PollingScope& scope) -> lend::Result<void> {
    scope.drain_within(patience);
    LEND_TRY(arrival, scope.post_receive(line.memory.scatter(line_bytes / 2, message_bytes)));
    for (std::uint64_t round = 1;; ++round) {
      LEND_TRYV(arrival.wait(lend::within(patience)));
      if (round < rounds) {  // the next receive is posted before the answer goes out
        LEND_TRY(next, scope.post_receive(line.memory.scatter(line_bytes / 2, message_bytes)));
        arrival = std::move(next);
      }
      LEND_TRYV(scope.post_send(line.memory.gather(0, message_bytes)));
      if (round >= rounds) return lend::success();
    }
  });
}

lend::Result<double> bandwidth(Line& line, std::size_t message_bytes) {
  LEND_TRY(probe, time_stream(line, message_bytes, messages_probed));
  auto const wanted = double(messages_probed) * (stream_length / probe);
  auto const messages = std::clamp(std::uint64_t(wanted), messages_probed, messages_max);
  LEND_TRY(took, time_stream(line, message_bytes, messages));
  return double(messages * message_bytes) / took.count();
}

lend::Result<void> take_messages(Line& line, std::size_t message_bytes, std::uint64_t messages) {
  LEND_TRYV(receive_stream(line, Stream{messages * message_bytes, message_bytes}, [](auto) {}));
  return say(line, "taken");
}
