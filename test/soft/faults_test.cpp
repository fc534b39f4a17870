// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: faults come when and as they were ordered, the same each time, and lend accounts for all.
// Also the example for tests of programs built on lend: a plan, the program, what it made of it.
#include <lend/soft/faults.hpp>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <thread>

#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

/// Two ends on the soft device, of short patience, with a plan from here on.
struct Faulty {
  TwoEnds ends;
  MemoryRegion memory;

  explicit Faulty(FaultPlan const& plan)
      : ends{two_ends(impatient())}, memory{must(ends.domain.allocate(256))} {
    must(inject_faults(ends.context, plan));
  }
  static ChannelOptions impatient() {
    ChannelOptions options;
    options.queue_pair.connection.ack_timeout = 1ms;
    options.queue_pair.connection.ack_retries = 2;
    options.queue_pair.receiver_not_ready_retries = 2;
    return options;
  }
  /// One message from a to b.
  Result<void> pass_message() {
    PollingScope receiving{ends.b};
    receiving.drain_within(20ms);  // what will not come is flushed then
    LEND_TRY(received, receiving.post_receive(memory.scatter(128, 8)));
    LEND_TRYV(ends.a.send(memory.gather(0, 8), within(10s)));
    LEND_TRYV(received.wait(within(10s)));
    return receiving.finish();
  }
  WorkStatus failure_of_message() {
    auto const error = error_of(pass_message());
    REQUIRE(error.work() != nullptr);
    return error.work()->status;
  }
};

}  // namespace

TEST_CASE("a plan is the same in words", "[soft]") {
  auto const plan = FaultPlan{}
                        .drop(3, 2)
                        .delay(5, 200us)
                        .receiver_not_ready(7)
                        .flush(9)
                        .peer_dies(11)
                        .completion_queue_fails(20)
                        .control_call_fails(4, ENOMEM);
  CHECK(plan.text() ==
        "drop@3:2 delay@5:200000 rnr@7:1 flush@9 peer-death@11 queue-error@20 control@4:12");
  CHECK(FaultPlan{}.drop(3).peer_dies(10).text() == "drop@3:1 peer-death@10");
  // What a temporary hands out outlives it.
  auto const& faults = FaultPlan{}.drop(3).peer_dies(10).faults();
  auto const& same = FaultPlan{}.drop(3).peer_dies(10);
  CHECK(faults == same.faults());
  auto const read = must(FaultPlan::parse(plan.text()));
  CHECK(read.faults() == plan.faults());
  CHECK(must(FaultPlan::parse("  drop@3 ")).text() == "drop@3:1");
  CHECK(must(FaultPlan::parse("")).text().empty());
  for (auto const* const nonsense :
       {"drop", "drop@", "drop@x", "drop@3:", "drop@3:-1", "delay@3", "control@3", "flush@3:1",
        "fall@3", "@3", "drop@3,flush@4", "drop@99999999999999999999"}) {
    CAPTURE(nonsense);
    CHECK(error_of(FaultPlan::parse(nonsense)) == Errc::invalid_argument);
  }
}

TEST_CASE("a fault that can never strike is refused, with its reason, and the old plan stays",
          "[soft]") {
  auto const context = must(open_device(DeviceChoice::soft()));
  auto const drop_next = FaultPlan{}.control_call_fails(1, EACCES);
  struct Bad {
    FaultPlan plan;
    char const* word;
    char const* reason;
  };
  for (auto const& [plan, word, reason] : {
           Bad{FaultPlan{}.drop(0), "drop@0:1", "from 1 on"},
           Bad{FaultPlan{}.flush(0), "flush@0", "from 1 on"},
           Bad{FaultPlan{}.peer_dies(0), "peer-death@0", "from 1 on"},
           Bad{FaultPlan{}.completion_queue_fails(0), "queue-error@0", "from 1 on"},
           Bad{FaultPlan{}.port_goes_down(0), "port-down@0", "from 1 on"},
           Bad{FaultPlan{}.control_call_fails(0, ENOMEM), "control@0:12", "from 1 on"},
           Bad{FaultPlan{}.drop(3, 0), "drop@3:0", "1 to 4294967295 times"},
           Bad{FaultPlan{}.flush(9).receiver_not_ready(3, 0), "rnr@3:0", "1 to 4294967295 times"},
           Bad{FaultPlan{}.delay(3, -1us), "delay@3:-1000", "a delay is positive"},
           Bad{FaultPlan{}.delay(3, 0us), "delay@3:0", "a delay is positive"},
           Bad{FaultPlan{}.control_call_fails(3, 0), "control@3:0", "an errno is 1 to 4095"},
           Bad{FaultPlan{}.control_call_fails(3, 4096), "control@3:4096", "an errno is 1 to 4095"},
       }) {
    CAPTURE(word);
    must(inject_faults(context, drop_next));

    auto const injected = error_of(inject_faults(context, plan));

    CHECK(injected == Errc::invalid_argument);
    CHECK(injected.message().find(word) != std::string::npos);
    CHECK(injected.message().find(reason) != std::string::npos);
    CHECK(error_of(context.allocate_protection_domain()).os_error() == EACCES);
    auto const parsed = error_of(FaultPlan::parse(plan.text()));
    CHECK(parsed == Errc::invalid_argument);
    CHECK(parsed.message().find(word) != std::string::npos);
  }
  must(inject_faults(context,
                     FaultPlan{}.drop(1, UINT_MAX).delay(2, 1ns).control_call_fails(99, 4095)));
  CHECK(error_of(FaultPlan::parse("drop@3:4294967296")) == Errc::invalid_argument);
}

TEST_CASE("a plan is changed while another thread makes control calls", "[soft]") {
  auto const context = must(open_device(DeviceChoice::soft()));
  std::atomic<bool> is_over{false};
  int otherwise = 0;
  std::thread caller{[&] {
    while (!is_over) {
      auto const made = context.allocate_protection_domain();
      if (!made.has_value() && made.error().os_error() != EACCES) ++otherwise;
    }
  }};
  for (std::uint64_t turn = 0; turn < 200; ++turn)
    must(inject_faults(context, FaultPlan{}.control_call_fails(1 + turn % 3, EACCES)));
  is_over = true;
  caller.join();
  CHECK(otherwise == 0);
  must(inject_faults(context, {}));
  CHECK(context.allocate_protection_domain().has_value());
}

TEST_CASE("a seed gives one plan", "[soft]") {
  CHECK(FaultPlan::random(7, 5, 100).text() == FaultPlan::random(7, 5, 100).text());
  CHECK(FaultPlan::random(7, 5, 100).text() != FaultPlan::random(8, 5, 100).text());
  auto const many = FaultPlan::random(7, 50, 10);
  CHECK(many.faults().size() == 50);
  unsigned kinds = 0;
  for (auto const& fault : many.faults()) {
    CHECK((fault.at - 1) < 10);
    kinds |= 1u << static_cast<unsigned>(fault.kind);
  }
  CHECK(kinds == 0b111'1111);
  auto const read = must(FaultPlan::parse(many.text()));
  CHECK(read.faults() == many.faults());
}

TEST_CASE("a message dropped within the retries arrives late, one dropped beyond them fails",
          "[soft]") {
  Faulty faulty{FaultPlan{}.drop(2, 2).drop(4, 3)};
  must(faulty.pass_message());
  auto const start = std::chrono::steady_clock::now();
  must(faulty.pass_message());
  CHECK(std::chrono::steady_clock::now() - start >= 2ms);  // two acknowledgement timeouts
  must(faulty.pass_message());
  CHECK(faulty.failure_of_message() == WorkStatus::retry_exceeded);
  CHECK(faulty.memory.loans() == 0);
}

TEST_CASE("a receiver that is not ready is asked again as often as the retries say", "[soft]") {
  Faulty faulty{FaultPlan{}.receiver_not_ready(1, 2).receiver_not_ready(2, 3)};
  must(faulty.pass_message());
  CHECK(faulty.failure_of_message() == WorkStatus::receiver_not_ready_exceeded);
  CHECK(faulty.memory.loans() == 0);
}

TEST_CASE("work behind a delayed request stays behind it", "[soft]") {
  Faulty faulty{FaultPlan{}.delay(1, 5ms)};
  auto& memory = faulty.memory;
  put(memory, 0, "first   second  ");
  auto const start = std::chrono::steady_clock::now();
  PollingScope receiving{faulty.ends.b};
  static_cast<void>(must(receiving.post_receive(memory.scatter(128, 8))));
  static_cast<void>(must(receiving.post_receive(memory.scatter(136, 8))));
  PollingScope sending{faulty.ends.a};
  static_cast<void>(must(sending.post_send(memory.gather(0, 8))));
  static_cast<void>(must(sending.post_send(memory.gather(8, 8))));
  must(sending.finish());
  must(receiving.finish());
  CHECK(std::chrono::steady_clock::now() - start >= 5ms);
  CHECK(text_at(memory, 128, 16) == "first   second  ");
}

TEST_CASE("a queue that fails behind a delay gives out what its last poll brought, then fails",
          "[soft]") {
  ChannelOptions options;
  options.wait = Wait::spin;  // no thread but this one starts the second request
  auto ends = two_ends(options);
  auto const memory = must(ends.domain.allocate(16));
  auto const there = must(ends.domain.unsafe_allocate_exposed(16, RemoteAccess::write));
  auto const remote = must(there.remote());
  must(inject_faults(ends.context, FaultPlan{}.delay(1, 1ms).completion_queue_fails(2)));
  {
    PollingScope scope{ends.a};
    auto batch = scope.batch();
    for (std::size_t i = 0; i < 16; i += 8)
      must(batch.add_write({memory.gather(i, 8), remote.slice(i, 8)}, no_handle));
    must(batch.post());
    must(scope.finish());  // the poll that ends the delay starts both requests, and brings both
  }
  CHECK(ends.a.first_cause() == nullptr);
  PollingScope scope{ends.a};
  static_cast<void>(must(scope.post_write({memory.gather(0, 8), remote.slice(0, 8)})));
  CHECK(error_of(scope.finish()) == Errc::system_failed);
  CHECK(memory.loans() == 0);
}

TEST_CASE("a flushed queue pair, a dead peer and a failed queue end the work they strike",
          "[soft]") {
  SECTION("flush") {
    Faulty faulty{FaultPlan{}.flush(2)};
    must(faulty.pass_message());
    CHECK(faulty.failure_of_message() == WorkStatus::flushed);
    CHECK(faulty.memory.loans() == 0);
  }
  SECTION("peer death") {
    Faulty faulty{FaultPlan{}.peer_dies(2)};
    must(faulty.pass_message());
    CHECK(faulty.failure_of_message() == WorkStatus::retry_exceeded);
    CHECK(faulty.memory.loans() == 0);
  }
  SECTION("queue error") {
    Faulty faulty{FaultPlan{}.completion_queue_fails(2)};
    must(faulty.pass_message());
    auto const error = error_of(faulty.pass_message());
    CHECK(error == Errc::system_failed);
    CHECK(faulty.memory.loans() == 0);
  }
}

TEST_CASE("a port that is down connects nobody until it is up, and what was connected goes on",
          "[soft]") {
  auto const plan = FaultPlan{}.port_goes_down(2).port_comes_up(4);
  CHECK(plan.text() == "port-down@2 port-up@4");
  Faulty faulty{plan};
  must(faulty.pass_message());
  must(faulty.pass_message());
  auto const refused = error_of(prepare_channel(faulty.ends.domain, {}));
  CHECK(refused.message().find("DOWN") != std::string::npos);
  must(faulty.pass_message());
  must(faulty.pass_message());
  must(prepare_channel(faulty.ends.domain, {}));
}

TEST_CASE("each control call of a connection fails in its turn, and the next try succeeds",
          "[soft]") {
  auto const context = must(open_device(DeviceChoice::soft()));
  unsigned failures = 0;
  for (std::uint64_t call = 1; call <= 30; ++call) {  // more than it makes
    CAPTURE(call);
    must(inject_faults(context, FaultPlan{}.control_call_fails(call, ENOMEM)));
    auto const connect = [&]() -> Result<void> {
      LEND_TRY(domain, context.allocate_protection_domain());
      LEND_TRY(memory, domain.allocate(64));
      LEND_TRY(prepared, channel_builder().protection_domain(domain).build());
      auto const self = prepared.endpoint();
      LEND_TRY(channel, std::move(prepared).handshake(self));
      PollingScope scope{channel};
      LEND_TRYV(scope.post_receive(memory.scatter(0, 8)));
      LEND_TRYV(channel.send(memory.gather(8, 8), within(10s)));
      return scope.finish();
    };
    auto const outcome = connect();
    must(inject_faults(context, {}));
    must(connect());
    if (outcome.has_value()) continue;  // there are calls it can do without
    CHECK(outcome.error().os_error() == ENOMEM);
    ++failures;
  }
  CHECK(failures >= 7);  // domain, memory, its region, queues, queue pair, three states
}

TEST_CASE("the environment plans for programs that nobody changes", "[soft]") {
  REQUIRE(::setenv("LEND_SOFT_FAULTS", "control@1:13", 1) == 0);
  auto const opened = open_device(DeviceChoice::soft());
  REQUIRE(::setenv("LEND_SOFT_FAULTS", "nonsense", 1) == 0);
  auto const refused = open_device(DeviceChoice::soft());
  REQUIRE(::unsetenv("LEND_SOFT_FAULTS") == 0);

  REQUIRE(!refused.has_value());
  CHECK(refused.error().message().find("no fault: nonsense") != std::string::npos);
  REQUIRE(!opened.has_value());  // opening asks what the device is: that is the first call
  CHECK(opened.error().os_error() == EACCES);
}
