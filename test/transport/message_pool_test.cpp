// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: transports that share receives and send buffers do what others do, in little memory, and
// none stops another. Method: both ends in one process; many clients of one pool.
#include <lend/soft/faults.hpp>
#include <lend/transport/connect.hpp>

#include <malloc.h>

#include <numeric>
#include <string>
#include <thread>

#include "transport/pooled_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

constexpr auto long_time = 60s;

bool has_no_pools() {
  return lacks(open_test_device(), &DeviceCapabilities::endpoints);
}

/// Clients that each send `count` messages as fast as they may, and read as many answers.
struct Crowd {
  explicit Crowd(PooledServer& of) : server{of}, sent(of.far.size()), got(sent) {}

  /// A round of all clients, and what the server answers.
  void turn(int count, bool is_answered) {
    for (std::size_t i = 0; i < sent.size(); ++i) {
      auto& client = *server.far[i];
      static_cast<void>(must(client.poll()));
      while (sent[i] < count && says(client, number(i, sent[i]))) ++sent[i];
      while (auto const answer = must(client.try_receive())) {
        wrong += text_of(answer) != number(i, got[i]);
        ++got[i];
      }
    }
    static_cast<void>(server.listed());
    for (std::size_t i = 0; i < sent.size(); ++i) serve(i, is_answered);
  }
  [[nodiscard]] bool is_over(int count) const {
    return std::ranges::all_of(got, [=](int each) { return each == count; });
  }

  PooledServer& server;
  std::vector<int> sent, got;
  std::vector<std::vector<std::string>> unanswered{sent.size()};
  int wrong = 0;

 private:
  static std::string number(std::size_t client, int message) {
    return std::to_string(client) + ": " + std::to_string(message);
  }
  void serve(std::size_t i, bool is_answered) {
    auto& end = *server.near[i];
    static_cast<void>(must(end.poll()));
    while (auto const message = must(end.try_receive())) unanswered[i].push_back(text_of(message));
    if (!is_answered) return;
    std::size_t answered = 0;
    while (answered < unanswered[i].size() && says(end, unanswered[i][answered])) ++answered;
    unanswered[i].erase(unanswered[i].begin(),
                        unanswered[i].begin() + static_cast<std::ptrdiff_t>(answered));
  }
};

}  // namespace

TEST_CASE("a transport in a pool does what the list of transports says", "[transport]") {
  if (has_no_pools()) return;
  for (auto const& each : scenarios_of_transports()) {
    if (!is_for_pools(each)) continue;
    DYNAMIC_SECTION(each.sentence) {
      each.run([](TransportOptions const& options) {
        auto const domain = must(open_test_device().allocate_protection_domain());
        // The transports keep what they need of both.
        PoolOfOne of_a{domain, options}, of_b{domain, options};
        return accompanied(must(try_unlike_ends<SendReceive>(domain, of_a.options, of_b.options)));
      });
    }
  }
}

TEST_CASE("many clients of a small pool all get through, in turn with answers or without",
          "[transport]") {
  if (has_no_pools()) return;
  auto const [shared, drafts] =
      GENERATE(table<std::uint32_t, std::uint32_t>({{1, 1}, {8, 3}, {256, 64}}));
  CAPTURE(shared, drafts);
  constexpr int count = 40;
  PooledServer server{
      12, {.message_bytes_max = 64, .transports_max = 12, .shared = shared, .drafts = drafts}};
  Crowd crowd{server};
  for (auto const limit = within(long_time); !crowd.is_over(count) && !limit.has_passed();)
    crowd.turn(count, crowd.sent[0] % 8 != 5);
  CHECK(crowd.is_over(count));
  CHECK(crowd.wrong == 0);

  for (auto& one : server.far) must(one->finish_sending());
  for (auto& one : server.near) must(one->finish_sending());
  auto const is_over = [&] {
    static_cast<void>(server.listed());
    return std::ranges::all_of(server.near, [](auto& one) {
      static_cast<void>(must(one->poll()));
      return one->sends_in_flight() == 0 && must(one->try_receive()).is_end();
    });
  };
  for (auto const limit = within(long_time); !is_over() && !limit.has_passed();) {
    for (auto& one : server.far) static_cast<void>(must(one->poll()));
  }
  CHECK(is_over());
  CHECK(server.pool->drafts_free() == drafts);
  server.near.clear();
  CHECK(server.pool->transports() == 0);
  CHECK(server.pool->shared_free() == shared);
}

TEST_CASE("a client that streams is granted more, and an idle one has one message", "[transport]") {
  if (has_no_pools()) return;
  PooledServer server{2, {.message_bytes_max = 64, .transports_max = 2, .shared = 256}};
  CHECK(says(*server.far[0], "first"));
  CHECK_FALSE(says(*server.far[0], "second"));
  int sent = 0;
  for (auto const limit = within(long_time); sent < 200 && !limit.has_passed();) {
    while (says(*server.far[0], "more")) ++sent;
    static_cast<void>(server.listed());
    while (auto const message = must(server.near[0]->try_receive())) {
    }
    static_cast<void>(must(server.far[0]->poll()));
  }
  CHECK(sent >= 200);
  CHECK(server.pool->shared_free() <= 256 - 14);  // its window is 16, and one is its own
  CHECK(server.pool->shared_free() >= 256 - 15);
}

TEST_CASE("a transport beyond those of the pool is refused, and one that ends makes room",
          "[transport]") {
  if (has_no_pools()) return;
  PooledServer server{2, {.transports_max = 2}};
  auto const refused = error_of(server.add());
  CHECK(refused == Errc::exhausted);
  CHECK_THAT(refused.message(), Catch::Contains("its 2 transports"));
  server.near[0].reset();
  CHECK(server.pool->transports() == 1);
  must(server.add());
  CHECK(server.pool->transports() == 2);
}

TEST_CASE("a message that is held outlives its transport and the pool", "[transport]") {
  if (has_no_pools()) return;
  std::optional<PooledServer> server{std::in_place, 2};
  CHECK(says(*server->far[0], "kept"));
  auto message = server->received(0);
  REQUIRE(text_of(message) == "kept");

  server->near[0].reset();
  CHECK(server->pool->transports() == 2);
  CHECK(says(*server->far[1], "of another"));
  CHECK(text_of(server->received(1)) == "of another");
  CHECK(text_of(message) == "kept");
  SECTION("it goes first") {
    message = {};
    CHECK(server->pool->transports() == 1);
  }
  SECTION("the pool goes first") {
    server.reset();
    CHECK(text_of(message) == "kept");
  }
}

TEST_CASE("what a transport received before it broke is the program's, and its receive the pool's",
          "[transport]") {
  if (has_no_pools()) return;
  PooledServer server{1, {.transports_max = 1, .shared = 1}, 20ms};
  CHECK(says(*server.far[0], "last words"));
  CHECK(server.comes_to([&] { return server.far[0]->sends_in_flight() == 0; }));
  server.far[0].reset();
  auto& near = *server.near[0];
  std::vector<std::string> heard;
  std::optional<Error> end;
  for (auto const limit = within(long_time); !end && !limit.has_passed();) {
    static_cast<void>(server.listed());
    static_cast<void>(near.poll());
    auto const message = near.try_receive();
    if (!message)
      end = message.error();
    else if (message.value())
      heard.push_back(text_of(message.value()));
  }
  CHECK(end == Errc::peer_lost);
  CHECK(heard == std::vector<std::string>{"last words"});
  server.near[0].reset();
  CHECK(server.pool->transports() == 0);
  // Each receive is there again.
  for (int i = 0; i < 20; ++i) {
    must(server.add());
    CHECK(says(*server.far.back(), "again"));
    CHECK(text_of(server.received(server.near.size() - 1)) == "again");
    server.near.back().reset();
  }
}

TEST_CASE("a draft that is dropped, or whose transport goes, is another's", "[transport]") {
  if (has_no_pools()) return;
  PooledServer server{2, {.drafts = 1}};
  {
    auto draft = must(server.near[0]->try_draft(4, 4));
    REQUIRE(draft);
    CHECK_FALSE(says(*server.near[1], "no room"));
    CHECK(server.pool->drafts_free() == 0);
  }
  CHECK(says(*server.near[1], "room"));
  Draft draft;
  CHECK(server.comes_to([&] {
    draft = must(server.near[0]->try_draft(4, 4));
    return bool{draft};
  }));
  auto const has_transport = GENERATE(true, false);
  if (has_transport)
    server.near[0]->disconnect();
  else
    server.near[0].reset();
  // The program may still write it.
  CHECK_FALSE(says(*server.near[1], "no room"));
  auto const refused = error_of(std::move(draft).send(4));
  CHECK(refused == (has_transport ? Errc::channel_broken : Errc::stale_handle));
  CHECK(says(*server.near[1], "room"));
}

TEST_CASE("who waits for a draft has it once another's message is sent", "[transport]") {
  if (has_no_pools()) return;
  PooledServer server{2, {.drafts = 1}};
  std::optional held{must(server.near[0]->try_draft(4, 4))};
  REQUIRE(*held);
  CHECK_FALSE(says(*server.near[1], "no room"));
  static_cast<void>(server.listed());
  SECTION("by a wait for it alone") {
    // So that it is not sent at once.
    if (server.context.kind() == DeviceKind::soft)
      must(inject_faults(server.context, FaultPlan{}.delay(1, 100ms)));
    must(std::move(*held).send(4));
    must(send_message(*server.near[1], bytes_of("room"), within(long_time)));
  }
  SECTION("by its set") {
    held.reset();
    CHECK(server.listed() == std::set<std::uint64_t>{1});
    CHECK(must(server.near[1]->poll()));
    CHECK(says(*server.near[1], "room"));
  }
}

TEST_CASE("who stopped for want of receives goes on once another gives some back", "[transport]") {
  if (has_no_pools()) return;
  PooledServer server{2, {.message_bytes_max = 64, .transports_max = 2, .shared = 1}};
  auto const sends = [&](std::size_t which) { return says(*server.far[which], "more"); };
  auto const goes_on = [&](std::size_t which) {
    return server.comes_to([&] { return sends(which); });
  };
  CHECK(sends(0));
  auto const first = server.received(0);
  CHECK(goes_on(0));  // by the only shared receive
  static_cast<void>(server.received(0));
  CHECK(server.pool->shared_free() == 0);
  CHECK(sends(1));
  auto const others = server.received(1);
  CHECK_FALSE(sends(1));

  SECTION("which ended") {
    server.near[0].reset();
  }
  SECTION("which is over") {
    must(server.far[0]->finish_sending());
    CHECK(server.received(0).is_end());
  }
  SECTION("which broke") {
    server.near[0]->disconnect();
  }
  CHECK(goes_on(1));
  CHECK(text_of(first) == "more");
}

TEST_CASE("an idle client of a pool takes at most 16 KiB", "[transport]") {
  if (has_no_pools()) return;
  constexpr std::size_t count = 64;
  PooledServer server{2, {.transports_max = count + 2}};
  auto const allocated = [] {
    auto const now = ::mallinfo2();  // of a sanitizer's own malloc nothing
    return now.uordblks + now.hblkhd;
  };
  std::vector<SendReceive> idle;
  idle.reserve(count);
  std::vector<PreparedSendReceive> of_clients;
  for (std::size_t i = 0; i < count; ++i)
    of_clients.push_back(must(SendReceive::prepare(server.domain, {.message_bytes_max = 64})));
  auto const before = allocated();
  for (std::size_t i = 0; i < count; ++i) {
    auto prepared = must(SendReceive::prepare(
        server.domain, {.wait_set = &server.set, .tag = i, .pool = &*server.pool}));
    auto const& client = of_clients[i];
    idle.push_back(must(std::move(prepared).handshake(client.endpoint(), client.terms())));
  }
  auto const each = (allocated() - before) / count;
  CAPTURE(each);
  if (server.context.kind() == DeviceKind::soft) CHECK(each <= 16 * 1024);
}

TEST_CASE("what a pool cannot do is refused by name", "[transport]") {
  auto const context = open_test_device();
  auto const domain = must(context.allocate_protection_domain());
  auto set = must(WaitSet::create(context));
  for (auto const& [options, words] :
       std::initializer_list<std::pair<MessagePoolOptions, char const*>>{
           {{.message_bytes_max = 0}, "messages of 0 bytes"},
           {{.message_bytes_max = 1 << 20}, "messages of 1048576 bytes"},
           {{.transports_max = 0}, "transports_max is 0"},
           {{.shared = 0}, "shared is 0"},
           {{.drafts = 1u << 21}, "drafts is 2097152"}}) {
    auto const refused = error_of(MessagePool::create(set, domain, options));
    CHECK(refused == Errc::invalid_argument);
    CHECK_THAT(refused.message(), Catch::Contains(words));
  }
  auto pool = must(MessagePool::create(set, domain, {.transports_max = 4}));
  auto const refused = [&](TransportOptions const& options) {
    return error_of(SendReceive::prepare(domain, options)).message();
  };
  CHECK_THAT(refused({.pool = &pool}), Catch::Contains("give wait_set, too"));
  CHECK_THAT(refused({.message_bytes_max = 8192, .wait_set = &set, .pool = &pool}),
             Catch::Contains("has buffers of 4096"));
  CHECK_THAT(refused({.lent_bytes_max = 4096, .wait_set = &set, .pool = &pool}),
             Catch::Contains("takes none that are lent"));
  auto other = must(WaitSet::create(context));
  CHECK_THAT(refused({.wait_set = &other, .pool = &pool}), Catch::Contains("another WaitSet"));
  CHECK_THAT(error_of(CreditRing::prepare(domain, {.wait_set = &set, .pool = &pool})).message(),
             Catch::Contains("for kind send_receive"));
  CHECK(pool.transports() == 0);
}
