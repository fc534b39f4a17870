// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a write at once copies any bytes of the process, or posts nothing.
// Method: raw queue pairs, and each reason that there is against it; and what a stream posts.
#include <lend/open_device.hpp>
#include <lend/soft/faults.hpp>
#include <lend/stream/byte_stream.hpp>
#include <soft/engine/post.hpp>
#include <soft/objects/completion_queue.hpp>
#include <soft/objects/context.hpp>
#include <soft/objects/domain.hpp>
#include <soft/objects/queue_pair.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <csetjmp>
#include <csignal>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "soft/support.hpp"
#include "transport/channel_ends.hpp"

namespace lend::test::at_once {

namespace {

bool writes_at_once(End const& end, std::span<std::byte const> bytes, Memory const& to,
                    ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE) {
  Request request{.opcode = opcode,
                  .id = 9,
                  .pieces = {{reinterpret_cast<std::uint64_t>(bytes.data()),
                              static_cast<std::uint32_t>(bytes.size()), 0}},
                  .remote_address = to.address(),
                  .remote_key = to.key()};
  return ibv().write_at_once(end.qp.get(), work_of(request));
}

std::vector<std::byte> numbered(std::size_t length) {
  std::vector<std::byte> bytes(length);
  for (std::size_t i = 0; i < length; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
  return bytes;
}

}  // namespace

TEST_CASE("a write at once copies any bytes of the process, whatever their number", "[soft]") {
  Link const link{GENERATE(Reach::one_context, Reach::two_contexts), Terms{}};
  constexpr std::size_t room = 40'000;
  Memory const to{link.b.domain.get(), room, all_access, Where::allocated};
  auto const length = GENERATE(1u, 8u, 257u, 8'192u, 32'769u);
  bool const is_told = GENERATE(false, true);
  REQUIRE(post_receive(link.b, 5) == 0);
  to.write(0, std::string(room, '-'));
  auto const bytes = numbered(length);

  CHECK(
      writes_at_once(link.a, bytes, to, is_told ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE));

  auto const done = await_one(link.a.sends);
  CHECK(done.status == IBV_WC_SUCCESS);
  CHECK(done.opcode == IBV_WC_RDMA_WRITE);
  CHECK(done.wr_id == 9);
  auto const received = poll(link.b.receives);
  REQUIRE(received.size() == (is_told ? 1 : 0));
  for (auto const& end : received) CHECK(end.byte_len == length);
  CHECK(std::equal(bytes.begin(), bytes.end(), to.at(0)));
  CHECK(to.read(length, room - length) == std::string(room - length, '-'));
}

TEST_CASE(
    "what cannot be written at once is not posted, and changes no byte but those it may write",
    "[soft]") {
  Link const link{Reach::two_contexts, Terms{}};
  Memory to{link.b.domain.get(), 300, all_access, Where::allocated};
  Memory const apart{link.b.domain.get(), 300};
  auto const bytes = numbered(300);
  auto& own = *static_cast<soft::QueuePair*>(link.a.qp.get());
  auto& rx = static_cast<soft::QueuePair*>(link.b.qp.get())->shared->rx;
  to.write(0, std::string(300, '-'));
  auto const check_left = [&](ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE) {
    CHECK_FALSE(writes_at_once(link.a, bytes, to, opcode));
    CHECK(poll(link.a.sends).empty());
    CHECK(poll(link.b.receives).empty());
    CHECK(to.read(0, 300) == std::string(300, '-'));
  };

  check_left(IBV_WR_RDMA_WRITE_WITH_IMM);  // without a receive
  check_left(IBV_WR_SEND);
  check_left(IBV_WR_RDMA_READ);
  CHECK_FALSE(writes_at_once(link.a, {}, to));
  CHECK_FALSE(writes_at_once(link.a, bytes, apart));  // not mapped
  own.send_lock.lock();
  check_left();
  own.send_lock.unlock();
  rx.lock({7, nullptr, nullptr});
  check_left();
  rx.unlock();
  own.owner().faults.plan(FaultPlan{}.drop(1'000'000).faults());
  check_left();
  own.owner().faults.plan({});
  CHECK(writes_at_once(link.a, bytes, to));
  CHECK(await_one(link.a.sends).status == IBV_WC_SUCCESS);
  CHECK(std::equal(bytes.begin(), bytes.end(), to.at(0)));

  to.write(0, std::string(300, '-'));
  SECTION("an end is broken, was reset, or drains") {
    // The table is kept from one run of the test to the next; the ends are not.
    auto const [end, state] = GENERATE(table<End Link::*, ibv_qp_state>({{&Link::b, IBV_QPS_ERR},
                                                                         {&Link::a, IBV_QPS_ERR},
                                                                         {&Link::b, IBV_QPS_RESET},
                                                                         {&Link::a, IBV_QPS_RESET},
                                                                         {&Link::a, IBV_QPS_SQD}}));
    REQUIRE(move((link.*end).qp.get(), state, {}, IBV_QP_STATE) == 0);
    check_left();
  }
  SECTION("the target has broken the sender") {
    own.shared->state.store(IBV_QPS_ERR);
    check_left();
  }
  SECTION("the target's queue is held, which is found when the bytes are there") {
    REQUIRE(post_receive(link.b, 5) == 0);
    auto& lock = static_cast<soft::CompletionQueue*>(link.b.receives.get())->shared->lock;
    lock.lock(soft::Context::of(link.second.get()).claimant);
    CHECK_FALSE(writes_at_once(link.a, bytes, to, IBV_WR_RDMA_WRITE_WITH_IMM));
    lock.unlock();
    CHECK(poll(link.a.sends).empty());
    CHECK(poll(link.b.receives).empty());
    CHECK(std::equal(bytes.begin(), bytes.end(), to.at(0)));
    CHECK(writes_at_once(link.a, bytes, to, IBV_WR_RDMA_WRITE_WITH_IMM));
    CHECK(await_one(link.b.receives).wr_id == 5);
  }
  SECTION("the bytes may not be written") {
    REQUIRE(soft::rereg_mr(to.region(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                           IBV_ACCESS_REMOTE_READ) == 0);
    check_left();
  }
}

TEST_CASE("bytes that cannot be read fault while no lock is held", "[soft]") {
  constexpr std::size_t page = 4096, length = 3 * page;
  auto const context = must(open_device(DeviceChoice::soft()));
  auto [a, b] = must(try_ends<CreditRing>(must(context.allocate_protection_domain())));
  auto* const pages =
      ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(pages != MAP_FAILED);
  std::span<std::byte> const bytes{static_cast<std::byte*>(pages), length};
  std::ranges::copy(numbered(length), bytes.begin());
  auto* const gap = bytes.data() + GENERATE(0u, 1u, 2u) * page;
  static sigjmp_buf back;
  struct sigaction before {
  }, jump{};
  jump.sa_handler = [](int) { siglongjmp(back, 1); };
  REQUIRE(::mprotect(gap, page, PROT_NONE) == 0);
  REQUIRE(::sigaction(SIGSEGV, &jump, &before) == 0);

  bool const has_faulted = sigsetjmp(back, 1) != 0;
  // From the middle of a page on.
  if (!has_faulted) static_cast<void>(a.try_send_some(length - 8, bytes.subspan(8)));

  REQUIRE(::sigaction(SIGSEGV, &before, nullptr) == 0);
  REQUIRE(::mprotect(gap, page, PROT_READ) == 0);
  CHECK(has_faulted);
  CHECK_FALSE(must(b.try_receive()));
  CHECK(must(a.try_send_some(length, bytes)) == length);
  auto const came = must(b.try_receive());
  CHECK(std::ranges::equal(bytes, came.bytes()));
  REQUIRE(::munmap(pages, length) == 0);
}

TEST_CASE("a stream posts none of its own memory, but pieces, and where faults are planned",
          "[soft]") {
  auto const context = must(open_device(DeviceChoice::soft()));
  static ibv_context_ops device;
  static std::size_t posted;  // bytes of the transport's own memory
  device = context.native()->ops;
  posted = 0;
  context.native()->ops.post_send = [](ibv_qp* queue_pair, ibv_send_wr* work, ibv_send_wr** bad) {
    for (auto const* each = work; each != nullptr; each = each->next)
      for (int i = 0; i < each->num_sge; ++i) posted += each->sg_list[i].length;
    return device.post_send(queue_pair, work, bad);
  };
  auto [a, b] = must(try_ends<CreditRing>(must(context.allocate_protection_domain())));
  ByteStream out{AnyTransport{std::move(a)}}, in{AnyTransport{std::move(b)}};
  auto const bytes = numbered(100'000);
  auto const pass = [&](std::vector<std::span<std::byte const>> const& pieces) {
    CHECK(must(out.try_write(pieces)) == bytes.size());
    std::vector<std::byte> got(bytes.size() + 1);
    CHECK(must(in.try_read(got)).bytes == bytes.size());
    got.pop_back();
    CHECK(got == bytes);
    return std::exchange(posted, 0);
  };
  std::span<std::byte const> const whole{bytes};
  CHECK(pass({whole}) == 0);
  // Those of the first message are gathered.
  CHECK(pass({whole.first(100), whole.subspan(100)}) == out.limits().send_bytes_max);
  must(inject_faults(context, FaultPlan{}.drop(1'000'000)));
  CHECK(pass({whole}) == bytes.size());
  must(inject_faults(context, FaultPlan{}));
  CHECK(pass({whole}) == 0);
  context.native()->ops.post_send = device.post_send;
}

}  // namespace lend::test::at_once
