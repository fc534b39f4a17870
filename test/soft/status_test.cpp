// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: each fault of a reliable connection ends in the statuses and states that verbs promise.
// Method: one fault per case on a connected pair, in one context and between two; statuses, states
// and flushes of both ends are looked at.
// Source: InfiniBand Architecture Specification vol. 1, 9.9 and 11.6.2; ibv_poll_cq(3).
#include "soft/support.hpp"

#include <optional>

using namespace lend;
using namespace lend::test;

namespace {

constexpr std::uint64_t spare_receive = 900;

/// A connected pair with 4 KiB at each end.
struct Faulty {
  explicit Faulty(Terms const& of_a = {}, Terms const& of_b = {})
      : link{GENERATE(Reach::one_context, Reach::two_contexts), of_a, of_b} {}

  /// One completion at the initiator, with `status`, then flushes; its queue pair is in ERR.
  void check_initiator(ibv_wc_status status, std::uint64_t id = 1) {
    auto const end = await_one(a.sends);
    CHECK(end.status == status);
    CHECK(end.wr_id == id);
    CHECK(end.qp_num == a.qp->qp_num);
    CHECK(end.vendor_err != 0);
    CHECK(state_of(a.qp.get()) == IBV_QPS_ERR);
    REQUIRE(post(a, {.id = 801, .flags = 0}) == 0);
    REQUIRE(post_receive(a, 802) == 0);
    auto const sent = await_one(a.sends);
    CHECK(sent.status == IBV_WC_WR_FLUSH_ERR);
    CHECK(sent.wr_id == 801);
    auto const received = await_one(a.receives);
    CHECK(received.status == IBV_WC_WR_FLUSH_ERR);
    CHECK(received.wr_id == 802);
  }
  /// The target noticed nothing: its receive is still there, and is the only one.
  void check_target_is_untouched() {
    CHECK(await(b.receives, 0).empty());
    CHECK(state_of(b.qp.get()) == IBV_QPS_RTS);
  }
  /// The target is in ERR; what it had posted was flushed, after `first` if there is one.
  void check_target_broke(std::optional<std::pair<std::uint64_t, ibv_wc_status>> first) {
    auto const ends = await(b.receives, first ? 2 : 1);
    if (first) {
      CHECK(ends.front().wr_id == first->first);
      CHECK(ends.front().status == first->second);
    }
    CHECK(ends.back().wr_id == spare_receive);
    CHECK(ends.back().status == IBV_WC_WR_FLUSH_ERR);
    CHECK(state_of(b.qp.get()) == IBV_QPS_ERR);
  }
  void post_spare_receive() { REQUIRE(post_receive(b, spare_receive, {to.piece(0, 4096)}) == 0); }

  Link link;
  End& a = link.a;
  End& b = link.b;
  Memory from{a.domain.get(), 4096};
  Memory to{b.domain.get(), 4096};
};

}  // namespace

TEST_CASE("a bad local piece is a local protection error and the target sees nothing", "[soft]") {
  Faulty faulty;
  faulty.post_spare_receive();
  auto const other_domain = make_domain(faulty.a.domain->context);
  Memory const other{other_domain.get(), 64};
  Memory const constant{faulty.a.domain.get(), 64, IBV_ACCESS_REMOTE_READ};
  Memory stale{faulty.a.domain.get(), 64};
  auto const stale_piece = stale.piece(0, 64);
  stale.deregister();
  auto const flags = GENERATE(0u, unsigned{IBV_SEND_SIGNALED});
  Request request;

  SECTION("no such key") {
    request.pieces = {{faulty.from.address(), 8, 0xabcdef}};
  }
  SECTION("key 0") {
    request.pieces = {{faulty.from.address(), 8, 0}};
  }
  SECTION("stale key") {
    request.pieces = {stale_piece};
  }
  SECTION("before the region") {
    request.pieces = {{faulty.from.address() - 1, 8, faulty.from.key()}};
  }
  SECTION("past the region") {
    request.pieces = {faulty.from.piece(4090, 7)};
  }
  SECTION("another domain") {
    request.pieces = {other.piece(0, 8)};
  }
  SECTION("the second piece") {
    request.pieces = {faulty.from.piece(0, 8), other.piece(0, 8)};
  }
  SECTION("a read into memory without local write") {
    request = {.opcode = IBV_WR_RDMA_READ,
               .pieces = {constant.piece(0, 8)},
               .remote_address = faulty.to.address(),
               .remote_key = faulty.to.key()};
  }
  request.flags = flags;

  REQUIRE(post(faulty.a, request) == 0);

  faulty.check_initiator(IBV_WC_LOC_PROT_ERR);
  faulty.check_target_is_untouched();
}

TEST_CASE("a bad remote key, range or right is a remote access error and breaks both", "[soft]") {
  Faulty faulty;
  faulty.post_spare_receive();
  auto const other_domain = make_domain(faulty.b.domain->context);
  Memory const other{other_domain.get(), 64};
  Memory const local{faulty.b.domain.get(), 64, IBV_ACCESS_LOCAL_WRITE};
  Memory const readable{faulty.b.domain.get(), 64, IBV_ACCESS_REMOTE_READ};
  Memory const writable{faulty.b.domain.get(), 64,
                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE};
  Memory stale{faulty.b.domain.get(), 64};
  auto const stale_key = stale.key();
  stale.deregister();
  auto opcode = GENERATE(IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ);
  std::uint64_t address = faulty.to.address();
  std::uint32_t key = faulty.to.key();

  SECTION("no such key") {
    key = 0xabcdef;
  }
  SECTION("key 0") {
    key = 0;
  }
  SECTION("stale key") {
    address = stale.address(), key = stale_key;
  }
  SECTION("before the region") {
    address -= 1;
  }
  SECTION("past the region") {
    address += 4089;
  }
  SECTION("around the end of all addresses") {
    address = UINT64_MAX - 3;
  }
  SECTION("another domain") {
    address = other.address(), key = other.key();
  }
  SECTION("no remote right") {
    address = local.address(), key = local.key();
  }
  SECTION("the other right") {
    auto const& memory = opcode == IBV_WR_RDMA_READ ? writable : readable;
    address = memory.address();
    key = memory.key();
  }
  faulty.to.write(0, "untouched");
  faulty.from.write(0, "disturbed");

  REQUIRE(post(faulty.a, {.opcode = opcode,
                          .pieces = {faulty.from.piece(0, 8)},
                          .flags = 0,
                          .remote_address = address,
                          .remote_key = key}) == 0);

  faulty.check_initiator(IBV_WC_REM_ACCESS_ERR);
  faulty.check_target_broke({});
  CHECK(faulty.to.read(0, 9) == "untouched");
  CHECK(faulty.from.read(0, 9) == "disturbed");
}

TEST_CASE("an operation that the target's queue pair forbids is an invalid request", "[soft]") {
  Terms closed;
  closed.access = IBV_ACCESS_LOCAL_WRITE;
  auto const opcode = GENERATE(IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ);
  Faulty faulty{Terms{}, closed};
  faulty.post_spare_receive();

  REQUIRE(post(faulty.a, {.opcode = opcode,
                          .pieces = {faulty.from.piece(0, 8)},
                          .remote_address = faulty.to.address(),
                          .remote_key = faulty.to.key()}) == 0);

  faulty.check_initiator(IBV_WC_REM_INV_REQ_ERR);
  faulty.check_target_broke({});
}

TEST_CASE("reads need a depth at both ends", "[soft]") {
  Terms none_out;
  none_out.reads_out = 0;
  Terms none_in;
  none_in.reads_in = 0;
  auto const at_target = GENERATE(false, true);
  Faulty faulty{at_target ? Terms{} : none_out, at_target ? none_in : Terms{}};
  faulty.post_spare_receive();

  REQUIRE(post(faulty.a, {.opcode = IBV_WR_RDMA_READ,
                          .pieces = {faulty.from.piece(0, 8)},
                          .remote_address = faulty.to.address(),
                          .remote_key = faulty.to.key()}) == 0);

  faulty.check_initiator(at_target ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_LOC_QP_OP_ERR);
  if (at_target)
    faulty.check_target_broke({});
  else
    faulty.check_target_is_untouched();
}

TEST_CASE("a message longer than its receive is a length error there and breaks both", "[soft]") {
  Faulty faulty;
  auto const length = GENERATE(1u, 32u, 33u, 4096u);
  REQUIRE(post_receive(faulty.b, 5, {faulty.to.piece(0, length - 1)}) == 0);
  faulty.post_spare_receive();

  REQUIRE(post(faulty.a, {.pieces = {faulty.from.piece(0, length)}}) == 0);

  faulty.check_initiator(IBV_WC_REM_INV_REQ_ERR);
  faulty.check_target_broke({{5, IBV_WC_LOC_LEN_ERR}});
}

TEST_CASE("a bad piece in a receive is a protection error there and breaks both", "[soft]") {
  Faulty faulty;
  auto const other_domain = make_domain(faulty.b.domain->context);
  Memory const other{other_domain.get(), 64};
  Memory const constant{faulty.b.domain.get(), 64, IBV_ACCESS_REMOTE_READ};
  auto const length = GENERATE(8u, 64u);  // within the completion, and beside it
  std::vector<ibv_sge> pieces;

  SECTION("no such key") {
    pieces = {{faulty.to.address(), 64, 0xabcdef}};
  }
  SECTION("past the region") {
    pieces = {faulty.to.piece(4096 - length + 1, 64)};
  }
  SECTION("another domain") {
    pieces = {other.piece(0, 64)};
  }
  SECTION("not writable") {
    pieces = {constant.piece(0, 64)};
  }
  SECTION("the second piece") {
    pieces = {faulty.to.piece(0, 4), constant.piece(0, 64)};
  }
  REQUIRE(post_receive(faulty.b, 5, pieces) == 0);
  faulty.post_spare_receive();

  REQUIRE(post(faulty.a, {.pieces = {faulty.from.piece(0, length)}}) == 0);

  faulty.check_initiator(IBV_WC_REM_OP_ERR);
  faulty.check_target_broke({{5, IBV_WC_LOC_PROT_ERR}});
}

TEST_CASE("a bad piece that the message does not reach is no error", "[soft]") {
  Faulty faulty;
  REQUIRE(post_receive(faulty.b, 5, {faulty.to.piece(0, 8), {1, 8, 0xabcdef}}) == 0);

  REQUIRE(post(faulty.a, {.pieces = {faulty.from.piece(0, 8)}}) == 0);

  CHECK(await_one(faulty.a.sends).status == IBV_WC_SUCCESS);
  CHECK(await_one(faulty.b.receives).status == IBV_WC_SUCCESS);
}

TEST_CASE("registered memory that nobody mapped is a remote operation error", "[soft]") {
  Link link{Reach::two_contexts, Terms{}};
  Memory const from{link.a.domain.get(), 4096};
  // No process maps its second page. Source: vm.mmap_min_addr, 64 KiB.
  auto* const nowhere = reinterpret_cast<void*>(4096);
  HeldRegion const region{ibv().reg_mr(link.b.domain.get(), nowhere, 4096, all_access)};
  REQUIRE(region);

  REQUIRE(post(link.a, {.opcode = IBV_WR_RDMA_WRITE,
                        .pieces = {from.piece(0, 4096)},
                        .remote_address = 4096,
                        .remote_key = region->rkey}) == 0);

  CHECK(await_one(link.a.sends).status == IBV_WC_REM_OP_ERR);
  CHECK(state_of(link.b.qp.get()) == IBV_QPS_ERR);
}

TEST_CASE("a receive into memory that nobody mapped is a protection error there and breaks both",
          "[soft]") {
  constexpr std::uint32_t length = 32768;  // more than goes by bounce buffers
  Link link{Reach::two_contexts, Terms{}};
  Memory const from{link.a.domain.get(), length};
  auto* const nowhere = reinterpret_cast<void*>(4096);
  HeldRegion const region{ibv().reg_mr(link.b.domain.get(), nowhere, length, all_access)};
  REQUIRE(region);
  REQUIRE(post_receive(link.b, 5, {{4096, length, region->lkey}}) == 0);

  REQUIRE(post(link.a, {.pieces = {from.piece(0, length)}}) == 0);

  CHECK(await_one(link.a.sends).status == IBV_WC_REM_OP_ERR);
  auto const received = await_one(link.b.receives);
  CHECK(received.status == IBV_WC_LOC_PROT_ERR);
  CHECK(received.wr_id == 5);
  CHECK(state_of(link.b.qp.get()) == IBV_QPS_ERR);
}

TEST_CASE("a message longer than the device carries is a local length error", "[soft]") {
  Faulty faulty;
  auto* const context = faulty.a.domain->context;
  constexpr std::size_t length = std::size_t{512} << 20;  // address space; no page is touched
  void* const bytes = ibv().allocate(context, length, {});
  REQUIRE(bytes != nullptr);
  {
    HeldRegion const region{ibv().reg_mr(faulty.a.domain.get(), bytes, length, 0)};
    ibv_sge const half{reinterpret_cast<std::uint64_t>(bytes), length, region->lkey};
    ibv_sge const byte{reinterpret_cast<std::uint64_t>(bytes), 1, region->lkey};

    REQUIRE(post(faulty.a, {.pieces = {half, half, byte}}) == 0);

    faulty.check_initiator(IBV_WC_LOC_LEN_ERR);
    faulty.check_target_is_untouched();
  }
  ibv().release(context, bytes, length);
}
