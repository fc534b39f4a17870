// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what a card says of its clock and of timed completions is read as it is meant, and each
// refusal says what to do. Method: the fake provider, whose clock has 48 bits and 156.25 MHz.
#include "support/catch.hpp"
#include "verbs/fake_provider.hpp"

#include <lend/verbs/completion_queue.hpp>
#include <lend/verbs/device_clock.hpp>

#include <endian.h>

#include <array>
#include <cerrno>
#include <cstring>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t mask = (std::uint64_t{1} << 48) - 1;
constexpr CompletionQueueOptions timed{.depth = 64, .timestamps = true};

Context device_with_clock() {
  Fake::get().reset({.timestamp_mask = mask, .clock_kilohertz = 156'250});
  return open_fake().value();
}

ibv_wc entry_of(std::uint64_t id, ibv_wc_opcode opcode, ibv_wc_status status = IBV_WC_SUCCESS) {
  ibv_wc entry;
  std::memset(&entry, 0xff, sizeof entry);
  entry.wr_id = id;
  entry.status = status;
  entry.opcode = opcode;
  entry.wc_flags = 0;
  return entry;
}

}  // namespace

TEST_CASE("each field of a timed completion is taken, and none of a failed one", "[verbs]") {
  auto queue = CompletionQueue::create(device_with_clock(), timed).value();
  auto received = entry_of(1, IBV_WC_RECV);
  received.byte_len = 50;
  received.wc_flags = IBV_WC_WITH_IMM | IBV_WC_GRH;
  received.imm_data = htobe32(0x1234'5678);
  received.src_qp = 0x55;
  received.slid = 7;
  received.sl = 3;
  received.dlid_path_bits = 2;
  auto failed = entry_of(2, IBV_WC_SEND, IBV_WC_RNR_RETRY_EXC_ERR);
  failed.vendor_err = 42;
  auto returning = entry_of(3, IBV_WC_RECV);
  returning.wc_flags = IBV_WC_WITH_INV;
  returning.invalidated_rkey = 99;
  Fake::get().completions = {received, failed, returning, entry_of(4, IBV_WC_SEND)};
  Fake::get().times = {1000, 2000, 3000, 4000};
  std::array<TimedCompletion, 8> room;

  auto const polled = queue.poll(room).value();

  REQUIRE(polled.size() == 4);
  CHECK(polled[0].id == 1);
  CHECK(polled[0].at.ticks == 1000);
  CHECK(polled[0].success()->bytes == 50);
  CHECK(polled[0].success()->immediate == 0x1234'5678u);
  CHECK(polled[0].sender.number.value() == 0x55);
  CHECK(polled[0].sender.lid == 7);
  CHECK(polled[0].sender.service_level == 3);
  CHECK(polled[0].sender.path_bits == 2);
  CHECK(polled[0].sender.has_header);
  REQUIRE(polled[1].failure() != nullptr);
  CHECK(polled[1].failure()->status == WorkStatus::receiver_not_ready_exceeded);
  CHECK(polled[1].failure()->vendor_code == 42);
  CHECK(polled[1].at.ticks == 0);
  CHECK(polled[2].success()->returned == 99u);
  CHECK(polled[2].at.ticks == 3000);
  CHECK(polled[3].at.ticks == 4000);
  CHECK(Fake::get().polls_not_ended == 0);
}

TEST_CASE("a timed queue is polled in batches, to the end or to its failure", "[verbs]") {
  auto queue = CompletionQueue::create(device_with_clock(), timed).value();
  std::array<TimedCompletion, 40> room;
  CHECK(queue.poll(room).value().empty());
  CHECK(queue.poll(std::span<TimedCompletion>{}).value().empty());
  for (std::uint64_t id = 0; id < 41; ++id) {
    Fake::get().completions.push_back(entry_of(id, IBV_WC_SEND));
    Fake::get().times.push_back(100 + id);
  }
  Fake::get().poll_result = -5;  // once they are taken
  auto const first = queue.poll(room).value();
  REQUIRE(first.size() == 40);
  for (std::uint64_t id = 0; id < 40; ++id) CHECK(first[id].at.ticks == 100 + id);
  CHECK(queue.poll(room).value().size() == 1);

  auto const failed = queue.poll(room);
  REQUIRE(failed.has_error());
  CHECK(failed.error().code() == Errc::system_failed);
  CHECK_THAT(failed.error().message(), Catch::Contains("no work has ended"));
  CHECK(Fake::get().polls_not_ended == 0);
}

TEST_CASE("what a clock counts beyond its bits is no time, and it goes round", "[verbs]") {
  auto const clock = DeviceClock::of(device_with_clock()).value();
  CHECK(clock.kilohertz() == 156'250);
  CHECK(clock.mask() == mask);
  Fake::get().clock.raw_clock.tv_nsec = static_cast<long>((mask + 1) * 3 + 5);
  auto const now = clock.now().value();
  CHECK(now.ticks == 5);
  CHECK(clock.elapsed({mask - 156'250 + 6}, now) == 1ms);
  CHECK(clock.elapsed(now, {mask - 156'250 + 6}) == -1ms);
  CHECK(clock.elapsed({0}, {1}) == 6ns);  // 6.4
  CHECK(clock.elapsed({0}, {mask / 2}) > std::chrono::hours{240});
}

TEST_CASE("a clock that cannot be read, and a queue that cannot be made, say what to do",
          "[verbs]") {
  auto const context = device_with_clock();
  auto const clock = DeviceClock::of(context).value();
  Fake::get().calls = 0;
  Fake::get().fail_call = 1;
  SECTION("the clock") {
    Fake::get().fail_errno = EOPNOTSUPP;
    auto const now = clock.now();
    REQUIRE(now.has_error());
    CHECK(now.error().code() == Errc::unsupported);
    CHECK(now.error().os_error() == EOPNOTSUPP);
    CHECK_THAT(now.error().message(),
               Catch::Contains("ibv_query_rt_values_ex") &&
                   Catch::Contains("compare the times of its completions with each other"));
  }
  SECTION("the queue") {
    Fake::get().fail_errno = ENOMEM;
    auto const queue = CompletionQueue::create(context, timed);
    REQUIRE(queue.has_error());
    CHECK(queue.error().code() == Errc::exhausted);
    CHECK_THAT(queue.error().message(), Catch::Contains("ibv_create_cq_ex of 64 entries"));
  }
  CHECK(Fake::get().live("completion queue") == 0);
}

TEST_CASE("a device that says nothing of its ticks has no timestamps", "[verbs]") {
  std::uint64_t const khz = GENERATE(std::uint64_t{0}, std::uint64_t{156'250});
  Fake::get().reset({.timestamp_mask = khz == 0 ? mask : 0, .clock_kilohertz = khz});
  auto const context = open_fake().value();
  CHECK_FALSE(context.capabilities().timestamps);
  CHECK(DeviceClock::of(context).error().code() == Errc::unsupported);
  auto const queue = CompletionQueue::create(context, timed);
  REQUIRE(queue.has_error());
  CHECK(queue.error().code() == Errc::unsupported);
  CHECK(Fake::get().live("completion queue") == 0);
}
