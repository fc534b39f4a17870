// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: by LEND_METRICS pools tell how much of them is in use, and count each time that too little
// was there. Method: what the program has taken and holds beside metrics_text().
#include "channel/pooled.hpp"
#include "support/device_environment.hpp"
#include "support/samples.hpp"
#include "transport/pooled_ends.hpp"

using namespace lend;
using namespace lend::test;

namespace {

/// By their names without `lend_`; of counters what came since this was made.
class Pools {
 public:
  [[nodiscard]] double now(std::string const& name, std::string const& label = "") const {
    return sum_of(samples_now(), "lend_" + name, {label});
  }
  [[nodiscard]] double more(std::string const& name, std::string const& label = "") const {
    return now(name + "_total", label) - sum_of(before_, "lend_" + name + "_total", {label});
  }
  /// Of how many `used` and free.
  void are(std::string const& name, std::string const& used, double of_used, double of_free) const {
    CAPTURE(name);
    bool const is_receive_pool = name == "receive_pool_pieces";
    CHECK(now(name, '"' + used + '"') == of_used);
    CHECK(now(name, is_receive_pool ? R"("posted")" : R"("free")") == of_free);
  }

 private:
  Samples before_ = samples_now();
};

}  // namespace

TEST_CASE("a ReceivePool tells what is posted, and counts its messages", "[observe]") {
  Pools const pools;
  {
    EnvironmentVariable const all{"LEND_METRICS", "1"};
    Pooled ends{1};
    pools.are("receive_pool_pieces", "held", 0, Pooled::pieces);
    std::vector<Message> held;
    auto const take = [&] {
      ends.say(0, "hello");
      held.push_back(ends.heard());
    };
    for (std::uint32_t i = 1; i < Pooled::pieces; ++i) take();
    pools.are("receive_pool_pieces", "held", Pooled::pieces - 1, 1);
    CHECK(pools.more("receive_pool_messages") == Pooled::pieces - 1);
    CHECK(pools.more("receive_pool_empty") == 0);
    take();
    pools.are("receive_pool_pieces", "held", Pooled::pieces, 0);
    CHECK(pools.more("receive_pool_empty") == 1);

    held.clear();
    CHECK(ends.all_posted_but(0));
    pools.are("receive_pool_pieces", "held", 0, Pooled::pieces);
    take();
    pools.are("receive_pool_pieces", "held", 1, Pooled::pieces - 1);
    ends.pool.reset();
    pools.are("receive_pool_pieces", "held", 0, 0);
    CHECK(held[0].bytes().size() == 5);
  }
  CHECK(pools.more("receive_pool_messages") == Pooled::pieces + 1);
  CHECK(pools.more("receive_pool_empty") == 1);

  EnvironmentVariable const none{"LEND_METRICS", "0"};
  Pooled ends{1};
  ends.say(0, "hello");
  static_cast<void>(ends.heard());
  pools.are("receive_pool_pieces", "held", 0, 0);
  CHECK(pools.more("receive_pool_messages") == Pooled::pieces + 1);
}

TEST_CASE("a MessagePool tells how many transports it has, and counts those it refused",
          "[observe]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  EnvironmentVariable const all{"LEND_METRICS", "1"};
  Pools const pools;
  {
    PooledServer server{2, {.message_bytes_max = 64, .transports_max = 3}};
    pools.are("message_pool_transports", "used", 2, 1);
    must(server.add());
    pools.are("message_pool_transports", "used", 3, 0);
    CHECK(error_of(server.add()) == Errc::exhausted);
    CHECK(error_of(server.add()) == Errc::exhausted);
    CHECK(pools.more("message_pool_refusals") == 2);
    server.near[0].reset();
    pools.are("message_pool_transports", "used", 2, 1);

    // Its transports count in the pool's block.
    CHECK(says(*server.far[1], "counted"));
    CHECK(text_of(server.received(1)) == "counted");
    CHECK(pools.more("transport_messages", "sent") == 1);
    CHECK(pools.more("transport_messages", "received") == 1);
  }
  pools.are("message_pool_transports", "used", 0, 0);
  pools.are("message_pool_receives", "granted", 0, 0);
  pools.are("message_pool_drafts", "used", 0, 0);
  pools.are("receive_pool_pieces", "held", 0, 0);
  CHECK(pools.more("message_pool_refusals") == 2);
}

TEST_CASE("a MessagePool counts who waits for a draft, once", "[observe]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  EnvironmentVariable const all{"LEND_METRICS", "1"};
  Pools const pools;
  PooledServer server{2, {.message_bytes_max = 64, .transports_max = 2, .drafts = 1}};
  pools.are("message_pool_drafts", "used", 0, 1);
  {
    auto const draft = must(server.near[0]->try_draft(4, 4));
    REQUIRE(draft);
    pools.are("message_pool_drafts", "used", 1, 0);
    CHECK(pools.more("message_pool_waits") == 0);
    for (int i = 0; i < 3; ++i) CHECK_FALSE(says(*server.near[1], "no room"));
    CHECK(pools.more("message_pool_waits", "draft") == 1);
  }
  pools.are("message_pool_drafts", "used", 0, 1);
  CHECK(says(*server.near[1], "room"));
  pools.are("message_pool_drafts", "used", 1, 0);
  CHECK(server.comes_to([&] { return pools.now("message_pool_drafts", "free") == 1; }));
  CHECK(pools.more("message_pool_waits") == 1);
}

TEST_CASE("a MessagePool counts who waits on, as another took the draft that was free, once",
          "[observe]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  EnvironmentVariable const all{"LEND_METRICS", "1"};
  Pools const pools;
  PooledServer server{3, {.message_bytes_max = 64, .transports_max = 3, .drafts = 1}};
  {
    auto const draft = must(server.near[0]->try_draft(4, 4));
    REQUIRE(draft);
    for (std::size_t one = 1; one < 3; ++one) CHECK_FALSE(says(*server.near[one], "no room"));
    CHECK(pools.more("message_pool_waits", "draft") == 2);
  }
  for (std::size_t one = 1; one < 3; ++one) static_cast<void>(must(server.near[one]->poll()));
  auto const taken = must(server.near[1]->try_draft(4, 4));
  REQUIRE(taken);
  CHECK_FALSE(says(*server.near[2], "no room"));
  CHECK(pools.more("message_pool_waits", "draft") == 2);
}

TEST_CASE("a MessagePool counts clients that stop for want of receives, each time once",
          "[observe]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  EnvironmentVariable const all{"LEND_METRICS", "1"};
  Pools const pools;
  PooledServer server{3, {.message_bytes_max = 64, .transports_max = 3, .shared = 1}};
  auto const waits = [&] { return pools.more("message_pool_waits", "receive"); };
  pools.are("message_pool_receives", "granted", 0, 1);
  std::vector<Received> held;
  auto const take = [&](std::size_t client) { held.push_back(server.received(client)); };
  CHECK(says(*server.far[0], "first"));
  take(0);  // and its client is granted the only one
  pools.are("message_pool_receives", "granted", 1, 0);
  CHECK(waits() == 0);
  for (std::size_t client = 1; client < 3; ++client) {
    CHECK(says(*server.far[client], "first"));
    take(client);
    CHECK(server.comes_to([&] { return waits() == double(client); }));
  }

  // One of them gets it, and the other waits on.
  server.near[0].reset();
  CHECK(server.comes_to([&] { return pools.now("message_pool_receives", "free") == 0; }));
  for (int i = 0; i < 3; ++i) {
    static_cast<void>(server.listed());
    for (std::size_t client = 1; client < 3; ++client)
      static_cast<void>(must(server.near[client]->poll()));
  }
  pools.are("message_pool_receives", "granted", 1, 0);
  CHECK(waits() == 2);
  std::size_t next = 0;
  CHECK(server.comes_to([&] {
    for (std::size_t client = 1; client < 3; ++client)
      if (next == 0 && says(*server.far[client], "second")) next = client;
    return next != 0;
  }));
  take(next);
  CHECK(server.comes_to([&] { return waits() == 3; }));
  CHECK(pools.more("message_pool_waits") == 3);
}
