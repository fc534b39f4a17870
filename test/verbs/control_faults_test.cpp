// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: no failing control call leaks, is ended twice or is swallowed.
// Method: a whole connection on the fake provider, once for each call and errno that can fail.
#include "support/catch.hpp"
#include "verbs/fake_provider.hpp"

#include <lend/verbs/completion_channel.hpp>
#include <lend/verbs/completion_queue.hpp>
#include <lend/verbs/context.hpp>
#include <lend/verbs/device_clock.hpp>
#include <lend/verbs/memory_window.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <lend/verbs/queue_pair.hpp>
#include <lend/verbs/receive_queue.hpp>
#include <verbs/memory/apart_memory.hpp>

#include <cerrno>
#include <cstring>
#include <set>

using namespace lend;
using namespace lend::test;

namespace {

constexpr std::size_t length = 4096;

/// Makes one of everything, connects it to itself and aborts it.
Result<void> everything() {
  std::array<std::byte, 64> viewed_bytes{};
  LEND_TRY(context, open_fake());
  LEND_TRY(domain, context.allocate_protection_domain());
  LEND_TRY(owned, domain.allocate(length));
  LEND_TRY(apart, verbs::ApartMemory::allocate(domain, length));
  LEND_TRY(viewed, domain.register_memory(viewed_bytes));
  LEND_TRY(exposed, domain.unsafe_allocate_exposed(length, RemoteAccess::read_write));
  LEND_TRY(remote, exposed.remote());
  LEND_TRY(queue, CompletionQueue::create(context, 64));
  LEND_TRY(prepared,
           PreparedQueuePair::create(domain, queue,
                                     {.send_depth = 16, .receive_depth = 16, .inline_bytes = 0}));
  LEND_TRY(receives, ReceiveQueue::create(domain, 16));
  LEND_TRYV(receives.request_limit_event(8));
  LEND_TRY(sharing, PreparedQueuePair::create(domain, queue, {.send_depth = 16, .inline_bytes = 0},
                                              receives));
  auto const endpoint = prepared.endpoint();
  LEND_TRY(queue_pair, std::move(prepared).connect(endpoint));
  static_cast<void>(sharing);
  static_cast<void>(remote);
  static_cast<void>(owned);
  static_cast<void>(apart);
  static_cast<void>(viewed);
  return queue_pair.abort_all();
}

/// The same of other services, and of what programs of verbs make by hand.
Result<void> everything_by_hand() {
  LEND_TRY(context, open_fake());
  LEND_TRY(domain, context.allocate_protection_domain());
  LEND_TRY(channel, CompletionChannel::create(context));
  LEND_TRY(queue, CompletionQueue::create(context, {.depth = 64, .channel = &channel}));
  LEND_TRY(window, MemoryWindow::create(domain));
  LEND_TRY(prepared, PreparedDatagramQueuePair::create(
                         domain, queue,
                         DatagramOptions{.send_depth = 4, .receive_depth = 4, .inline_bytes = 0}));
  auto const address = prepared.endpoint();
  LEND_TRY(datagrams, std::move(prepared).activate());
  LEND_TRY(destination, datagrams.destination(address));
  LEND_TRY(unreliable,
           PreparedUnreliableQueuePair::create(
               domain, queue,
               UnreliableOptions{.send_depth = 4, .receive_depth = 4, .inline_bytes = 0}));
  auto const peer = unreliable.endpoint();
  LEND_TRY(queue_pair, std::move(unreliable).connect(peer));
  LEND_TRY(facts, queue_pair.query());
  static_cast<void>(window);
  static_cast<void>(destination);
  static_cast<void>(facts);
  return queue_pair.abort_all();
}

/// The calls that few programs make: of datagrams, memory of other kinds, clocks and partitions.
Result<void> everything_else() {
  LEND_TRY(context, open_fake());
  LEND_TRY(keys, context.partition_keys());
  LEND_TRY(clock, DeviceClock::of(context));
  LEND_TRY(now, clock.now());
  LEND_TRY(domain, context.allocate_protection_domain());
  LEND_TRY(of_device, domain.register_dmabuf(3, 0, length));
  std::array<std::byte, 64> viewed_bytes{};
  LEND_TRY(viewed, domain.register_memory(viewed_bytes, Paging::on_demand));
  LEND_TRYV(domain.advise(Advice::prefetch, viewed.gather()));
  LEND_TRY(queue, CompletionQueue::create(context, {.depth = 64, .timestamps = true}));
  LEND_TRY(prepared, PreparedDatagramQueuePair::create(
                         domain, queue,
                         DatagramOptions{.send_depth = 4, .receive_depth = 4, .inline_bytes = 0}));
  LEND_TRY(datagrams, std::move(prepared).activate());
  std::array<std::byte, datagram_header_bytes> const header{};
  LEND_TRY(back, datagrams.destination(DatagramSender{.has_header = true}, header, 7));
  static_cast<void>(keys);
  static_cast<void>(now);
  static_cast<void>(of_device);
  static_cast<void>(back);
  return datagrams.abort_all();
}

FakeDevice device_with_everything() {
  FakeDevice device;
  device.has_paging_on_demand = true;
  device.timestamp_mask = ~std::uint64_t{0};
  device.clock_kilohertz = 1000;
  device.has_windows = true;
  device.has_channels = true;
  return device;
}

int calls_of(Result<void> (&all)()) {
  Fake::get().reset(device_with_everything());
  auto const result = all();
  INFO((result.has_error() ? result.error().message() : ""));
  REQUIRE(result.has_value());
  REQUIRE(Fake::get().violations.empty());
  REQUIRE(Fake::get().live() == 0);
  return Fake::get().calls;
}
int calls_of_everything() {
  return calls_of(everything);
}

}  // namespace

TEST_CASE("a connection made and ended leaves nothing, children ended before parents", "[verbs]") {
  int const calls = calls_of_everything();

  // List, open, two queries; domain; three allocations, four registrations; completion queue; port,
  // GID, queue pair, a transition; shared receive queue, its limit, port, GID, queue pair, a
  // transition; port, two transitions; the abort.
  CHECK(calls == 4 + 1 + 7 + 1 + 4 + 6 + 3 + 1);
  CHECK(Fake::get().made == Fake::get().destructions);
}

TEST_CASE("whichever control call fails, the error names it and nothing is left", "[verbs]") {
  auto* const all =
      GENERATE(as<Result<void> (*)()>{}, &everything, &everything_by_hand, &everything_else);
  int const calls = calls_of(*all);
  std::set<std::string> const asks{"ibv_query_qp", "ibv_query_pkey", "ibv_query_rt_values_ex",
                                   "ibv_advise_mr"};  // and makes nothing

  for (int const error : {ENOMEM, EPERM, EACCES, EINVAL, EIO, EMFILE, ETIMEDOUT, EOPNOTSUPP})
    for (bool const minus_one : {false, true})
      for (int call = 1; call <= calls; ++call) {
        auto& fake = Fake::get();
        fake.reset(device_with_everything());
        fake.fail_call = call;
        fake.fail_errno = error;
        fake.fails_with_minus_one = minus_one;
        INFO("call " << call << " fails with " << std::strerror(error));

        auto const result = all();

        INFO("it was " << fake.failed_call);
        REQUIRE(result.has_error());
        INFO(result.error().message());
        CHECK(result.error().os_error() == error);
        bool const makes = call < calls && !asks.contains(fake.failed_call);  // not the flush
        if ((error == ENOMEM || error == EMFILE) && makes) CHECK(result.error() == Errc::exhausted);
        CHECK(result.error().message().find(fake.failed_call) != std::string::npos);
        CHECK(result.error().message().find(std::strerror(error)) != std::string::npos);
        CHECK(fake.made == fake.destructions);
        CHECK(fake.live() == 0);
        CHECK(fake.violations.empty());
      }
}

/// control_calls_test.py compares this list with the provider's.
TEST_CASE("each control call that can fail is among those that fail here", "[verbs]") {
  std::set<std::string> const can_fail{
      "ibv_get_device_list",     "ibv_open_device",  "ibv_query_device",
      "ibv_query_port",          "ibv_query_gid_ex", "ibv_query_rt_values_ex",
      "ibv_query_pkey",          "ibv_alloc_pd",     "ibv_reg_mr",
      "ibv_reg_dmabuf_mr",       "ibv_advise_mr",    "ibv_alloc_mw",
      "ibv_create_comp_channel", "ibv_create_cq",    "ibv_create_cq_ex",
      "ibv_create_srq",          "ibv_modify_srq",   "ibv_create_qp",
      "ibv_modify_qp",           "ibv_query_qp",     "ibv_create_ah",
      "ibv_create_ah_from_wc",   "allocating",
  };
  std::set<std::string> called;
  for (auto* const all : {&everything, &everything_by_hand, &everything_else}) {
    static_cast<void>(calls_of(*all));
    called.merge(Fake::get().called);
  }
  CHECK(called == can_fail);
}

TEST_CASE("the provider's own reason is in the error of every control call", "[verbs]") {
  int const calls = calls_of_everything();

  for (int call = 1; call <= calls; ++call) {
    auto& fake = Fake::get();
    fake.reset();
    fake.fail_call = call;
    fake.fail_errno = EIO;
    fake.reason = "The cable is out; put it back.";

    auto const result = everything();

    INFO(fake.failed_call);
    REQUIRE(result.has_error());
    CHECK(result.error().message().find(fake.reason) != std::string::npos);
  }
}

TEST_CASE("a refused destruction is tried once and everything else is still ended", "[verbs]") {
  static_cast<void>(calls_of_everything());
  int const destructions = Fake::get().destructions;

  for (int n = 1; n <= destructions; ++n) {
    auto& fake = Fake::get();
    fake.reset();
    fake.fail_destruction = n;
    INFO("destruction " << n);

    auto const result = everything();

    CHECK(result.has_value());
    CHECK(fake.violations.empty());
    CHECK(fake.live() >= 1);
  }
}

TEST_CASE("bytes whose registration could not be ended are not released", "[verbs]") {
  auto& fake = Fake::get();
  fake.reset();
  auto context = open_fake();
  REQUIRE(context.has_value());
  auto domain = context.value().allocate_protection_domain();
  REQUIRE(domain.has_value());
  {
    auto memory = domain.value().allocate(length);
    REQUIRE(memory.has_value());
    fake.fail_destruction = fake.destructions + 1;
  }

  CHECK(fake.destructions == fake.fail_destruction);  // that of the registration, and no other
  CHECK(fake.live("region") == 1);
  CHECK(fake.live("storage") == 1);
  CHECK(fake.violations.empty());
}

TEST_CASE("a refused transition names the transition and both queue pairs", "[verbs]") {
  // From the last call, which is the abort. Before INIT to RTR the port is queried.
  for (auto const& [name, from_last] :
       {std::pair{"RESET to INIT", 4}, {"INIT to RTR", 2}, {"RTR to RTS", 1}}) {
    auto& fake = Fake::get();
    fake.reset();
    int const calls = calls_of_everything();
    fake.reset();
    fake.fail_call = calls - from_last;
    fake.fail_errno = EINVAL;

    auto const result = everything();

    REQUIRE(result.has_error());
    INFO(result.error().message());
    CHECK(result.error() == Errc::system_failed);
    CHECK(result.error().message().find(name) != std::string::npos);
    CHECK(result.error().message().find("queue pair 4660") != std::string::npos);
  }
}

TEST_CASE("a peer out of reach is an incompatible peer", "[verbs]") {
  for (int const error : {ENETUNREACH, EHOSTUNREACH}) {
    int const calls = calls_of_everything();
    auto& fake = Fake::get();
    fake.reset();
    fake.fail_call = calls - 2;
    fake.fail_errno = error;

    auto const result = everything();

    REQUIRE(result.has_error());
    CHECK(result.error() == Errc::incompatible_peer);
    CHECK(result.error().os_error() == error);
  }
}

TEST_CASE("a domain, a region and a queue pair outlive the names of their parents", "[verbs]") {
  auto& fake = Fake::get();
  fake.reset();
  {
    auto make_region = [] {
      auto domain = open_fake().value().allocate_protection_domain().value();
      return domain.allocate(length).value();
    };
    auto const region = make_region();
    CHECK(fake.live("context") == 1);
    CHECK(fake.live("domain") == 1);
    CHECK(region.size() == length);
  }

  CHECK(fake.live() == 0);
  CHECK(fake.violations.empty());
}
