// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: one thread serves many channels by a set: it learns of each who has news, sleeps only when
// nobody has, and what becomes of one channel touches no other. Method: servers in a set, clients
// outside, all in one process.
#include "support/two_ends.hpp"

#include <lend/soft/faults.hpp>

#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <optional>
#include <thread>
#include <vector>

#include "support/arrivals.hpp"
#include "support/few_descriptors.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

/// A set with servers, each connected to a client that is not in it. The memory is for all.
struct SetServed {
  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  MemoryRegion memory = must(domain.allocate(65536));
  WaitSet set;
  std::vector<Channel> servers{}, clients{};
  std::array<Ready, 64> room{};

  explicit SetServed(std::size_t count, Wait how = Wait::adaptive)
      : set{must(WaitSet::create(context, how))} {
    for (std::size_t i = 0; i < count; ++i) add(100 + i);
  }

  /// Server and client with `tag`.
  void add(std::uint64_t tag, std::chrono::nanoseconds keep_alive = 0ns) {
    ChannelOptions options = options_with_depth(8);
    ChannelOptions in_set = options;
    in_set.wait_set = &set;
    in_set.tag = tag;
    in_set.keep_alive = keep_alive;
    auto [server, client] = connected(domain, in_set, options);
    servers.push_back(std::move(server));
    clients.push_back(std::move(client));
  }
  /// Where the server or client `i` has its eight bytes.
  [[nodiscard]] ScatterElement at(std::size_t i) { return memory.scatter(8 * i, 8); }
  void send_from(std::size_t client) {
    must(clients[client].send(memory.gather(65536 - 8, 8), within(10s)));
  }
  /// The tags with news, sorted; those that come within `patience`.
  std::vector<std::uint64_t> news(std::chrono::nanoseconds patience = 10s) {
    std::vector<std::uint64_t> tags;
    auto const ready = set.wait(room, within(patience));
    if (!ready.has_value()) return tags;
    for (Ready const& one : ready.value()) tags.push_back(one.tag);
    std::ranges::sort(tags);
    return tags;
  }
  /// Sleeps as an event loop does until there is news. False after 10 s.
  [[nodiscard]] bool sleep_until_ready() {
    while (must(set.arm())) {
      pollfd wait{set.descriptor(), POLLIN, 0};
      if (::poll(&wait, 1, 10'000) != 1) return false;
      return true;
    }
    return true;
  }
};

using Tags = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("a wait that ends by its own message leaves the news of the set's other channels",
          "[channel]") {
  SetServed served{2};
  PollingScope a{served.servers[0]}, b{served.servers[1]};
  auto first = must(a.post_receive(served.at(0)));
  auto second = must(b.post_receive(served.at(1)));
  served.send_from(0);
  served.send_from(1);
  CHECK(must(second.wait(within(10s))).bytes == 8);
  // Where the first message came after the second one, that one's news is left, too.
  CHECK(std::ranges::count(served.news(), 100u) == 1);
  CHECK(must(first.wait(within(10s))).bytes == 8);
}

TEST_CASE("a set lists each channel with news once, and the next time those without room",
          "[channel]") {
  SetServed served{3};
  std::vector<PendingWork> arrivals;
  PollingScope a{served.servers[0]}, b{served.servers[1]}, c{served.servers[2]};
  for (PollingScope* const scope : {&a, &a, &b, &c})
    arrivals.push_back(must(scope->post_receive(served.at(arrivals.size()))));
  CHECK(must(served.set.poll(served.room)).empty());

  served.send_from(1);
  CHECK(served.news() == Tags{101});
  served.send_from(0);
  served.send_from(0);
  served.send_from(2);
  // Two completions of one channel are one line of news.
  std::array<Ready, 1> one{};
  Tags tags;
  while (tags.size() < 2) {
    for (Ready const& ready : must(served.set.wait(one, within(10s)))) {
      CHECK(ready.what == Ready::What::work);
      tags.push_back(ready.tag);
    }
  }
  std::ranges::sort(tags);
  CHECK(tags == Tags{100, 102});
  for (auto& arrival : arrivals) CHECK(must(arrival.wait(within(10s))).bytes == 8);
  static_cast<void>(served.set.poll(served.room));
  CHECK(error_of(served.set.wait(served.room, within(1ms))) == Errc::timed_out);
}

TEST_CASE("what a wait on one channel saw for another is news of the set", "[channel]") {
  SetServed served{2};
  PollingScope a{served.servers[0]}, b{served.servers[1]};
  auto of_a = must(a.post_receive(served.at(0)));
  auto of_b = must(b.post_receive(served.at(1)));
  served.send_from(0);
  served.send_from(1);
  CHECK(must(of_b.wait(within(10s))).bytes == 8);

  CHECK_FALSE(must(served.set.arm()));
  auto const tags = served.news();
  CHECK(std::ranges::count(tags, 100u) == 1);
  CHECK(must(of_a.poll()).has_value());
}

TEST_CASE("no arrival is lost by a set that sleeps whenever arm() allows it", "[channel]") {
  SetServed served{3};
  std::size_t const rounds = arrivals_to_take(served.context);
  std::array<std::optional<PendingWork>, 3> arrivals;
  std::array<std::optional<PollingScope>, 3> scopes;
  // How many receives were posted: not every device lets a message wait for one.
  std::array<std::atomic<std::size_t>, 3> receives{1, 1, 1};
  for (std::size_t i = 0; i < 3; ++i) {
    scopes[i].emplace(served.servers[i]);
    arrivals[i].emplace(must(scopes[i]->post_receive(served.at(i))));
  }
  std::atomic<bool> is_over = false;
  // No assertion in here: two threads run it. At most one message a client is on its way.
  auto sender = std::async(std::launch::async, [&] {
    for (std::size_t i = 0; i < rounds; ++i) {
      while (receives[i % 3].load() <= i / 3 && !is_over.load()) std::this_thread::yield();
      if (!served.clients[i % 3].send(served.memory.gather(4096, 8), within(20s)).has_value())
        return false;
    }
    return true;
  });
  std::size_t taken = 0;
  while (taken < rounds) {
    if (!served.sleep_until_ready()) break;
    for (Ready const& ready : must(served.set.poll(served.room))) {
      std::size_t const i = ready.tag - 100;
      while (must(arrivals[i]->poll()).has_value()) {
        ++taken;
        arrivals[i].emplace(must(scopes[i]->post_receive(served.at(i))));
        ++receives[i];
      }
    }
  }
  is_over = true;
  CHECK(taken == rounds);
  CHECK(sender.get());
  arrivals = {};
  for (auto& scope : scopes) scope->drain_within(0ms);
}

TEST_CASE("any thread wakes a set, before it sleeps or while it does", "[channel]") {
  SetServed served{1};
  served.set.wake();
  CHECK_FALSE(must(served.set.arm()));
  CHECK(must(served.set.wait(served.room, within(10s))).empty());
  CHECK(must(served.set.arm()));
  served.set.wake();
  pollfd wait{served.set.descriptor(), POLLIN, 0};
  CHECK(::poll(&wait, 1, 0) == 1);
  CHECK(must(served.set.poll(served.room)).empty());

  for (int round = 0; round < 200; ++round) {
    std::thread other{[&] { served.set.wake(); }};
    auto const woken = served.set.wait(served.room, within(10s));
    other.join();
    CHECK(must(woken).empty());
  }
}

TEST_CASE("a channel that breaks is listed as broken, and the set's others go on", "[channel]") {
  SetServed served{2};
  PollingScope failing{served.servers[0]}, going_on{served.servers[1]};
  auto arrival = must(going_on.post_receive(served.at(2)));
  // A write that the peer refuses, or, where nobody tells of that, a message that does not fit.
  bool const writes = served.context.capabilities().acknowledges;
  auto refused = writes ? must(failing.post_write({served.memory.gather(0, 8), nobody(8)}))
                        : must(failing.post_receive(served.memory.scatter(0, 4)));
  if (!writes) served.send_from(0);
  auto const ready = must(served.set.wait(served.room, within(10s)));
  REQUIRE(ready.size() == 1);
  CHECK(ready[0].tag == 100);
  CHECK(ready[0].what == Ready::What::broken);
  CHECK(error_of(refused.wait()) == Errc::work_failed);
  static_cast<void>(failing.finish());
  REQUIRE(served.servers[0].first_cause() != nullptr);

  // It is prepared again in the same set, or goes.
  CHECK(must(std::move(served.servers[0]).prepare_again()).endpoint().queue_pair_number.value() !=
        0);
  served.send_from(1);
  CHECK(served.news() == Tags{101});
  CHECK(must(arrival.wait()).bytes == 8);
  must(going_on.finish());
  CHECK(served.servers[1].first_cause() == nullptr);
}

TEST_CASE("channels come and go while their set lives", "[channel]") {
  SetServed served{1};
  PollingScope lasting{served.servers[0]};
  auto arrival = must(lasting.post_receive(served.at(0)));
  int const rounds = served.context.kind() == DeviceKind::soft ? 300 : 20;
  for (int round = 0; round < rounds; ++round) {
    ChannelOptions options = options_with_depth(8);
    ChannelOptions in_set = options;
    in_set.wait_set = &served.set;
    in_set.tag = 7;
    auto [server, client] = connected(served.domain, in_set, options);
    std::optional<PollingScope> scope{server};
    auto received = must(scope->post_receive(served.at(1)));
    must(client.send(served.memory.gather(64, 8), within(10s)));
    if (round % 2 == 0) continue;  // it goes with news that nobody has asked for
    CHECK(served.news() == Tags{7});
    CHECK(must(received.poll()).has_value());
    must(scope->finish());
  }
  CHECK(must(served.set.poll(served.room)).empty());
  served.send_from(0);
  CHECK(served.news() == Tags{100});
  CHECK(must(arrival.wait()).bytes == 8);
  must(lasting.finish());
}

TEST_CASE("channels outlive their set", "[channel]") {
  std::optional<SetServed> served{std::in_place, std::size_t{1}};
  Channel server = std::move(served->servers[0]), client = std::move(served->clients[0]);
  MemoryRegion memory = std::move(served->memory);
  served.reset();
  PollingScope scope{server};
  auto arrival = must(scope.post_receive(memory.scatter(0, 8)));
  must(client.send(memory.gather(8, 8), within(10s)));
  CHECK(must(arrival.wait(within(10s))).bytes == 8);
  must(scope.finish());
}

TEST_CASE("a set finds the lost peer of a channel that keeps alive", "[channel]") {
  bool const by_descriptor = GENERATE(false, true);
  SetServed served{1};
  if (served.context.kind() != DeviceKind::soft) return skip(served.context, "faults are planned");
  served.add(7, 5ms);
  PollingScope scope{served.servers[1]}, other{served.servers[0]};
  auto arrival = must(scope.post_receive(served.at(0)));
  auto undisturbed = must(other.post_receive(served.at(1)));
  must(inject_faults(served.context, FaultPlan{}.peer_dies(1)));
  std::span<Ready> ready;
  if (by_descriptor) {
    auto const limit = within(10s);
    while (ready.empty() && !limit.has_passed()) {
      REQUIRE(served.sleep_until_ready());
      ready = must(served.set.poll(served.room));
    }
  } else {
    ready = must(served.set.wait(served.room, within(10s)));
  }
  REQUIRE(ready.size() == 1);
  CHECK(ready[0].tag == 7);
  CHECK(ready[0].what == Ready::What::broken);
  CHECK(error_of(arrival.wait()) == Errc::peer_lost);
  CHECK_FALSE(must(undisturbed.poll()).has_value());
  static_cast<void>(scope.finish());
  other.drain_within(0ms);
}

TEST_CASE("a wait on a set gives up in time, and can be cancelled", "[channel]") {
  auto const how = GENERATE(Wait::spin, Wait::adaptive, Wait::event);
  SetServed served{1, how};
  auto const began = Deadline::Clock::now();
  CHECK(error_of(served.set.wait(served.room, within(30ms))) == Errc::timed_out);
  CHECK(Deadline::Clock::now() - began >= 30ms);
  Cancellation stopping;
  std::thread other{[&] { stopping.cancel(); }};
  CHECK(error_of(served.set.wait(served.room, Deadline::never().unless(stopping))) ==
        Errc::cancelled);
  other.join();
}

TEST_CASE("a set of a thousand idle channels sleeps, and wakes for the last of them", "[channel]") {
  SetServed served{0, Wait::event};
  if (lacks(served.context, &DeviceCapabilities::endpoints)) return;
  std::size_t const count = served.context.kind() == DeviceKind::soft ? 1000 : 100;
  std::vector<Channel> idle;
  for (std::size_t i = 0; i < count; ++i) {
    auto prepared = must(channel_builder()
                             .protection_domain(served.domain)
                             .send_depth(1)
                             .receive_depth(1)
                             .wait_set(served.set, i)
                             .build());
    auto const itself = prepared.endpoint();
    idle.push_back(must(std::move(prepared).handshake(itself)));
  }
  rusage before{}, after{};
  ::getrusage(RUSAGE_THREAD, &before);
  CHECK(error_of(served.set.wait(served.room, within(1s))) == Errc::timed_out);
  ::getrusage(RUSAGE_THREAD, &after);
  CHECK(after.ru_nvcsw - before.ru_nvcsw <= 12);

  SetScope scope{served.set};
  PollingScope& last = *must(scope.on(idle.back()));
  auto arrival = must(last.post_receive(served.at(0)));
  static_cast<void>(must(last.post_send(served.memory.gather(64, 8))));
  CHECK(served.news() == Tags{count - 1});
  CHECK(must(arrival.wait()).bytes == 8);
  must(scope.finish());
}

TEST_CASE("what does not fit a set is refused with the remedy", "[channel]") {
  SetServed served{1};
  CHECK(error_of(served.set.poll({})) == Errc::invalid_argument);
  CHECK(error_of(served.servers[0].poll()) == Errc::invalid_argument);
  CHECK(error_of(served.servers[0].arm()) == Errc::invalid_argument);
  CHECK(error_of(served.servers[0].descriptor()) == Errc::invalid_argument);

  auto const elsewhere = must(open_test_device().allocate_protection_domain());
  auto const refused =
      channel_builder().protection_domain(elsewhere).wait_set(served.set, 1).build();
  CHECK(error_of(refused).message().find("one Context") != std::string::npos);
  for (unsigned const more : {0u, 1u, 2u}) {
    FewDescriptors const few{more};
    auto const error = error_of(WaitSet::create(served.context));
    CHECK(error == Errc::exhausted);
    CHECK(error.message().find(FewDescriptors::words()) != std::string::npos);
  }
  auto empty = must(WaitSet::create(served.context));
  {
    FewDescriptors const few;
    CHECK(error_of(channel_builder().protection_domain(served.domain).wait_set(empty, 1).build()) ==
          Errc::exhausted);
  }
  must(channel_builder().protection_domain(served.domain).wait_set(empty, 1).build());
}
