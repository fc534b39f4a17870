// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a completion's status decides what is read of it; polls are batched and failures kept
// apart. Method: entries scripted on the fake provider, unreadable fields filled with poison.
#include "support/catch.hpp"
#include "verbs/fake_provider.hpp"

#include <lend/verbs/completion_queue.hpp>
#include <lend/verbs/context.hpp>
#include <verbs/device/device_list.hpp>

#include <endian.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

using namespace lend;
using namespace lend::test;

namespace {

CompletionQueue queue_of(std::uint32_t depth = 64) {
  Fake::get().reset();
  return CompletionQueue::create(open_fake().value(), depth).value();
}

ibv_wc poisoned(std::uint64_t id, ibv_wc_status status) {
  ibv_wc entry;
  std::memset(&entry, 0xff, sizeof entry);
  entry.wr_id = id;
  entry.status = status;
  return entry;
}

ibv_wc succeeded(std::uint64_t id, ibv_wc_opcode opcode) {
  ibv_wc entry = poisoned(id, IBV_WC_SUCCESS);
  entry.opcode = opcode;
  entry.byte_len = 77;
  entry.wc_flags = 0;
  return entry;
}

}  // namespace

TEST_CASE("nothing but id, status and vendor code is taken from a failed completion", "[verbs]") {
  auto queue = queue_of();
  auto entry = poisoned(9, IBV_WC_REM_ACCESS_ERR);
  entry.vendor_err = 42;
  Fake::get().completions.push_back(entry);
  std::array<Completion, 4> room;

  auto const polled = queue.poll(room);

  REQUIRE(polled.has_value());
  REQUIRE(polled.value().size() == 1);
  auto const& completion = polled.value()[0];
  CHECK(completion.id == 9);
  CHECK(completion.success() == nullptr);
  REQUIRE(completion.failure() != nullptr);
  CHECK(completion.failure()->status == WorkStatus::remote_access);
  CHECK(completion.failure()->vendor_code == 42);
}

TEST_CASE("an immediate is there exactly when the device flags it on a receive, in host order",
          "[verbs]") {
  auto queue = queue_of();
  auto with = succeeded(1, IBV_WC_RECV);
  with.wc_flags = IBV_WC_WITH_IMM;
  with.imm_data = htobe32(0x1234'5678);
  auto sent = succeeded(3, IBV_WC_SEND);
  sent.wc_flags = IBV_WC_WITH_IMM;
  Fake::get().completions = {with, succeeded(2, IBV_WC_RECV), sent};
  std::array<Completion, 4> room;

  auto const polled = queue.poll(room).value();

  REQUIRE(polled.size() == 3);
  CHECK(polled[0].success()->immediate == 0x1234'5678u);
  CHECK_FALSE(polled[1].success()->immediate.has_value());
  CHECK_FALSE(polled[2].success()->immediate.has_value());
}

TEST_CASE("a byte count is there for what the device wrote here", "[verbs]") {
  auto queue = queue_of();
  Fake::get().completions = {succeeded(1, IBV_WC_RECV), succeeded(2, IBV_WC_RECV_RDMA_WITH_IMM),
                             succeeded(3, IBV_WC_RDMA_READ), succeeded(4, IBV_WC_SEND),
                             succeeded(5, IBV_WC_RDMA_WRITE)};
  std::array<Completion, 8> room;

  auto const polled = queue.poll(room).value();

  REQUIRE(polled.size() == 5);
  for (std::size_t i = 0; i < 3; ++i) CHECK(polled[i].success()->bytes == 77);
  for (std::size_t i = 3; i < 5; ++i) CHECK(polled[i].success()->bytes == 0);
}

TEST_CASE("a poll takes what is there, in order, up to the room it has", "[verbs]") {
  auto queue = queue_of(200);
  for (std::size_t count : {0u, 1u, 15u, 16u, 17u, 32u, 40u, 100u}) {
    for (std::size_t room_size : {0u, 1u, 16u, 17u, 64u}) {
      INFO(count << " there, room for " << room_size);
      Fake::get().completions.clear();
      for (std::size_t i = 0; i < count; ++i)
        Fake::get().completions.push_back(succeeded(i, IBV_WC_RECV));
      std::vector<Completion> room(room_size);

      auto const polled = queue.poll(room);

      REQUIRE(polled.has_value());
      CHECK(polled.value().size() == std::min(count, room_size));
      CHECK(Fake::get().completions.size() == count - polled.value().size());
      for (std::size_t i = 0; i < polled.value().size(); ++i) CHECK(polled.value()[i].id == i);
    }
  }
}

TEST_CASE("a failed poll is an error and no completion", "[verbs]") {
  auto queue = queue_of();
  Fake::get().poll_result = -5;
  std::array<Completion, 4> room;

  auto const polled = queue.poll(room);

  REQUIRE(polled.has_error());
  CHECK(polled.error() == Errc::system_failed);
  CHECK(polled.error().message().find("-5") != std::string::npos);
}

TEST_CASE("a failed poll tells errno and the reason of a provider that has one", "[verbs]") {
  auto queue = queue_of();
  Fake::get().poll_result = -ENODEV;
  Fake::get().reason = "it was pulled out: put it back";
  std::array<Completion, 4> room;

  auto const polled = queue.poll(room);

  REQUIRE(polled.has_error());
  CHECK(polled.error() == Errc::system_failed);
  CHECK(polled.error().os_error() == ENODEV);
  CHECK(polled.error().message() ==
        "ibv_poll_cq on a queue of 64 entries failed: No such device (errno 19). it was pulled "
        "out: put it back");
}

TEST_CASE("completions taken before a poll fails are not lost", "[verbs]") {
  auto queue = queue_of();
  for (std::uint64_t i = 0; i < 16; ++i)
    Fake::get().completions.push_back(succeeded(i, IBV_WC_RECV));
  Fake::get().poll_result = -1;
  std::array<Completion, 32> room;

  CHECK(queue.poll(room).value().size() == 16);
  CHECK(queue.poll(room).has_error());
}

TEST_CASE("a completion queue's depth is 1 to the device's limit", "[verbs]") {
  Fake::get().reset();
  auto const context = open_fake().value();

  CHECK(CompletionQueue::create(context, 1).has_value());
  CHECK(CompletionQueue::create(context, 4096).has_value());
  for (std::uint32_t depth : {0u, 4097u, 0x7fff'ffffu, 0x8000'0000u, 0xffff'ffffu}) {
    auto const queue = CompletionQueue::create(context, depth);
    REQUIRE(queue.has_error());
    CHECK(queue.error() == Errc::invalid_argument);
    CHECK(queue.error().message().find(std::to_string(depth)) != std::string::npos);
    CHECK(queue.error().message().find("1 to 4096") != std::string::npos);
  }
}

TEST_CASE("a completion channel that cannot be made not to block is told as that", "[verbs]") {
  Fake::get().reset();
  static ibv_comp_channel closed{};
  closed.fd = -1;
  verbs::Provider provider = fake_provider();
  provider.create_comp_channel = [](ibv_context*) { return &closed; };
  provider.destroy_comp_channel = [](ibv_comp_channel*) { return 0; };
  auto const context = verbs::devices_of(provider).value().front().open().value();

  auto const queue = CompletionQueue::create(context, 8, Wakeable::yes);

  REQUIRE(queue.has_error());
  CHECK(queue.error().os_error() == EBADF);
  CHECK_THAT(queue.error().message(), Catch::StartsWith("fcntl of a completion channel failed"));
  CHECK_FALSE(CompletionQueue::create(context, 8, Wakeable::if_spare).value().is_wakeable());
}

TEST_CASE("a device that grants less than it was asked for is refused", "[verbs]") {
  FakeDevice device;
  device.completions_withheld = 1;
  Fake::get().reset(device);
  auto const context = open_fake().value();

  auto const queue = CompletionQueue::create(context, 8);

  REQUIRE(queue.has_error());
  CHECK(queue.error() == Errc::exhausted);
  CHECK(Fake::get().live("completion queue") == 0);
}
