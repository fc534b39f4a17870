// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: faults come when and as they were ordered, the same each time, and lend accounts for all.
// Also the example for tests of programs built on lend: a plan, the program, what it made of it.
#include <lend/soft/faults.hpp>

#include <cstdlib>

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
    options.queue_pair.ack_timeout = 1ms;
    options.queue_pair.ack_retries = 2;
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
  auto const read = must(FaultPlan::parse(plan.text()));
  CHECK(read.faults() == plan.faults());
  CHECK(must(FaultPlan::parse("  drop@3 ")).text() == "drop@3:1");
  CHECK(must(FaultPlan::parse("")).text().empty());
  for (auto const* const nonsense :
       {"drop", "drop@", "drop@0", "drop@x", "drop@3:", "drop@3:-1", "delay@3", "control@3",
        "flush@3:1", "fall@3", "@3", "drop@3,flush@4", "drop@99999999999999999999"}) {
    CAPTURE(nonsense);
    CHECK(error_of(FaultPlan::parse(nonsense)) == Errc::invalid_argument);
  }
}

TEST_CASE("a seed gives one plan", "[soft]") {
  CHECK(FaultPlan::random(7, 5, 100).text() == FaultPlan::random(7, 5, 100).text());
  CHECK(FaultPlan::random(7, 5, 100).text() != FaultPlan::random(8, 5, 100).text());
  auto const many = FaultPlan::random(7, 50, 10);
  CHECK(many.faults().size() == 50);
  for (auto const& fault : many.faults()) CHECK((fault.at - 1) < 10);
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
