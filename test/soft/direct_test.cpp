// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the short way takes the common requests and no other, does what the general way does, and
// what it keeps of the target never outlasts a change there.
// Method: requests given to it directly, and connections that worked before the target changed.
#include <soft/engine/direct.hpp>
#include <soft/objects/completion_queue.hpp>
#include <soft/objects/context.hpp>
#include <soft/objects/domain.hpp>
#include <soft/objects/queue_pair.hpp>

#include <functional>
#include <mutex>

#include "soft/support.hpp"

using namespace lend;
using namespace lend::test;

namespace {

/// Two ends and mapped memory, 8 bytes of which went before.
struct DirectStage {
  explicit DirectStage(Reach reach = Reach::two_contexts, Depths const& depths = {},
                       Terms const& terms = {})
      : link{reach, terms, terms, depths},
        from{link.a.domain.get(), 4096, all_access, Where::allocated},
        to{link.b.domain.get(), 4096, all_access, Where::allocated} {
    for (std::size_t i = 8; i < 4096; ++i) *from.at(i) = static_cast<std::byte>(i * 7 % 251);
    from.write(0, "12345678");
    send(8);
    write(8);
  }
  void send(std::uint32_t length) const {
    REQUIRE(post_receive(link.b, 3, {to.piece(0, 4096)}) == 0);
    REQUIRE(post(link.a, {.pieces = {from.piece(0, length)}}) == 0);
    CHECK(await_one(link.a.sends).status == IBV_WC_SUCCESS);
    CHECK(await_one(link.b.receives).byte_len == length);
  }
  ibv_wc_status write(std::uint32_t length, ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE) const {
    return write_to(to, length, opcode);
  }
  ibv_wc_status write_to(Memory const& memory, std::uint32_t length,
                         ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE) const {
    REQUIRE(post(link.a, {.opcode = opcode,
                          .pieces = {from.piece(0, length)},
                          .remote_address = memory.address(),
                          .remote_key = memory.key()}) == 0);
    return await_one(link.a.sends).status;
  }

  Link link;
  Memory from;
  Memory to;
};

bool takes(End const& end, ibv_wr_opcode opcode, std::vector<ibv_sge> pieces,
           Memory const* remote = nullptr, unsigned flags = IBV_SEND_SIGNALED) {
  auto& qp = *static_cast<soft::QueuePair*>(end.qp.get());
  ibv_send_wr wr{};
  wr.sg_list = pieces.data();
  wr.num_sge = static_cast<int>(pieces.size());
  wr.opcode = opcode;
  wr.imm_data = 0x1234;
  wr.send_flags = flags;
  if (remote != nullptr) wr.wr.rdma = {remote->address(), remote->key()};
  std::lock_guard const guard{qp.send_lock};
  return soft::execute_directly(qp, wr);
}

}  // namespace

TEST_CASE("a send or write of one piece to mapped memory takes the short way", "[soft]") {
  DirectStage const stage{GENERATE(Reach::one_context, Reach::two_contexts)};
  auto const& [link, from, to] = stage;
  auto const length = GENERATE(1u, 7u, 8u, 32u, 33u, 4096u);
  auto const sent = from.read(0, length);
  auto const flags = length <= 64 ? GENERATE(0u, unsigned{IBV_SEND_INLINE}) : 0;
  auto const opcode =
      GENERATE(IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM);
  bool const is_write = opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  bool const is_told = opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  to.write(0, std::string(4096, '-'));
  REQUIRE(post_receive(link.b, 5, {to.piece(0, 4096)}) == 0);

  CHECK(takes(link.a, opcode, {from.piece(0, length)}, &to, flags | IBV_SEND_SIGNALED));

  auto const done = await_one(link.a.sends);
  CHECK(done.status == IBV_WC_SUCCESS);
  CHECK(done.opcode == (is_write ? IBV_WC_RDMA_WRITE : IBV_WC_SEND));
  CHECK(done.byte_len == length);
  auto const received = poll(link.b.receives);
  REQUIRE(received.size() == (opcode == IBV_WR_RDMA_WRITE ? 0 : 1));
  for (auto const& end : received) {
    CHECK(end.wr_id == 5);
    CHECK(end.opcode == (is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV));
    CHECK(end.byte_len == length);
    CHECK(end.wc_flags == (is_told ? unsigned{IBV_WC_WITH_IMM} : 0u));
    CHECK(end.imm_data == (is_told ? 0x1234 : 0));
  }
  CHECK(to.read(0, length) == sent);
  CHECK(to.read(length, 4096 - length) == std::string(4096 - length, '-'));
}

TEST_CASE("a write with an immediate takes the next receive the short way, whatever its pieces",
          "[soft]") {
  DirectStage const stage{GENERATE(Reach::one_context, Reach::two_contexts)};
  auto const& [link, from, to] = stage;
  Memory const apart{link.b.domain.get(), 64};
  apart.write(0, std::string(64, '-'));
  REQUIRE(post_receive(link.b, 1) == 0);
  REQUIRE(post_receive(link.b, 2, {apart.piece(0, 1), apart.piece(1, 63)}) == 0);
  REQUIRE(post_receive(link.b, 3, {apart.piece(0, 64)}) == 0);
  for (int i = 0; i < 2; ++i)  // unsignalled
    CHECK(takes(link.a, IBV_WR_RDMA_WRITE_WITH_IMM, {from.piece(0, 200)}, &to, 0));
  CHECK(poll(link.a.sends).empty());
  REQUIRE(post(link.a, {.pieces = {from.piece(0, 8)}}) == 0);  // whose receive the others left
  CHECK(await_one(link.a.sends).wr_id == 1);
  auto const received = await(link.b.receives, 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(received[i].wr_id == i + 1);
  CHECK(received[1].opcode == IBV_WC_RECV_RDMA_WITH_IMM);
  CHECK(received[1].byte_len == 200);
  CHECK(received[2].opcode == IBV_WC_RECV);
  CHECK(to.read(0, 200) == from.read(0, 200));
  CHECK(apart.read(0, 8) == from.read(0, 8));
  CHECK(apart.read(8, 56) == std::string(56, '-'));
}

TEST_CASE("a send that finds no receive takes the short way and waits, and those behind it wait",
          "[soft]") {
  DirectStage const stage{
      GENERATE(Reach::one_context, Reach::two_contexts), {}, {.rnr_retries = 7}};
  auto const& [link, from, to] = stage;
  auto const length = GENERATE(7u, 8u, 64u);
  auto const sent = from.read(0, length);
  auto const flags = GENERATE(unsigned{IBV_SEND_SIGNALED}, IBV_SEND_SIGNALED | IBV_SEND_INLINE);

  CHECK(takes(link.a, IBV_WR_SEND_WITH_IMM, {from.piece(0, length)}, nullptr, flags));
  CHECK_FALSE(takes(link.a, IBV_WR_SEND, {from.piece(8, 8)}));
  REQUIRE(post(link.a, {.id = 2, .pieces = {from.piece(8, 8)}}) == 0);
  CHECK(poll(link.a.sends).empty());
  CHECK(poll(link.b.receives).empty());
  if ((flags & IBV_SEND_INLINE) != 0) from.write(0, "changed!");

  REQUIRE(post_receive(link.b, 5, {to.piece(0, 4096)}) == 0);
  auto const received = poll(link.b.receives);  // before the sender runs again
  REQUIRE(received.size() == 1);
  CHECK(received[0].wr_id == 5);
  CHECK(received[0].byte_len == length);
  CHECK(received[0].imm_data == 0x1234);
  CHECK(to.read(0, length) == sent);
  REQUIRE(post_receive(link.b, 6, {to.piece(0, 4096)}) == 0);
  auto const done = await(link.a.sends, 2);
  for (auto const& end : done) CHECK(end.status == IBV_WC_SUCCESS);
  CHECK(done[0].wr_id == 0);
  CHECK(done[1].wr_id == 2);
  CHECK(await_one(link.b.receives).wr_id == 6);
  REQUIRE(post_receive(link.b, 7, {to.piece(0, 4096)}) == 0);
  CHECK(takes(link.a, IBV_WR_SEND, {from.piece(0, 8)}));
}

TEST_CASE("what is unusual is left to the general way, and nothing is told", "[soft]") {
  DirectStage const stage;
  auto const& [link, from, to] = stage;
  auto const& a = link.a;
  auto const one = std::vector{from.piece(0, 8)};
  Memory const apart{link.b.domain.get(), 128};
  to.write(0, "unharmed");
  REQUIRE_FALSE(takes(a, IBV_WR_SEND, one));  // no receive, nor patience
  REQUIRE_FALSE(takes(a, IBV_WR_RDMA_WRITE_WITH_IMM, one, &to));
  CHECK(to.read(0, 8) == "unharmed");

  REQUIRE(post_receive(link.b, 1, {to.piece(0, 4), to.piece(4, 4092)}) == 0);
  CHECK_FALSE(takes(a, IBV_WR_SEND, one));  // in two pieces
  CHECK_FALSE(takes(a, IBV_WR_SEND, {from.piece(0, 4), from.piece(4, 4)}));
  CHECK_FALSE(takes(a, IBV_WR_SEND, {from.piece(0, 0)}));
  CHECK_FALSE(takes(a, IBV_WR_RDMA_READ, one, &to));
  auto wrong = one;
  wrong[0].lkey ^= 1;
  auto& rx = static_cast<soft::QueuePair*>(link.b.qp.get())->shared->rx;
  for (auto const opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM}) {
    CHECK_FALSE(takes(a, opcode, one, &apart));  // not mapped
    CHECK_FALSE(takes(a, opcode, one));          // no such key
    CHECK_FALSE(takes(a, opcode, wrong, &to));
    rx.lock({7, nullptr, nullptr});
    CHECK_FALSE(takes(a, opcode, one, &to));
    rx.unlock();
  }

  CHECK(poll(a.sends).empty());
  CHECK(poll(link.b.receives).empty());
  CHECK(stage.write(8) == IBV_WC_SUCCESS);
}

TEST_CASE("a receive without pieces takes no byte, though one with some was in its place",
          "[soft]") {
  // Of one receive: each is in the place of the one before.
  DirectStage const stage{GENERATE(Reach::one_context, Reach::two_contexts), {.receives = 1}};
  auto const& [link, from, to] = stage;
  stage.send(8);
  REQUIRE(post_receive(link.b, 7) == 0);
  CHECK_FALSE(takes(link.a, IBV_WR_SEND, {from.piece(0, 8)}));
  REQUIRE(post(link.a, {.pieces = {from.piece(0, 8)}}) == 0);
  CHECK(await_one(link.a.sends).status == IBV_WC_REM_INV_REQ_ERR);
  CHECK(await_one(link.b.receives).status == IBV_WC_LOC_LEN_ERR);
}

TEST_CASE("messages that are long for private memory go the general way", "[soft]") {
  DirectStage const stage;
  auto const& [link, from, to] = stage;
  Memory const apart{link.b.domain.get(), 128};
  REQUIRE(post_receive(link.b, 1, {apart.piece(0, 128)}) == 0);
  CHECK_FALSE(takes(link.a, IBV_WR_SEND, {from.piece(0, 97)}));
  CHECK(takes(link.a, IBV_WR_SEND, {from.piece(0, 96)}));
  CHECK(poll(link.b.receives).size() == 1);
  CHECK(apart.read(0, 96) == from.read(0, 96));
  REQUIRE(post_receive(link.b, 1, {apart.piece(0, 128)}) == 0);
  REQUIRE(post(link.a, {.pieces = {from.piece(0, 97)}}) == 0);
  CHECK(poll(link.b.receives).size() == 1);
  CHECK(apart.read(0, 97) == from.read(0, 97));
  CHECK(poll(link.a.sends).size() == 2);
  stage.send(128);  // and back to memory that is mapped
  REQUIRE(post_receive(link.b, 1, {to.piece(0, 128)}) == 0);
  CHECK(takes(link.a, IBV_WR_SEND, {from.piece(0, 128)}));
  CHECK(poll(link.b.receives).size() == 1);
}

TEST_CASE("a message for a queue that is armed takes the short way", "[soft]") {
  DirectStage const stage;
  auto const& [link, from, to] = stage;
  auto const opcode = GENERATE(IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM);
  auto const length = GENERATE(8u, 128u);
  REQUIRE(post_receive(link.b, 1, {to.piece(0, 128)}) == 0);
  // There is no channel, so nobody is woken: event_test.cpp is about that.
  static_cast<soft::CompletionQueue*>(link.b.receives.get())->shared->notify.set(soft::notify_any);

  CHECK(takes(link.a, opcode, {from.piece(0, length)}, &to));

  auto const end = await_one(link.b.receives);
  CHECK(end.status == IBV_WC_SUCCESS);
  CHECK(end.byte_len == length);
}

TEST_CASE("a remote key means what it means now, whatever it meant to the request before",
          "[soft]") {
  DirectStage stage{GENERATE(Reach::one_context, Reach::two_contexts)};
  auto& [link, from, to] = stage;
  auto const opcode = GENERATE(IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM);
  REQUIRE(post_receive(link.b, 4) == 0);
  auto const change = [&to = to](int flags, void* at, std::size_t length, int access) {
    return soft::rereg_mr(to.region(), flags, nullptr, at, length, access);
  };
  SECTION("another range") {
    REQUIRE(change(IBV_REREG_MR_CHANGE_TRANSLATION, to.at(8), 16, 0) == 0);
    CHECK(stage.write(8, opcode) == IBV_WC_REM_ACCESS_ERR);
  }
  SECTION("fewer rights") {
    REQUIRE(change(IBV_REREG_MR_CHANGE_ACCESS, nullptr, 0, IBV_ACCESS_REMOTE_READ) == 0);
    CHECK(stage.write(8, opcode) == IBV_WC_REM_ACCESS_ERR);
  }
  SECTION("none") {
    auto const key = to.key();
    auto const address = to.address();
    to.deregister();
    REQUIRE(post(link.a, {.opcode = opcode,
                          .pieces = {from.piece(0, 8)},
                          .remote_address = address,
                          .remote_key = key}) == 0);
    CHECK(await_one(link.a.sends).status == IBV_WC_REM_ACCESS_ERR);
  }
  SECTION("a queue pair that allows no writes") {
    auto attributes = attributes_for(link.a.qp->qp_num);
    attributes.qp_access_flags = 0;
    REQUIRE(move(link.b.qp.get(), IBV_QPS_RTS, attributes, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS) ==
            0);
    CHECK(stage.write(8, opcode) == IBV_WC_REM_INV_REQ_ERR);
  }
}

TEST_CASE("new memory is written, whoever saw what lay in its arena before", "[soft]") {
  DirectStage const stage;
  auto const& [link, from, to] = stage;
  End const second{link.first.get()};
  End const its_peer{link.second.get()};
  bring_to(second.qp.get(), IBV_QPS_RTS, its_peer.qp->qp_num);
  bring_to(its_peer.qp.get(), IBV_QPS_RTS, second.qp->qp_num);
  constexpr std::size_t length = std::size_t{17} << 20;  // has an arena of its own
  for (int round = 0; round < 4; ++round) {
    Memory const first{link.b.domain.get(), length, all_access, Where::allocated};
    HeldRegion const too{ibv().reg_mr(its_peer.domain.get(), first.at(0), length, all_access)};
    Memory const own{second.domain.get(), 64};
    own.write(0, "second " + std::to_string(round));
    from.write(0, "first " + std::to_string(round));

    REQUIRE(stage.write_to(first, 7) == IBV_WC_SUCCESS);
    if (round % 2 == 0) {  // in the others it keeps its view of what is gone
      REQUIRE(post(second, {.opcode = IBV_WR_RDMA_WRITE,
                            .pieces = {own.piece(0, 8)},
                            .remote_address = first.address(100),
                            .remote_key = too->rkey}) == 0);
      CHECK(await_one(second.sends).status == IBV_WC_SUCCESS);
      CHECK(first.read(100, 8) == "second " + std::to_string(round));
    }

    CHECK(first.read(0, 7) == "first " + std::to_string(round));
    CHECK(takes(link.a, IBV_WR_RDMA_WRITE, {from.piece(0, 7)}, &first, 0));
  }
}

TEST_CASE("a target that was reset takes messages of its new connection alone", "[soft]") {
  DirectStage const stage;
  auto const& [link, from, to] = stage;
  End const other{link.first.get()};
  REQUIRE(move(link.b.qp.get(), IBV_QPS_RESET, {}, IBV_QP_STATE) == 0);
  bool const is_again = GENERATE(false, true);
  bring_to(link.b.qp.get(), IBV_QPS_RTS, is_again ? link.a.qp->qp_num : other.qp->qp_num);
  REQUIRE(post_receive(link.b, 9, {to.piece(0, 64)}) == 0);

  REQUIRE(post(link.a, {.pieces = {from.piece(0, 8)}}) == 0);

  CHECK(await_one(link.a.sends).status == (is_again ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR));
  CHECK(poll(link.b.receives).size() == (is_again ? 1 : 0));
}

TEST_CASE("a sender that was reset finds the other target of its new connection", "[soft]") {
  DirectStage const stage;
  auto const& [link, from, to] = stage;
  End const other{link.second.get(), {.receives = 4, .pieces = 9}};
  REQUIRE(move(link.a.qp.get(), IBV_QPS_RESET, {}, IBV_QP_STATE) == 0);
  bring_to(link.a.qp.get(), IBV_QPS_RTS, other.qp->qp_num);
  bring_to(other.qp.get(), IBV_QPS_RTS, link.a.qp->qp_num);
  Memory const there{other.domain.get(), 64, all_access, Where::allocated};
  for (std::uint64_t id = 0; id < 8; ++id) {
    REQUIRE(post_receive(other, id, {there.piece(0, 64)}) == 0);
    CHECK(takes(link.a, IBV_WR_SEND, {from.piece(0, 8)}));
    CHECK(await_one(link.a.sends).status == IBV_WC_SUCCESS);
    CHECK(await_one(other.receives).wr_id == id);
  }
  CHECK(there.read(0, 8) == "12345678");
  CHECK(stage.write(8) == IBV_WC_REM_ACCESS_ERR);  // of another domain
}

TEST_CASE("a target's queue that grew and is full takes what comes by the short way", "[soft]") {
  DirectStage const stage{Reach::two_contexts, {.sends = 64, .receives = 64, .completions = 4}};
  auto const& [link, from, to] = stage;
  auto const opcode = GENERATE(IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM);
  REQUIRE(ibv().resize_cq(link.b.receives.get(), 64) == 0);
  REQUIRE(ibv().resize_cq(link.a.sends.get(), 64) == 0);
  for (std::uint64_t id = 0; id < 40; ++id) {
    REQUIRE(post_receive(link.b, id, {to.piece(0, 64)}) == 0);
    REQUIRE(post(link.a, {.opcode = opcode,
                          .id = id,
                          .pieces = {from.piece(0, 8)},
                          .remote_address = to.address(),
                          .remote_key = to.key()}) == 0);
  }
  auto const ends = await(link.b.receives, 40);
  for (std::uint64_t id = 0; id < 40; ++id) CHECK(ends[id].wr_id == id);
  CHECK(await(link.a.sends, 40).back().wr_id == 39);
}

TEST_CASE("a completion that has no room at home breaks its queue pair, by the short way too",
          "[soft]") {
  DirectStage const stage{Reach::two_contexts, {.completions = 2}};
  auto const& [link, from, to] = stage;
  auto const room = link.a.sends->cqe;
  for (int i = 0; i <= room; ++i) CHECK(takes(link.a, IBV_WR_RDMA_WRITE, {from.piece(0, 8)}, &to));
  CHECK(state_of(link.a.qp.get()) == IBV_QPS_ERR);
  CHECK_FALSE(takes(link.a, IBV_WR_RDMA_WRITE, {from.piece(0, 8)}, &to));
}
