// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: whatever a device refuses while a set, its pool or a channel of both is made, the error
// names it, nothing is left over, and the next try is as good as the first. Method: the fake
// provider, whose control calls fail in turn, and which takes as many receives as the test says.
#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "support/each_failure.hpp"
#include "support/two_ends.hpp"
#include "verbs/fake_provider.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t pieces = 4;
constexpr std::array<int, 6> errors{ENOMEM, EACCES, EINVAL, EIO, EMFILE, EOPNOTSUPP};

/// Completes the receives of queue pairs, as devices do in the error state.
void flush() {
  for (Posted const& posted : Fake::get().posted) {
    if (posted.queue_pair == 0) continue;  // of the pool
    complete(posted, IBV_WC_WR_FLUSH_ERR);
  }
}

Context opened(FakeDevice device) {
  Fake::get().reset(std::move(device));
  Fake::get().at_error = flush;
  return must(open_fake());
}

FakeDevice with_channels() {
  FakeDevice device;
  device.has_channels = true;
  device.queue_pair_step = 1;
  return device;
}

/// A server in steps, each of which a device may refuse.
struct Server {
  Context context;
  ProtectionDomain domain = must(context.allocate_protection_domain());
  MemoryRegion memory = must(domain.allocate(pieces * 64));  // of the pool
  MemoryRegion own = must(domain.allocate(64));              // of a channel without one
  std::optional<WaitSet> set{};
  std::optional<ReceivePool> pool{};
  std::optional<PreparedChannel> prepared{};
  std::optional<Channel> channel{};
  bool has_pool = true;

  explicit Server(FakeDevice device = with_channels()) : context{opened(std::move(device))} {}

  Result<void> make_set() {
    LEND_TRY(made, WaitSet::create(context));
    set.emplace(std::move(made));
    return success();
  }
  Result<void> make_pool() {
    LEND_TRY(made, ReceivePool::create(*set, memory.chunks(64)));
    pool.emplace(std::move(made));
    return success();
  }
  Result<void> build() {
    // With inline bytes that nobody asked for, a queue pair that is refused is tried with fewer.
    auto options = without_copies(options_with_depth(8));
    options.wait_set = &*set;
    if (has_pool) options.receive_pool = &*pool;
    LEND_TRY(made, prepare_channel(domain, options));
    prepared.emplace(std::move(made));
    return success();
  }
  /// With a receive of its own where it has no pool.
  Result<void> connect() {
    if (!prepared) {
      LEND_TRYV(build());
    }
    if (!has_pool) {
      LEND_TRYV(prepared->post_receive(own.scatter(0, 8)));
    }
    auto const itself = prepared->endpoint();
    auto connected = std::move(*prepared).handshake(itself);
    prepared.reset();
    if (!connected.has_value()) return connected.error();
    channel.emplace(std::move(connected).value());
    return success();
  }
  [[nodiscard]] std::size_t loans() const { return memory.loans() + own.loans(); }
};

using Step = Result<void> (Server::*)();
constexpr std::array<Step, 4> steps{&Server::make_set, &Server::make_pool, &Server::build,
                                    &Server::connect};

/// Takes the steps before `step`.
void go_to(Server& server, Step step) {
  for (Step const before : steps) {
    if (before == step) return;
    must((server.*before)());
  }
}
/// Takes the steps after `step`.
void go_on_after(Server& server, Step step) {
  for (auto next = std::ranges::find(steps, step) + 1; next != steps.end(); ++next)
    must((server.**next)());
}

/// What is made once all steps are taken.
struct Healthy {
  std::size_t live;
  std::size_t loans;
};
Healthy healthy(Step step, bool has_pool) {
  Server server;
  server.has_pool = has_pool;
  go_to(server, step);
  must((server.*step)());
  go_on_after(server, step);
  return {Fake::get().live(), server.loans()};
}

bool says(Error const& error, std::string_view words) {
  return error.message().find(words) != std::string::npos;
}

/// A set that is refused a deep queue makes a shallower one.
bool is_made_good(std::string const& call, int error) {
  return (call == "ibv_create_cq" && (error == ENOMEM || error == EINVAL || error == EMFILE)) ||
         (call == "ibv_create_comp_channel" && (error == ENOMEM || error == EMFILE));
}

}  // namespace

TEST_CASE("whichever control call a set, a pool or its channel is refused, the next try is as good",
          "[channel]") {
  bool const has_pool = GENERATE(true, false);
  auto& fake = Fake::get();
  for (Step const step : steps) {
    Healthy const expected = healthy(step, has_pool);
    for (int const error : errors)
      for_each_failure(1, [&](std::uint64_t before) {
        bool has_failed = false;
        {
          Server server;
          server.has_pool = has_pool;
          go_to(server, step);
          std::size_t const loans = server.loans(), posted = fake.posted.size();
          fake.fail_after(before, error);
          auto const result = (server.*step)();
          fake.fail_call = 0;
          has_failed = !fake.failed_call.empty();
          INFO(fake.failed_call << " fails with " << std::strerror(error));
          if (!has_failed || (is_made_good(fake.failed_call, error) && step == &Server::build)) {
            must(result);
          } else {
            Error const refused = error_of(result);
            INFO(refused.message());
            CHECK(says(refused, fake.failed_call));
            CHECK(says(refused, std::strerror(error)));
            CHECK(refused.os_error() == error);
            CHECK(server.loans() == loans);
            CHECK(fake.posted.size() - posted == (step == &Server::connect && !has_pool ? 1 : 0));
            if (server.pool) CHECK(server.pool->posted() == pieces);
            must((server.*step)());
          }
          go_on_after(server, step);
          CHECK(fake.live() == expected.live);
          CHECK(server.loans() == expected.loans);
          std::array<Ready, 4> room{};
          CHECK(must(server.set->poll(room)).empty());
        }
        CHECK(fake.live() == 0);
        CHECK(fake.violations.empty());
        return has_failed;
      });
  }
}

TEST_CASE("a pool whose receives are refused halfway gives back what it posted", "[channel]") {
  auto& fake = Fake::get();
  bool const is_clear = GENERATE(true, false);
  for (int const error : {ENOMEM, EIO})
    for (int taken = 0; taken < static_cast<int>(pieces); ++taken) {
      CAPTURE(is_clear, error, taken);
      Server server;
      go_to(server, &Server::make_pool);
      fake.refuse_after = taken;
      fake.post_result = error;
      fake.silent_after = is_clear ? INT_MAX : taken;
      Error const refused = error_of(server.make_pool());
      CHECK(refused == (error == ENOMEM ? Errc::exhausted : Errc::system_failed));
      CHECK(says(refused, "ibv_post_srq_recv"));
      if (error == ENOMEM)
        CHECK(says(refused, "took " + std::to_string(taken) + " of the 4 receives"));
      CHECK(server.memory.loans() == 0);
      CHECK(server.memory.mutable_bytes().has_value());
      CHECK(fake.live("receive queue") == 0);

      fake.post_result = 0;
      fake.silent_after = INT_MAX;
      fake.posted.clear();
      must(server.make_pool());
      must(server.connect());
      complete(fake.posted.front(), IBV_WC_SUCCESS, 8);
      std::array<Ready, 4> room{};
      CHECK(must(server.set->poll(room)).size() == 1);
      auto const message = server.pool->next();
      REQUIRE(message.has_value());
      CHECK(message->bytes().size() == 8);
    }
}

TEST_CASE("what a device keeps of a pool that it refused stays on loan for good", "[channel]") {
  auto& fake = Fake::get();
  {
    Server server;
    go_to(server, &Server::make_pool);
    fake.refuse_after = 2;
    fake.post_result = EIO;
    fake.fail_destruction = fake.destructions + 1;  // the receive queue's
    CHECK(error_of(server.make_pool()) == Errc::system_failed);
    CHECK(server.memory.mutable_bytes(0, 1).error() == Errc::already_borrowed);
  }
  CHECK(fake.live("storage") == 1);
}

TEST_CASE("a device without shared receive queues refuses a pool before it posts", "[channel]") {
  auto device = with_channels();
  device.receive_queues_max = 0;
  Server server{device};
  go_to(server, &Server::make_pool);
  Error const refused = error_of(server.make_pool());
  CHECK(refused == Errc::unsupported);
  CHECK(says(refused, "fake0 has no shared receive queues; post receives on each channel"));
  CHECK(server.memory.loans() == 0);
  CHECK(Fake::get().post_calls == 0);
  server.has_pool = false;
  must(server.connect());
}

TEST_CASE("a device without completion events refuses a set, and its channels need none",
          "[channel]") {
  Server server{FakeDevice{}};
  auto const how = GENERATE(Wait::spin, Wait::adaptive, Wait::event);
  Error const refused = error_of(WaitSet::create(server.context, how));
  CHECK(refused == Errc::unsupported);
  CHECK(says(refused, "ibv_create_comp_channel failed"));
  CHECK(says(refused, "Outside a WaitSet, Wait::adaptive goes without events."));

  ChannelOptions alone = options_with_depth(8);
  alone.wait = how;
  auto const built = prepare_channel(server.domain, alone);
  if (how == Wait::event)
    CHECK(says(error_of(built), "Wait::adaptive goes without events."));
  else
    CHECK(built.has_value());
}
