// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: an unreliable connection delivers what it can, loses the rest without a word, and never
// makes the sender wait. Method: one message per case on a connected pair.
// Source: kernel drivers/infiniband/sw/rxe/rxe_resp.c, classes D and E; InfiniBand Architecture
// Specification vol. 1, 9.8.2.
#include "soft/support.hpp"

using namespace lend;
using namespace lend::test;

namespace {

HeldQueuePair make_unreliable(ibv_pd* domain, ibv_cq* queue) {
  ibv_qp_init_attr asked{};
  asked.send_cq = asked.recv_cq = queue;
  asked.qp_type = IBV_QPT_UC;
  asked.cap = {16, 16, 2, 2, 64};
  HeldQueuePair made{ibv().create_qp(domain, &asked)};
  REQUIRE(made);
  return made;
}

struct Side {
  explicit Side(ibv_context* context)
      : domain{make_domain(context)},
        queue{make_queue(context)},
        qp{make_unreliable(domain.get(), queue.get())},
        memory{domain.get(), 4096} {}
  HeldDomain domain;
  HeldQueue queue;
  HeldQueuePair qp;
  Memory memory;
};

struct Unreliable {
  explicit Unreliable(unsigned access_of_b = all_access)
      : near{open_context()},
        far{GENERATE(true, false) ? open_context() : nullptr},
        a{near.get()},
        b{far ? far.get() : near.get()} {
    connect(a, b, all_access, 7);
    connect(b, a, access_of_b, 8);  // another PSN: a first packet is taken whatever its number
  }
  static void connect(Side& side, Side const& other, unsigned access, std::uint32_t psn) {
    Terms terms;
    terms.access = access;
    terms.send_psn = psn;
    auto const attributes = attributes_for(other.qp->qp_num, terms);
    REQUIRE(move(side.qp.get(), IBV_QPS_INIT, attributes, init_mask) == 0);
    REQUIRE(move(side.qp.get(), IBV_QPS_RTR, attributes,
                 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) ==
            0);
    REQUIRE(move(side.qp.get(), IBV_QPS_RTS, attributes, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
  }
  int post(ibv_wr_opcode opcode, ibv_sge piece, std::uint64_t address = 0, std::uint32_t key = 0,
           unsigned flags = IBV_SEND_SIGNALED) {
    ibv_send_wr wr{};
    wr.sg_list = &piece;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = flags;
    wr.imm_data = 5;
    wr.wr.rdma = {address, key};
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(a.qp.get(), &wr, &bad);
  }
  int receive(std::uint64_t id, ibv_sge piece) {
    ibv_recv_wr wr{};
    wr.wr_id = id;
    wr.sg_list = &piece;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(b.qp.get(), &wr, &bad);
  }
  /// The sender is told of success; the target of nothing, and its next receive still works.
  void check_lost(std::uint64_t id) {
    CHECK(await_one(a.queue).status == IBV_WC_SUCCESS);
    CHECK(await(b.queue, 0).empty());
    CHECK(state_of(a.qp.get()) == IBV_QPS_RTS);
    CHECK(state_of(b.qp.get()) == IBV_QPS_RTS);
    if (id == 0) REQUIRE(receive(id = 99, b.memory.piece(0, 64)) == 0);
    REQUIRE(post(IBV_WR_SEND, a.memory.piece(0, 8)) == 0);
    CHECK(await_one(a.queue).status == IBV_WC_SUCCESS);
    auto const end = await_one(b.queue);
    CHECK(end.status == IBV_WC_SUCCESS);
    CHECK(end.wr_id == id);
  }

  HeldContext near;
  HeldContext far;
  Side a;
  Side b;
};

}  // namespace

TEST_CASE("an unreliable connection sends and writes, with and without immediate", "[soft]") {
  Unreliable link;
  link.a.memory.write(0, "something");
  auto const opcode =
      GENERATE(IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM);
  bool const is_write = opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  auto const length = GENERATE(9u, 900u);
  REQUIRE(link.receive(3, link.b.memory.piece(0, 1000)) == 0);

  REQUIRE(link.post(opcode, link.a.memory.piece(0, length), link.b.memory.address(1000),
                    link.b.memory.key()) == 0);

  CHECK(await_one(link.a.queue).opcode == (is_write ? IBV_WC_RDMA_WRITE : IBV_WC_SEND));
  if (opcode == IBV_WR_RDMA_WRITE) {
    CHECK(await(link.b.queue, 0).empty());
  } else {
    auto const end = await_one(link.b.queue);
    CHECK(end.status == IBV_WC_SUCCESS);
    CHECK(end.opcode == (is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV));
    CHECK(end.byte_len == length);
    CHECK(end.wc_flags == (opcode == IBV_WR_SEND ? 0 : IBV_WC_WITH_IMM));
  }
  CHECK(link.b.memory.read(is_write ? 1000 : 0, 9) == "something");
}

TEST_CASE("an unreliable message without a receive, or too long for it, is lost", "[soft]") {
  Unreliable link;
  std::uint64_t id = 0;

  SECTION("no receive") {
    REQUIRE(link.post(IBV_WR_SEND, link.a.memory.piece(0, 8)) == 0);
  }
  SECTION("a receive too short") {
    id = 4;
    REQUIRE(link.receive(id, link.b.memory.piece(0, 16)) == 0);
    REQUIRE(link.post(IBV_WR_SEND, link.a.memory.piece(0, 17)) == 0);
  }

  link.check_lost(id);
}

TEST_CASE("an unreliable write with a bad key, or forbidden, is lost", "[soft]") {
  bool const forbidden = GENERATE(true, false);
  Unreliable link{forbidden ? unsigned{IBV_ACCESS_LOCAL_WRITE} : unsigned{all_access}};
  link.a.memory.write(0, "disturbed");
  link.b.memory.write(0, "untouched");
  auto const opcode = GENERATE(IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM);
  REQUIRE(link.receive(4, link.b.memory.piece(100, 64)) == 0);

  REQUIRE(link.post(opcode, link.a.memory.piece(0, 9), link.b.memory.address(),
                    forbidden ? link.b.memory.key() : 0xabcdef) == 0);

  link.check_lost(4);
  CHECK(link.b.memory.read(0, 9) == "untouched");
}

TEST_CASE("an unreliable message to nobody is lost", "[soft]") {
  Unreliable link;
  bool const destroyed = GENERATE(true, false);
  if (destroyed)
    link.b.qp.reset();
  else
    REQUIRE(move(link.b.qp.get(), IBV_QPS_ERR, {}, IBV_QP_STATE) == 0);

  REQUIRE(link.post(IBV_WR_SEND, link.a.memory.piece(0, 8)) == 0);

  CHECK(await_one(link.a.queue).status == IBV_WC_SUCCESS);
  CHECK(state_of(link.a.qp.get()) == IBV_QPS_RTS);
}

TEST_CASE("a bad piece breaks the end it lies at, of an unreliable connection too", "[soft]") {
  Unreliable link;
  bool const at_sender = GENERATE(true, false);
  ibv_sge const bad{link.a.memory.address(), 8, 0xabcdef};
  REQUIRE(link.receive(4, at_sender ? link.b.memory.piece(0, 64) : bad) == 0);

  REQUIRE(link.post(IBV_WR_SEND, at_sender ? bad : link.a.memory.piece(0, 8)) == 0);

  CHECK(await_one(link.a.queue).status == (at_sender ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS));
  CHECK(state_of(link.a.qp.get()) == (at_sender ? IBV_QPS_SQE : IBV_QPS_RTS));
  if (!at_sender) CHECK(await_one(link.b.queue).status == IBV_WC_LOC_PROT_ERR);
  CHECK(state_of(link.b.qp.get()) == (at_sender ? IBV_QPS_RTS : IBV_QPS_ERR));
}

TEST_CASE("reads and atomic operations are not for unreliable connections", "[soft]") {
  Unreliable link;
  auto const opcode =
      GENERATE(IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD);

  CHECK(link.post(opcode, link.a.memory.piece(0, 8), link.b.memory.address(),
                  link.b.memory.key()) == EINVAL);
}

TEST_CASE("an unreliable connection takes no attributes of a reliable one", "[soft]") {
  auto const context = open_context();
  Side const side{context.get()};
  auto const attributes = attributes_for(side.qp->qp_num);
  REQUIRE(move(side.qp.get(), IBV_QPS_INIT, attributes, init_mask) == 0);

  CHECK(move(side.qp.get(), IBV_QPS_RTR, attributes, rtr_mask) == EINVAL);
}
