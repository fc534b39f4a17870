// SPDX-License-Identifier: MIT OR Apache-2.0
// Wait sets between processes, by the clock, in one JSON line for each figure:
//   wake     how long a sleeping receiver takes from the send to its return: by Wait::event on one
//            channel, and by a set beside `idle` channels
//   traffic  messages a second that one thread echoes by set and pool, for all channels of 8
//            processes that talk all the time: 8 channels, and 64
// Medians of runs in turn. Usage: set_rates [--runs N] [--idle N]
#include "number.hpp"

#include <lend/lend.hpp>

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using namespace lend;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::size_t message = 64;
constexpr std::size_t processes = 8;
constexpr std::size_t wakes = 200;
constexpr auto patience = 10s;

struct Options {
  std::uint64_t runs = 5;
  std::uint64_t idle = 1000;
};

std::int64_t now() {
  return Clock::now().time_since_epoch().count();
}

template <class Value>
Value median(std::vector<Value> values) {
  std::ranges::nth_element(values, values.begin() + std::ptrdiff_t(values.size() / 2));
  return values[values.size() / 2];
}

/// Sends this end's endpoint over the socket and takes the peer's.
Result<Channel> connect(int socket, PreparedChannel prepared) {
  auto const own = prepared.endpoint().encode();
  std::array<std::byte, Endpoint::encoded_size> theirs;
  if (send(socket, own.data(), own.size(), MSG_NOSIGNAL) != ssize_t(own.size()) ||
      recv(socket, theirs.data(), theirs.size(), MSG_WAITALL) != ssize_t(theirs.size()))
    return Error{Errc::peer_lost, "the other process has ended"};
  LEND_TRY(peer, Endpoint::decode(theirs));
  return std::move(prepared).handshake(peer);
}

/// Runs `body` in processes of their own, each with a socket to this one, and `own` here.
Result<void> beside(std::size_t count, std::function<Result<void>(int)> const& body,
                    std::function<Result<void>(std::vector<int> const&)> const& own) {
  std::vector<int> sockets;
  std::vector<pid_t> children;
  std::fflush(nullptr);
  for (std::size_t i = 0; i < count; ++i) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return Errc::exhausted;
    children.push_back(fork());
    if (children.back() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (int const socket : sockets) close(socket);
      close(ends[0]);
      auto const done = body(ends[1]);
      if (!done) std::fprintf(stderr, "set_rates: %s\n", done.error().message().c_str());
      _exit(done ? 0 : 1);
    }
    close(ends[1]);
    sockets.push_back(ends[0]);
  }
  auto result = own(sockets);
  for (int const socket : sockets) close(socket);
  for (pid_t const child : children) {
    int status = 1;
    waitpid(child, &status, 0);
    if (status != 0 && result.has_value()) result = Error{Errc::system_failed, "a process failed"};
  }
  return result;
}

// ---- wake ----

/// Sends the time at which it sends, on the two channels in turn, to a receiver that sleeps.
Result<void> send_times(int socket) {
  LEND_TRY(device, open_device(DeviceChoice::soft()));
  LEND_TRY(domain, device.allocate_protection_domain());
  LEND_TRY(memory, domain.allocate(message));
  std::vector<Channel> channels;
  for (int i = 0; i < 2; ++i) {
    LEND_TRY(prepared, channel_builder().protection_domain(domain).build());
    LEND_TRY(channel, connect(socket, std::move(prepared)));
    channels.push_back(std::move(channel));
  }
  for (std::size_t i = 0; i < 2 * wakes; ++i) {
    std::this_thread::sleep_for(2ms);
    auto const time = now();
    LEND_TRY(bytes, memory.mutable_bytes(0, sizeof time));
    std::memcpy(bytes.data(), &time, sizeof time);
    LEND_TRYV(channels[i % 2].send(memory.gather(0, sizeof time), within(patience)));
  }
  return success();
}

Result<void> measure_wakes(int socket, std::uint64_t idle, std::array<double, 2>& medians) {
  LEND_TRY(device, open_device(DeviceChoice::soft()));
  LEND_TRY(domain, device.allocate_protection_domain());
  LEND_TRY(memory, domain.allocate(message));
  LEND_TRY(set, WaitSet::create(device, Wait::event));
  LEND_TRY(lone_prepared, channel_builder().protection_domain(domain).wait(Wait::event).build());
  LEND_TRY(lone, connect(socket, std::move(lone_prepared)));
  LEND_TRY(prepared, channel_builder().protection_domain(domain).wait_set(set, 1).build());
  LEND_TRY(in_set, connect(socket, std::move(prepared)));
  std::vector<Channel> others;
  for (std::uint64_t i = 0; i < idle; ++i) {
    LEND_TRY(other, channel_builder().protection_domain(domain).wait_set(set, 2).build());
    auto const itself = other.endpoint();
    LEND_TRY(channel, std::move(other).handshake(itself));
    others.push_back(std::move(channel));
  }
  std::array<std::vector<double>, 2> took;
  auto const note = [&](std::size_t which) -> Result<void> {
    auto const received = now();
    std::int64_t sent = 0;
    LEND_TRY(bytes, memory.bytes(0, sizeof sent));
    std::memcpy(&sent, bytes.data(), sizeof sent);
    took[which].push_back(double(received - sent) / 1e3);
    return success();
  };
  std::array<Ready, 4> room;
  for (std::size_t i = 0; i < wakes; ++i) {
    LEND_TRYV(lone.receive(memory.scatter(0, sizeof(std::int64_t)), within(patience)));
    LEND_TRYV(note(0));
    PollingScope scope{in_set};
    LEND_TRY(receive, scope.post_receive(memory.scatter(0, sizeof(std::int64_t))));
    for (;;) {
      LEND_TRY(ready, set.wait(room, within(patience)));
      static_cast<void>(ready);
      LEND_TRY(done, receive.poll());
      if (done) break;
    }
    LEND_TRYV(note(1));
    LEND_TRYV(scope.finish());
  }
  for (std::size_t which = 0; which < 2; ++which) medians[which] = median(took[which]);
  return success();
}

// ---- traffic ----

/// `count` channels, each with one message under way at a time, `rounds` in all.
Result<void> talk(int socket, std::size_t count, std::size_t rounds) {
  LEND_TRY(device, open_device(DeviceChoice::soft()));
  LEND_TRY(domain, device.allocate_protection_domain());
  LEND_TRY(memory, domain.allocate((1 + count) * message));
  std::vector<Channel> channels;
  std::deque<PollingScope> scopes;
  for (std::size_t i = 0; i < count; ++i) {
    LEND_TRY(prepared, channel_builder().protection_domain(domain).build());
    LEND_TRY(channel, connect(socket, std::move(prepared)));
    channels.push_back(std::move(channel));
  }
  for (auto& channel : channels) scopes.emplace_back(channel);
  std::vector<PendingWork> echoes;
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < count; ++i) {
      LEND_TRY(echo, scopes[i].post_receive(memory.scatter((1 + i) * message, message)));
      echoes.push_back(std::move(echo));
      LEND_TRYV(scopes[i].post_send(memory.gather(0, message)));
    }
    for (auto& echo : echoes) {
      LEND_TRYV(echo.wait(within(patience)));
    }
    echoes.clear();
  }
  for (auto& scope : scopes) {
    LEND_TRYV(scope.finish());
  }
  return success();
}

/// Echoes all of them; messages a second.
Result<double> serve(std::vector<int> const& sockets, std::size_t each, std::size_t rounds) {
  std::size_t const count = sockets.size() * each;
  LEND_TRY(device, open_device(DeviceChoice::soft()));
  LEND_TRY(domain, device.allocate_protection_domain());
  LEND_TRY(memory, domain.allocate(2 * count * message));
  LEND_TRY(set, WaitSet::create(device));
  LEND_TRY(pool, ReceivePool::create(set, memory.chunks(message)));
  std::vector<Channel> channels;
  for (std::size_t i = 0; i < count; ++i) {
    LEND_TRY(
        prepared,
        channel_builder().protection_domain(domain).wait_set(set, i).receive_pool(pool).build());
    LEND_TRY(channel, connect(sockets[i / each], std::move(prepared)));
    channels.push_back(std::move(channel));
  }
  SetScope scope{set};
  std::array<Ready, 64> room;
  std::size_t left = count * rounds;
  auto const started = Clock::now();
  while (left > 0) {
    LEND_TRYV(lend::without_value(set.wait(room, within(patience))));
    while (auto const came = pool.next()) {
      LEND_TRY(on, scope.on(channels[came->tag()]));
      LEND_TRYV(on->post_send(came->gather()));
      --left;
    }
  }
  LEND_TRYV(scope.finish());
  std::chrono::duration<double> const took = Clock::now() - started;
  return double(count * rounds) / took.count();
}

Result<void> measure(Options const& options) {
  std::array<std::vector<double>, 2> wake, traffic;
  constexpr std::array<std::size_t, 2> channels{processes, 64};
  for (std::uint64_t run = 0; run < options.runs; ++run) {
    std::array<double, 2> medians{};
    LEND_TRYV(beside(1, send_times, [&](std::vector<int> const& sockets) {
      return measure_wakes(sockets[0], options.idle, medians);
    }));
    for (std::size_t which = 0; which < 2; ++which) {
      wake[which].push_back(medians[which]);
      std::size_t const each = channels[which] / processes, rounds = 16'000 / channels[which];
      LEND_TRYV(beside(
          processes, [&](int socket) { return talk(socket, each, rounds); },
          [&](std::vector<int> const& sockets) -> Result<void> {
            LEND_TRY(rate, serve(sockets, each, rounds));
            traffic[which].push_back(rate);
            return success();
          }));
    }
  }
  std::printf("{\"figure\": \"wake\", \"idle\": %llu, \"channel_us\": %.1f, \"set_us\": %.1f}\n",
              static_cast<unsigned long long>(options.idle), median(wake[0]), median(wake[1]));
  std::printf(
      "{\"figure\": \"traffic\", \"channels_8_per_s\": %.0f, \"channels_64_per_s\": %.0f}\n",
      median(traffic[0]), median(traffic[1]));
  return success();
}

}  // namespace

int main(int count, char** words) {
  Options options;
  for (int i = 1; i < count; i += 2) {
    std::string_view const word{words[i]};
    bool const has_number = i + 1 < count;
    if (!(word == "--runs" && has_number && bench::parse_number(words[i + 1], options.runs) &&
          options.runs > 0) &&
        !(word == "--idle" && has_number && bench::parse_number(words[i + 1], options.idle))) {
      std::fputs("set_rates [--runs N] [--idle N]\n", stderr);
      return 2;
    }
  }
  if (auto const done = measure(options); !done) {
    std::fprintf(stderr, "set_rates: %s\n", done.error().message().c_str());
    return 1;
  }
  return 0;
}
