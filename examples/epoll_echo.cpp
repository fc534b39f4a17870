// SPDX-License-Identifier: MIT OR Apache-2.0
// One event loop: three channels by the one descriptor of their set, beside a timer and a pipe.
// Clients on another thread send words, which come back; the last one through writes to the pipe.
#include <lend/lend.hpp>

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

constexpr std::size_t clients = 3, words = 5, word_bytes = 16;

/// A client's channel with the server's end of it.
struct Pair {
  lend::Channel server, client;
};

static lend::Result<Pair> connect(lend::ProtectionDomain const& domain, lend::WaitSet& set,
                                  std::uint64_t tag) {
  auto const begun = lend::channel_builder().protection_domain(domain);
  LEND_TRY(one, begun.wait_set(set, tag).build());
  LEND_TRY(other, begun.build());
  lend::Endpoint const peer = one.endpoint();
  LEND_TRY(server, std::move(one).handshake(other.endpoint()));
  LEND_TRY(client, std::move(other).handshake(peer));
  return Pair{std::move(server), std::move(client)};
}

/// Sends each word and waits for its echo, on every channel in turn.
static lend::Result<void> talk(std::vector<Pair>& pairs, lend::MemoryRegion& memory) {
  for (std::size_t i = 0; i < clients * words; ++i) {
    lend::PollingScope scope{pairs[i % clients].client};
    LEND_TRY(echo, scope.post_receive(memory.scatter(word_bytes, word_bytes)));
    LEND_TRYV(scope.post_send(memory.gather(0, word_bytes)));
    LEND_TRYV(echo.wait(lend::within(10s)));
    LEND_TRYV(scope.finish());
  }
  return lend::success();
}

/// Serves until the pipe says that the clients are done.
static lend::Result<void> serve(lend::WaitSet& set, std::vector<Pair>& pairs,
                                lend::MemoryRegion& memory, int loop, int timer, int done) {
  lend::SetScope scope{set};
  scope.drain_within(0ms);  // the last receives stay unanswered
  std::vector<lend::PendingWork> arrivals;
  for (std::size_t tag = 0; tag < clients; ++tag) {
    LEND_TRY(channel, scope.on(pairs[tag].server));
    LEND_TRY(arrival, channel->post_receive(memory.scatter(tag * word_bytes, word_bytes)));
    arrivals.push_back(std::move(arrival));
  }
  std::array<lend::Ready, clients> room;
  std::array<epoll_event, 3> events;
  std::array<std::size_t, clients> echoed{};
  bool has_ticked = false;
  for (bool is_done = false; !is_done;) {
    LEND_TRY(ready, set.poll(room));
    for (lend::Ready const& one : ready) {
      if (one.what == lend::Ready::What::device) continue;  // of no client
      LEND_TRY(channel, scope.on(pairs[one.tag].server));
      LEND_TRY(arrived, arrivals[one.tag].poll());
      if (!arrived) continue;  // the news were of the echo that was sent
      auto const offset = one.tag * word_bytes;
      LEND_TRY(echo, channel->post_send(memory.gather(offset, arrived->bytes)));
      LEND_TRYV(echo.wait(lend::within(10s)));
      LEND_TRY(next, channel->post_receive(memory.scatter(offset, word_bytes)));
      arrivals[one.tag] = std::move(next);
      ++echoed[one.tag];
    }
    LEND_TRY(may_sleep, set.arm());
    int const count = ::epoll_wait(loop, events.data(), events.size(), may_sleep ? -1 : 0);
    for (int i = 0; i < count; ++i) {
      is_done = is_done || events[std::size_t(i)].data.fd == done;
      if (events[std::size_t(i)].data.fd != timer) continue;
      std::uint64_t ticks = 0;
      has_ticked = ::read(timer, &ticks, sizeof ticks) > 0;
    }
  }
  for (std::size_t tag = 0; tag < clients; ++tag)
    std::cout << "client " << tag << ": " << echoed[tag] << " words echoed\n";
  if (has_ticked) std::cout << "and the timer ticked\n";
  return lend::success();
}

static lend::Result<void> echo_by_epoll() {
  LEND_TRY(device, lend::open_device());
  LEND_TRY(domain, device.allocate_protection_domain());
  LEND_TRY(at_server, domain.allocate(clients * word_bytes));
  LEND_TRY(at_clients, domain.allocate(2 * word_bytes));
  LEND_TRY(set, lend::WaitSet::create(device));
  std::vector<Pair> pairs;
  for (std::uint64_t tag = 0; tag < clients; ++tag) {
    LEND_TRY(pair, connect(domain, set, tag));
    pairs.push_back(std::move(pair));
  }
  std::array<int, 2> done{};
  int const loop = ::epoll_create1(EPOLL_CLOEXEC);
  int const timer = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  if (::pipe(done.data()) != 0 || loop < 0 || timer < 0) return lend::Errc::exhausted;
  itimerspec const once{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_nsec = 1000}};
  ::timerfd_settime(timer, 0, &once, nullptr);
  for (int const descriptor : {set.descriptor(), timer, done[0]}) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = descriptor}};
    ::epoll_ctl(loop, EPOLL_CTL_ADD, descriptor, &event);
  }

  lend::Result<void> talked = lend::success();
  std::jthread const talking{[&] {
    talked = talk(pairs, at_clients);
    static_cast<void>(!::write(done[1], "!", 1));
  }};
  return serve(set, pairs, at_server, loop, timer, done[0]);
}

int main() {
  auto const result = echo_by_epoll();
  if (!result) std::cerr << "epoll_echo: " << result.error().describe() << '\n';
  return result ? 0 : 1;
}
