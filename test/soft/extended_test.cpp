// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: work built by ibv_wr_* and completions read field by field do what posting and polling do;
// what the device does not know is refused; and many queue pairs live side by side.
// Source: ibv_create_qp_ex(3), ibv_wr_post(3), ibv_create_cq_ex(3).
#include <algorithm>

#include "soft/support.hpp"

using namespace lend;
using namespace lend::test;

namespace {

constexpr std::uint64_t builders = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                                   IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                   IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                   IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

/// A loop-back queue pair of the extended kind, on a completion queue of that kind.
struct Extended {
  Extended() : context{open_context()}, domain{make_domain(context.get())} {
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = 64;
    wanted.wc_flags = IBV_WC_STANDARD_FLAGS;
    // Through the public inline call, as a program makes it.
    reader = ibv_create_cq_ex(context.get(), &wanted);
    REQUIRE(reader != nullptr);
    queue.reset(ibv_cq_ex_to_cq(reader));
    ibv_qp_init_attr_ex asked{};
    asked.send_cq = asked.recv_cq = queue.get();
    asked.qp_type = IBV_QPT_RC;
    asked.cap = {8, 8, 2, 2, 64};
    asked.pd = domain.get();
    asked.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    asked.send_ops_flags = builders;
    qp.reset(ibv_create_qp_ex(context.get(), &asked));
    REQUIRE(qp);
    builder = ibv().qp_to_qp_ex(qp.get());
    REQUIRE(builder != nullptr);
    CHECK(&builder->qp_base == qp.get());
    Terms terms;
    terms.rnr_retries = 7;
    bring_to(qp.get(), IBV_QPS_RTS, qp->qp_num, terms);
    memory = std::make_unique<Memory>(domain.get(), 4096);
  }
  void next(std::uint64_t id, unsigned flags = IBV_SEND_SIGNALED) const {
    builder->wr_id = id;
    builder->wr_flags = flags;
  }
  int receive(std::uint64_t id, std::size_t offset) const {
    ibv_recv_wr wr{};
    auto piece = memory->piece(offset, 64);
    wr.wr_id = id;
    wr.sg_list = &piece;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(qp.get(), &wr, &bad);
  }

  HeldContext context;
  HeldDomain domain;
  ibv_cq_ex* reader = nullptr;
  HeldQueue queue;
  HeldQueuePair qp;
  ibv_qp_ex* builder = nullptr;
  std::unique_ptr<Memory> memory;
};

}  // namespace

TEST_CASE("work built call by call is executed in order, once it is complete", "[soft]") {
  Extended end;
  auto const& memory = *end.memory;
  memory.write(0, "abcdefgh");
  std::uint64_t const number = 40;
  std::memcpy(memory.at(512), &number, sizeof number);
  REQUIRE(end.receive(100, 1024) == 0);
  REQUIRE(end.receive(101, 1088) == 0);
  char text[] = "inline";

  ibv_wr_start(end.builder);
  end.next(1);
  ibv_wr_rdma_write(end.builder, memory.key(), memory.address(256));
  ibv_sge const pieces[] = {memory.piece(0, 4), memory.piece(4, 4)};
  ibv_wr_set_sge_list(end.builder, 2, pieces);
  end.next(2);
  ibv_wr_rdma_read(end.builder, memory.key(), memory.address(256));
  ibv_wr_set_sge(end.builder, memory.key(), memory.address(300), 8);
  end.next(3);
  ibv_wr_atomic_fetch_add(end.builder, memory.key(), memory.address(512), 2);
  ibv_wr_set_sge(end.builder, memory.key(), memory.address(600), 8);
  end.next(4);
  ibv_wr_atomic_cmp_swp(end.builder, memory.key(), memory.address(512), 42, 7);
  ibv_wr_set_sge(end.builder, memory.key(), memory.address(608), 8);
  end.next(5, 0);  // unsignalled
  ibv_wr_send(end.builder);
  ibv_wr_set_inline_data(end.builder, text, 6);
  end.next(6);
  ibv_wr_rdma_write_imm(end.builder, memory.key(), memory.address(700), 9);
  ibv_wr_set_sge(end.builder, memory.key(), memory.address(0), 2);
  CHECK(poll(end.queue).empty());
  REQUIRE(ibv_wr_complete(end.builder) == 0);
  std::fill(std::begin(text), std::end(text), '-');

  auto const ends = await(end.queue, 7);
  ibv_wc_opcode const opcodes[] = {IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ, IBV_WC_FETCH_ADD,
                                   IBV_WC_COMP_SWAP};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(ends[i].status == IBV_WC_SUCCESS);
    CHECK(ends[i].wr_id == i + 1);
    CHECK(ends[i].opcode == opcodes[i]);
  }
  CHECK(ends[4].wr_id == 6);
  CHECK(ends[5].wr_id == 100);
  CHECK(ends[6].wr_id == 101);
  CHECK(ends[6].imm_data == 9);
  CHECK(memory.read(300, 8) == "abcdefgh");
  CHECK(memory.read(1024, 6) == "inline");
  CHECK(memory.read(700, 2) == "ab");
  std::uint64_t values[2];
  std::memcpy(values, memory.at(600), sizeof values);
  CHECK(values[0] == 40);
  CHECK(values[1] == 42);
}

TEST_CASE("built work is posted all of it or none", "[soft]") {
  Extended end;
  auto const& memory = *end.memory;
  auto const piece = memory.piece(0, 8);
  int error = EINVAL;

  ibv_wr_start(end.builder);
  end.next(1);
  ibv_wr_rdma_write(end.builder, memory.key(), memory.address(256));
  ibv_wr_set_sge(end.builder, piece.lkey, piece.addr, piece.length);
  SECTION("too many pieces") {
    ibv_sge const pieces[] = {piece, piece, piece};
    ibv_wr_send(end.builder);
    ibv_wr_set_sge_list(end.builder, 3, pieces);
  }
  SECTION("too long for inline") {
    ibv_wr_send(end.builder);
    ibv_wr_set_inline_data(end.builder, memory.at(0), 1000);
  }
  SECTION("an atomic operation without room") {
    ibv_wr_atomic_fetch_add(end.builder, memory.key(), memory.address(0), 1);
    ibv_wr_set_sge(end.builder, piece.lkey, piece.addr, 4);
  }
  SECTION("more than the queue holds") {
    error = ENOMEM;
    for (int i = 0; i < 8; ++i) ibv_wr_rdma_write(end.builder, memory.key(), memory.address(256));
  }
  SECTION("aborted") {
    error = 0;
    ibv_wr_abort(end.builder);
  }
  if (error != 0) CHECK(ibv_wr_complete(end.builder) == error);

  CHECK(poll(end.queue).empty());
  CHECK(state_of(end.qp.get()) == IBV_QPS_RTS);
  for (std::uint64_t round = 0; round < 3; ++round) {
    ibv_wr_start(end.builder);
    for (std::uint64_t i = 0; i < 8; ++i) {
      end.next(i);
      ibv_wr_rdma_write(end.builder, memory.key(), memory.address(256));
    }
    REQUIRE(ibv_wr_complete(end.builder) == 0);
    CHECK(await(end.queue, 8).back().wr_id == 7);
  }
}

TEST_CASE("built work waits for a receive, and is flushed in error", "[soft]") {
  Extended end;
  bool const fails = GENERATE(true, false);
  ibv_wr_start(end.builder);
  for (std::uint64_t i = 1; i <= 2; ++i) {
    end.next(i);
    ibv_wr_send_imm(end.builder, static_cast<__be32>(i));
  }
  REQUIRE(ibv_wr_complete(end.builder) == 0);
  CHECK(poll(end.queue).empty());

  if (fails) {
    REQUIRE(move(end.qp.get(), IBV_QPS_ERR, {}, IBV_QP_STATE) == 0);
    for (auto const& flushed : await(end.queue, 2)) CHECK(flushed.status == IBV_WC_WR_FLUSH_ERR);
    ibv_wr_start(end.builder);
    end.next(3);
    ibv_wr_send(end.builder);
    REQUIRE(ibv_wr_complete(end.builder) == 0);
    CHECK(await_one(end.queue).wr_id == 3);
  } else {
    REQUIRE(end.receive(100, 0) == 0);
    REQUIRE(end.receive(101, 64) == 0);
    for (auto const& done : await(end.queue, 4)) CHECK(done.status == IBV_WC_SUCCESS);
  }
}

TEST_CASE("completions are read field by field, and work is posted in between", "[soft]") {
  Extended end;
  end.memory->write(0, "hello");
  ibv_poll_cq_attr none{};
  CHECK(ibv_start_poll(end.reader, &none) == ENOENT);
  REQUIRE(end.receive(100, 64) == 0);
  auto const send = [&](std::uint64_t id) {
    ibv_wr_start(end.builder);
    end.next(id);
    ibv_wr_send_imm(end.builder, 77);
    ibv_wr_set_sge(end.builder, end.memory->key(), end.memory->address(), 5);
    REQUIRE(ibv_wr_complete(end.builder) == 0);
  };
  send(1);

  REQUIRE(ibv_start_poll(end.reader, &none) == 0);
  CHECK(end.reader->wr_id == 1);
  CHECK(end.reader->status == IBV_WC_SUCCESS);
  CHECK(ibv_wc_read_opcode(end.reader) == IBV_WC_SEND);
  REQUIRE(ibv_next_poll(end.reader) == 0);
  CHECK(end.reader->wr_id == 100);
  CHECK(ibv_wc_read_opcode(end.reader) == IBV_WC_RECV);
  CHECK(ibv_wc_read_byte_len(end.reader) == 5);
  CHECK(ibv_wc_read_imm_data(end.reader) == 77);
  CHECK(ibv_wc_read_wc_flags(end.reader) == IBV_WC_WITH_IMM);
  CHECK(ibv_wc_read_qp_num(end.reader) == end.qp->qp_num);
  CHECK(ibv_wc_read_vendor_err(end.reader) == 0);
  REQUIRE(end.receive(101, 64) == 0);
  send(2);
  REQUIRE(ibv_next_poll(end.reader) == 0);
  CHECK(end.reader->wr_id == 2);
  REQUIRE(ibv_next_poll(end.reader) == 0);
  CHECK(ibv_next_poll(end.reader) == ENOENT);
  ibv_end_poll(end.reader);

  none.comp_mask = 1;
  CHECK(ibv_start_poll(end.reader, &none) == EINVAL);
}

TEST_CASE("what an extended object is asked for and the device has not is refused", "[soft]") {
  Extended end;
  ibv_cq_init_attr_ex queue{};
  queue.cqe = 4;
  SECTION("a timestamp by the clock on the wall") {
    queue.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  }
  SECTION("a field to come") {
    queue.wc_flags = std::uint64_t{1} << 40;
  }
  SECTION("a parent domain") {
    queue.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  }
  SECTION("ignored overruns") {
    queue.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    queue.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  }
  CHECK(ibv().create_cq_ex(end.context.get(), &queue) == nullptr);
  CHECK(errno == EOPNOTSUPP);

  ibv_qp_init_attr_ex asked{};
  asked.send_cq = asked.recv_cq = end.queue.get();
  asked.qp_type = IBV_QPT_UD;
  asked.cap = {1, 1, 1, 1, 0};
  asked.pd = end.domain.get();
  asked.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  for (auto const flag : {std::uint64_t{IBV_QP_EX_WITH_RDMA_READ},
                          std::uint64_t{IBV_QP_EX_WITH_BIND_MW}, std::uint64_t{1} << 40}) {
    asked.send_ops_flags = flag;
    CHECK(ibv().create_qp_ex(end.context.get(), &asked) == nullptr);
    CHECK(errno == EOPNOTSUPP);
  }
  asked.comp_mask = IBV_QP_INIT_ATTR_PD;
  HeldQueuePair const plain{ibv().create_qp_ex(end.context.get(), &asked)};
  REQUIRE(plain);
  CHECK(ibv().qp_to_qp_ex(plain.get()) == nullptr);
}

TEST_CASE("hundreds of queue pairs between two contexts each deliver their own", "[soft]") {
  constexpr std::uint32_t pairs = 300;
  auto const near = open_context();
  auto const far = open_context();
  auto const near_domain = make_domain(near.get());
  auto const far_domain = make_domain(far.get());
  auto const sends = make_queue(near.get(), pairs);
  auto const receives = make_queue(far.get(), pairs);
  Memory const from{near_domain.get(), pairs * 64};
  Memory const to{far_domain.get(), pairs * 64};
  std::vector<HeldQueuePair> senders;
  std::vector<HeldQueuePair> receivers;
  for (std::uint32_t i = 0; i < pairs; ++i) {
    senders.push_back(make_queue_pair(near_domain.get(), sends.get(), sends.get()));
    receivers.push_back(make_queue_pair(far_domain.get(), receives.get(), receives.get()));
    bring_to(senders[i].get(), IBV_QPS_RTS, receivers[i]->qp_num);
    bring_to(receivers[i].get(), IBV_QPS_RTS, senders[i]->qp_num);
  }
  for (std::uint32_t i = 0; i < pairs; ++i) {
    from.write(i * 64, std::to_string(i));
    auto piece = to.piece(i * 64, 64);
    ibv_recv_wr receive{i, nullptr, &piece, 1};
    ibv_recv_wr* bad_receive = nullptr;
    REQUIRE(ibv_post_recv(receivers[i].get(), &receive, &bad_receive) == 0);
    auto source = from.piece(i * 64, i % 2 == 0 ? 8 : 64);
    ibv_send_wr send{};
    send.wr_id = i;
    send.sg_list = &source;
    send.num_sge = 1;
    send.opcode = IBV_WR_SEND;
    send.send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
    ibv_send_wr* bad = nullptr;
    REQUIRE(ibv_post_send(senders[i].get(), &send, &bad) == 0);
  }

  for (auto const& end : await(sends, pairs)) CHECK(end.status == IBV_WC_SUCCESS);
  for (auto const& end : await(receives, pairs)) {
    CHECK(end.status == IBV_WC_SUCCESS);
    CHECK(end.qp_num == receivers[end.wr_id]->qp_num);
    auto const text = std::to_string(end.wr_id);
    CHECK(to.read(end.wr_id * 64, text.size()) == text);
  }
}
