// SPDX-License-Identifier: MIT OR Apache-2.0
// A server in one event loop, with any number of clients at one port: one thread accepts them by
// the listener's descriptor, serves each by its own, and sends back what they say.
//
//   epoll_echo serve 127.0.0.1:7471     until it is killed
//   epoll_echo ask 127.0.0.1:7471 100   100 clients in one thread, each with five words
//   epoll_echo                          both, with 100 clients, on two threads of one process
#include <lend/lend.hpp>
#include <lend/transport/connect.hpp>
#include <lend/transport/waiting.hpp>

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

constexpr std::size_t words = 5;
constexpr auto patience = 30s;

static bool watch(int loop, int descriptor, std::uint64_t what) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = what}};
  return ::epoll_ctl(loop, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

// ---- the server ----

struct Client {
  lend::AnyTransport transport;
  std::size_t echoed = 0;
  bool has_finished = false;
};

/// Sends back what has come, as far as the client has room. False: it is done.
static lend::Result<bool> serve(Client& client) {
  LEND_TRYV(lend::without_value(client.transport.poll()));
  while (!client.has_finished) {
    // Room for the longest word; a client that takes shorter ones than it may send is refused.
    auto const longest = client.transport.limits().receive_bytes_max;
    LEND_TRY(draft, client.transport.try_draft(longest, longest));
    if (!draft) return true;  // there is news when it has room
    LEND_TRY(word, client.transport.try_receive());
    if (!word) return true;
    client.has_finished = word.is_end();
    if (client.has_finished) break;
    std::memcpy(draft.bytes().data(), word.bytes().data(), word.bytes().size());
    LEND_TRYV(std::move(draft).send(word.bytes().size()));
    ++client.echoed;
  }
  LEND_TRYV(client.transport.finish_sending());
  return client.transport.sends_in_flight() > 0;  // there is news when it has got all
}

/// The same, until it is safe to sleep on the client's descriptor.
static lend::Result<bool> serve_until_silent(Client& client) {
  for (;;) {
    LEND_TRY(goes_on, serve(client));
    if (!goes_on) return false;
    LEND_TRY(may_sleep, client.transport.arm());
    if (may_sleep) return true;
  }
}

/// Until so many clients are done.
static lend::Result<void> serve(lend::TransportListener& listener,
                                lend::ProtectionDomain const& domain, std::size_t clients) {
  LEND_TRYV(
      listener.begin(domain, [](lend::Arrival const&) -> lend::Result<lend::TransportOptions> {
        return lend::TransportOptions{.wait = lend::Wait::event};  // which has a descriptor
      }));
  int const loop = ::epoll_create1(EPOLL_CLOEXEC);
  if (loop < 0 || !watch(loop, listener.descriptor(), 0)) return lend::Errc::exhausted;
  std::map<std::uint64_t, Client> served;
  std::vector<std::uint64_t> has_news;
  std::size_t done = 0, echoed = 0, most = 0;
  std::array<epoll_event, 64> events;
  int count = 0;
  std::chrono::steady_clock::time_point next_look{};
  while (done < clients) {
    // excerpt accept
    for (;;) {
      auto polled = listener.poll();
      if (!polled && polled.error() == lend::Errc::exhausted) break;  // until there is memory again
      LEND_TRY(accepted, std::move(polled));
      if (!accepted) break;
      LEND_TRY(descriptor, accepted->made.descriptor());
      if (!watch(loop, descriptor, accepted->id)) return lend::Errc::exhausted;
      auto const added = served.emplace(accepted->id, Client{std::move(accepted->made)});
      has_news.push_back(added.first->first);  // its first word may have come before
    }
    // end of excerpt
    most = std::max(most, served.size());
    for (int at = 0; at < count; ++at) has_news.push_back(events[std::size_t(at)].data.u64);
    // Also those whose peers may have died without a word.
    if (auto const now = std::chrono::steady_clock::now(); now >= next_look) {
      next_look = now + 500ms;
      for (auto const& one : served) has_news.push_back(one.first);
    }
    for (std::uint64_t const id : std::exchange(has_news, {})) {
      auto const at = served.find(id);
      if (at == served.end()) continue;  // the listener, or one that is done
      auto const goes_on = serve_until_silent(at->second);
      if (!goes_on) std::cerr << "client " << id << ": " << goes_on.error().message() << '\n';
      if (goes_on && goes_on.value()) continue;
      echoed += at->second.echoed;
      served.erase(at);
      ++done;
    }
    count = done < clients ? ::epoll_wait(loop, events.data(), events.size(), 500) : 0;
  }
  ::close(loop);
  // One text, because the thread of the clients may print, too.
  std::cout << "one thread echoed " + std::to_string(echoed) + " words of " + std::to_string(done) +
                   " clients, at most " + std::to_string(most) + " at a time\n";
  return lend::success();
}

// ---- the clients ----

/// Connects so many at the same time, in one loop.
static lend::Result<std::vector<lend::AnyTransport>> connect(std::string const& address,
                                                             lend::ProtectionDomain const& domain,
                                                             std::size_t clients) {
  std::vector<lend::TransportConnecting> connecting;
  std::vector<lend::AnyTransport> made;
  int const loop = ::epoll_create1(EPOLL_CLOEXEC);
  for (std::size_t at = 0; at < clients; ++at) {
    LEND_TRY(begun, lend::TransportConnecting::begin(address, domain, {}, lend::within(patience)));
    if (!watch(loop, begun.descriptor(), at)) return lend::Errc::exhausted;
    connecting.push_back(std::move(begun));
  }
  std::array<epoll_event, 64> events;
  while (made.size() < clients) {
    int const count = ::epoll_wait(loop, events.data(), events.size(), -1);
    for (int at = 0; at < count; ++at) {
      LEND_TRY(connected, connecting[events[std::size_t(at)].data.u64].advance());
      if (connected) made.push_back(*std::move(connected));
    }
  }
  ::close(loop);
  return made;
}

static lend::Result<void> ask(std::string const& address, lend::ProtectionDomain const& domain,
                              std::size_t clients) {
  LEND_TRY(transports, connect(address, domain, clients));
  std::string const word = "echo";
  std::size_t right = 0;
  for (std::size_t round = 0; round < words; ++round) {
    for (auto& one : transports) {
      LEND_TRYV(lend::send_message(one, std::as_bytes(std::span{word}), lend::within(patience)));
    }
    for (auto& one : transports) {
      LEND_TRY(echo, lend::receive_message(one, lend::within(patience)));
      if (std::ranges::equal(echo.bytes(), std::as_bytes(std::span{word}))) ++right;
    }
  }
  for (auto& one : transports) {
    LEND_TRYV(lend::finish(one, lend::within(patience)));
  }
  std::cout << std::to_string(clients) + " clients heard " + std::to_string(right) +
                   " words again\n";
  return lend::success();
}

static lend::Result<void> run(std::span<char* const> arguments) {
  std::string_view const mode = arguments.size() > 1 ? arguments[1] : "";
  std::string const address = arguments.size() > 2 ? arguments[2] : "127.0.0.1:0";
  std::size_t const clients = arguments.size() > 3 ? std::strtoul(arguments[3], nullptr, 10) : 100;
  LEND_TRY(device, lend::open_device());
  LEND_TRY(domain, device.allocate_protection_domain());
  if (mode == "ask") return ask(address, domain, clients);
  LEND_TRY(listener, lend::TransportListener::open(address));
  if (mode == "serve") {
    std::cout << "serving at " << listener.address() << std::endl;
    return serve(listener, domain, arguments.size() > 3 ? clients : SIZE_MAX);
  }
  lend::Result<void> served = lend::success();
  std::jthread serving{[&] { served = serve(listener, domain, clients); }};
  auto const asked = ask(listener.address(), domain, clients);
  if (!asked) {
    std::cerr << "epoll_echo: " << asked.error().describe() << std::endl;
    std::_Exit(1);  // the server waits for clients that do not come
  }
  serving.join();
  return served;
}

int main(int count, char** arguments) {
  auto const result = run(std::span{arguments, std::size_t(count)});
  if (!result) std::cerr << "epoll_echo: " << result.error().describe() << '\n';
  return result ? 0 : 1;
}
