// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: transports of a WaitSet do all that others do, and one thread learns from the set which of
// them to look at. Method: both ends in one process; the list of conformance.hpp in a set.
#include <lend/channel/wait_set.hpp>
#include <lend/transport/memory.hpp>
#include <lend/transport/waiting.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "transport/channel_ends.hpp"
#include "transport/conformance.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

constexpr auto long_time = 60s;

std::ptrdiff_t descriptors_in_use() {
  return std::distance(std::filesystem::directory_iterator{"/proc/self/fd"}, {});
}

/// None where only rdma_cm connects, which is said.
std::vector<ChannelKind> kinds_here() {
  auto const context = open_test_device();
  std::vector<ChannelKind> kinds;
  if (lacks(context, &DeviceCapabilities::endpoints)) return kinds;
  bool const has_immediates = context.capabilities().immediates;
  for (auto const& kind : channel_kinds)
    if (has_immediates || kind.name != std::string_view{"CreditRing"}) kinds.push_back(kind);
  return kinds;
}

/// The next message of `by`, whose `peer` this thread polls, too.
std::string heard(AnyTransport& by, AnyTransport& peer) {
  for (auto const limit = within(long_time); !limit.has_passed();) {
    static_cast<void>(must(peer.poll()));
    static_cast<void>(must(by.poll()));
    if (auto const message = must(by.try_receive())) return text_of(message);
  }
  return "nothing";
}

/// Ends of which the near ones are of a set, with their number as tag. What asks whether a peer
/// lives is news, too.
struct Served {
  explicit Served(ChannelKind const& kind, std::size_t count, Wait how = Wait::adaptive,
                  std::chrono::nanoseconds keep_alive = {}, std::uint64_t lent_bytes_max = 0)
      : set{must(WaitSet::create(context, how))} {
    for (std::size_t tag = 0; tag < count; ++tag) {
      TransportOptions const in_set{
          .lent_bytes_max = lent_bytes_max, .keep_alive = keep_alive, .wait_set = &set, .tag = tag};
      auto ends = must(kind.try_unlike_ends(domain, in_set, {}));
      near.push_back(std::move(ends.first));
      far.push_back(std::move(ends.second));
    }
  }
  /// What the set lists until it has listed these.
  std::set<std::uint64_t> list(std::set<std::uint64_t> const& wanted) {
    std::set<std::uint64_t> listed;
    std::array<Ready, 2> room;
    for (auto const limit = within(long_time); !limit.has_passed();) {
      for (auto& one : far)
        if (one) static_cast<void>(must(one->poll()));
      for (auto const& ready : must(set.poll(room))) listed.insert(ready.tag);
      if (std::ranges::includes(listed, wanted)) break;
    }
    return listed;
  }

  std::string heard_by_far(std::size_t tag) { return heard(*far[tag], *near[tag]); }
  std::string heard_by_near(std::size_t tag) { return heard(*near[tag], *far[tag]); }

  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  WaitSet set;
  std::vector<std::optional<AnyTransport>> near{};
  std::vector<std::optional<AnyTransport>> far{};
};

void say(AnyTransport& transport, std::string_view text) {
  auto const bytes = std::as_bytes(std::span{text});
  CHECK(must(try_send(transport, SendPieces{&bytes, 1})));
}
/// Whether poll() says no more that something changed. What was acknowledged late, or asked whether
/// the peer lives, is news.
bool is_quiet(AnyTransport& transport) {
  int changes = 0;
  for (int i = 0; i < 1000; ++i) changes += must(transport.poll());
  return changes < 100;
}
/// All that has come, and sends it back.
std::vector<std::string> echoed(AnyTransport& transport) {
  std::vector<std::string> all;
  for (;;) {
    auto const message = must(transport.try_receive());
    if (!message) return all;
    all.push_back(text_of(message));
    say(transport, all.back());
  }
}

}  // namespace

TEST_CASE("a transport of a set does what the list of transports says", "[transport]") {
  for (auto const& kind : kinds_here())
    for (auto const& each : scenarios_of_transports())
      DYNAMIC_SECTION(kind.name << ": " << each.sentence) {
        each.run([&kind](TransportOptions options) {
          auto const context = open_test_device();
          auto const domain = must(context.allocate_protection_domain());
          // A set for each, which some scenarios have on a thread of its own. Their transports keep
          // what they need of them.
          auto of_a = must(WaitSet::create(context, options.wait));
          auto of_b = must(WaitSet::create(context, options.wait));
          auto second = options;
          options.wait_set = &of_a;
          second.wait_set = &of_b;
          return accompanied(must(kind.try_unlike_ends(domain, options, second)));
        });
      }
}

TEST_CASE("a set says which of its transports to look at", "[transport]") {
  for (auto const& kind : kinds_here()) {
    CAPTURE(kind.name);
    Served served{kind, 4};
    for (int round = 0; round < 20; ++round) {
      say(*served.far[1], "one");
      say(*served.far[3], "three");

      CHECK_FALSE(served.list({1, 3}).contains(0));
      CHECK(echoed(*served.near[1]) == std::vector<std::string>{"one"});
      CHECK(echoed(*served.near[3]) == std::vector<std::string>{"three"});
      CHECK(served.heard_by_far(1) == "one");
      CHECK(served.heard_by_far(3) == "three");
    }
    CHECK(echoed(*served.near[2]).empty());
  }
}

TEST_CASE("transports of a set take no descriptors of their own", "[transport]") {
  auto const context = open_test_device();
  auto const domain = must(context.allocate_protection_domain());
  auto set = must(WaitSet::create(context));
  TransportOptions const options{.wait_set = &set};
  for (auto const& kind : kinds_here()) {
    CAPTURE(kind.name);
    auto const first = must(kind.try_ends(domain, options));  // with the set's first queue
    auto const before = descriptors_in_use();
    std::vector<Ends> all;
    for (int i = 0; i < 8; ++i) all.push_back(must(kind.try_ends(domain, options)));
    CHECK(descriptors_in_use() == before);
  }
}

TEST_CASE("a peer that goes costs the set's other transports nothing", "[transport]") {
  for (auto const& kind : kinds_here()) {
    CAPTURE(kind.name);
    Served served{kind, 3, Wait::adaptive, 20ms};
    say(*served.far[1], "last words");
    CHECK(served.heard_by_near(1) == "last words");
    served.far[1].reset();
    say(*served.far[2], "still here");

    auto end = served.near[1]->try_receive();
    for (auto const limit = within(long_time); end && !limit.has_passed();) {
      static_cast<void>(served.list({}));
      end = served.near[1]->try_receive();
    }
    CHECK(error_of(end) == Errc::peer_lost);
    served.near[1].reset();
    CHECK(echoed(*served.near[2]) == std::vector<std::string>{"still here"});
    CHECK(served.heard_by_far(2) == "still here");
  }
}

TEST_CASE("a wait for one transport of a set loses no news of the others", "[transport]") {
  for (auto const& kind : kinds_here()) {
    CAPTURE(kind.name);
    Served served{kind, 2};
    say(*served.far[1], "beside");
    say(*served.far[0], "awaited");

    CHECK(served.heard_by_near(0) == "awaited");
    CHECK(served.list({1}).contains(1));
    CHECK(echoed(*served.near[1]) == std::vector<std::string>{"beside"});
  }
}

TEST_CASE("a set that sleeps is woken by a message of a transport", "[transport]") {
  for (auto const& kind : kinds_here()) {
    CAPTURE(kind.name);
    Served served{kind, 2, Wait::event};
    CHECK(served.near[0]->limits().wait == Wait::event);
    // No assertion in here: two threads run it.
    bool is_sent = false;
    std::thread sending{[&] {
      std::string_view const text{"wake up"};
      is_sent = send_message(*served.far[1], std::as_bytes(std::span{text}), within(long_time))
                    .has_value();
      // A ReadRing's message goes only while its sender polls.
      if (is_sent) is_sent = receive_message(*served.far[1], within(long_time)).has_value();
    }};

    std::array<Ready, 2> room;
    std::vector<std::string> echo;
    while (echo.empty()) {
      for (auto const& ready : must(served.set.wait(room, within(long_time)))) {
        CHECK(ready.tag == 1);
        auto const more = echoed(*served.near[ready.tag]);
        echo.insert(echo.end(), more.begin(), more.end());
      }
    }
    for (int i = 0; i < 100'000 && served.near[1]->sends_in_flight() > 0; ++i)
      static_cast<void>(must(served.near[1]->poll()));
    sending.join();

    CHECK(is_sent);
    CHECK(echo == std::vector<std::string>{"wake up"});
  }
}

TEST_CASE("a transport of a set says once that something has changed", "[transport]") {
  for (auto const& kind : kinds_here()) {
    CAPTURE(kind.name);
    Served served{kind, 2, Wait::adaptive, 20ms};
    auto& near = *served.near[0];
    say(*served.far[0], "news");
    static_cast<void>(served.list({0}));
    CHECK(must(near.poll()));
    CHECK(text_of(must(near.try_receive())) == "news");
    CHECK(is_quiet(near));
    CHECK(error_of(wait_for_change(near, within(0ms))) == Errc::timed_out);

    must(near.finish_sending());
    must(served.far[0]->finish_sending());
    while (near.sends_in_flight() + served.far[0]->sends_in_flight() > 0) {
      static_cast<void>(served.list({}));
      static_cast<void>(must(near.poll()));
    }
    CHECK(must(near.try_receive()).is_end());
    served.far[0].reset();
    for (auto const limit = within(200ms); !limit.has_passed();) static_cast<void>(near.poll());
    CHECK(is_quiet(near));
  }
}

TEST_CASE("bytes lent to a transport of a set are read, and their peer told, by its recipe",
          "[transport]") {
  for (auto const& kind : kinds_here()) {
    if (kind.name == std::string_view{"ReadRing"}) continue;  // which lends none
    CAPTURE(kind.name);
    Served served{kind, 1, Wait::adaptive, {}, 1 << 20};
    auto& near = *served.near[0];
    auto& far = *served.far[0];
    auto field = must(served.domain.allocate(1 << 16));
    auto copy = must(served.domain.allocate(1 << 16));
    auto const lent = must(far.try_send_lent(field.gather(0, 1 << 16)));
    REQUIRE(lent);
    static_cast<void>(served.list({0}));
    static_cast<void>(must(near.poll()));
    {
      auto const message = must(near.try_receive());
      REQUIRE(message.is_lent());
      while (!must(near.try_fetch(message, copy.scatter(0, 1 << 16)))) {
        static_cast<void>(served.list({}));
        static_cast<void>(must(near.poll()));
      }
    }
    for (auto const limit = within(long_time); !lent.is_over() && !limit.has_passed();) {
      static_cast<void>(must(near.poll()));
      static_cast<void>(must(far.poll()));
    }
    CHECK(lent.is_over());
    CHECK(is_quiet(near));
    CHECK(error_of(wait_for_change(near, within(50ms))) == Errc::timed_out);
  }
}

TEST_CASE("a call on a transport of a set leaves a wake() to the set", "[transport]") {
  for (auto const& kind : kinds_here()) {
    CAPTURE(kind.name);
    Served served{kind, 1};
    std::array<Ready, 2> room;
    while (!must(served.set.poll(room)).empty()) {
    }
    served.set.wake();
    static_cast<void>(must(served.near[0]->poll()));
    CHECK(must(served.set.wait(room, within(long_time))).empty());
  }
}

TEST_CASE("what a transport of a set cannot do is refused", "[transport]") {
  for (auto const& kind : kinds_here()) {
    CAPTURE(kind.name);
    Served served{kind, 1};
    CHECK(error_of(served.near[0]->arm()) == Errc::invalid_argument);
    say(*served.far[0], "news");
    static_cast<void>(served.list({0}));
    CHECK(error_of(served.near[0]->arm()) == Errc::invalid_argument);
    CHECK_THAT(error_of(served.near[0]->descriptor()).message(), Catch::Contains("ask the set"));
  }
  auto set = must(WaitSet::create(open_test_device()));
  CHECK(error_of(memory_transports({.wait_set = &set})) == Errc::invalid_argument);
}
