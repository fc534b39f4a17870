// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: datagrams reach the queue pair they name, behind 40 bytes, from whoever knows its key, and
// are lost without a word otherwise.
// Source: ibv_post_send(3), ibv_create_ah(3), ibv_create_ah_from_wc(3); InfiniBand Architecture
// Specification vol. 1, 8.3, 10.2.5 and 11.4.1.
#include <endian.h>
#include <soft/objects/context.hpp>
#include <soft/objects/queue_pair.hpp>
#include "soft/support.hpp"

using namespace lend;
using namespace lend::test;

namespace {

constexpr std::uint32_t key = 0x1234;
constexpr std::uint32_t own_key = 1u << 31;  // stands for the sender's own
constexpr std::size_t before = 40;

struct Side {
  explicit Side(ibv_context* context, int completions = 64)
      : domain{make_domain(context)}, queue{make_queue(context, completions)} {
    ibv_qp_init_attr asked{};
    asked.send_cq = asked.recv_cq = queue.get();
    asked.qp_type = IBV_QPT_UD;
    asked.cap = {16, 16, 3, 3, 64};
    qp.reset(ibv().create_qp(domain.get(), &asked));
    REQUIRE(qp);
    ibv_qp_attr attributes{};
    attributes.port_num = 1;
    attributes.qkey = key;
    REQUIRE(move(qp.get(), IBV_QPS_INIT, attributes,
                 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
    REQUIRE(move(qp.get(), IBV_QPS_RTR, attributes, IBV_QP_STATE) == 0);
    REQUIRE(move(qp.get(), IBV_QPS_RTS, attributes, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
    address = address_of(false);
    memory = std::make_unique<Memory>(domain.get(), 16384);
  }
  [[nodiscard]] HeldAddress address_of(bool is_global) const {
    ibv_ah_attr attributes{};
    attributes.port_num = 1;
    attributes.dlid = 1;
    attributes.sl = 3;
    if (is_global) {
      attributes.is_global = 1;
      attributes.grh.flow_label = 0xabcde;
      attributes.grh.traffic_class = 0x12;
      attributes.grh.hop_limit = 9;
      REQUIRE(ibv().query_gid(domain->context, 1, 0, &attributes.grh.dgid) == 0);
    }
    HeldAddress made{ibv().create_ah(domain.get(), &attributes)};
    REQUIRE(made);
    return made;
  }
  int send(std::uint32_t to, std::vector<ibv_sge> pieces, std::uint32_t with_key = key,
           ibv_ah* by = nullptr, unsigned flags = IBV_SEND_SIGNALED) {
    ibv_send_wr wr{};
    wr.sg_list = pieces.data();
    wr.num_sge = static_cast<int>(pieces.size());
    wr.opcode = IBV_WR_SEND_WITH_IMM;
    wr.send_flags = flags;
    wr.imm_data = 77;
    wr.wr.ud = {by != nullptr ? by : address.get(), to, with_key};
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp.get(), &wr, &bad);
  }
  int receive(std::uint64_t id, std::vector<ibv_sge> pieces) {
    ibv_recv_wr wr{};
    wr.wr_id = id;
    wr.sg_list = pieces.data();
    wr.num_sge = static_cast<int>(pieces.size());
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(qp.get(), &wr, &bad);
  }

  HeldDomain domain;
  HeldQueue queue;
  HeldQueuePair qp;
  HeldAddress address;
  std::unique_ptr<Memory> memory;
};

struct Two {
  HeldContext near = open_context();
  HeldContext far{GENERATE(true, false) ? open_context() : nullptr};
  Side a{near.get()};
  Side b{far ? far.get() : near.get()};

  void check_lost() {
    CHECK(await_one(a.queue).status == IBV_WC_SUCCESS);
    CHECK(await(b.queue, 0).empty());
    CHECK(state_of(a.qp.get()) == IBV_QPS_RTS);
    CHECK(state_of(b.qp.get()) == IBV_QPS_RTS);
  }
};

}  // namespace

TEST_CASE("a datagram arrives behind 40 bytes and names its sender", "[soft]") {
  Two two;
  auto const length = GENERATE(0u, 5u, 300u, 4096u);
  bool const with_header = GENERATE(true, false);
  std::string text(length, 'd');
  two.a.memory->write(0, text);
  auto const global = two.a.address_of(true);
  REQUIRE(two.b.receive(6, {two.b.memory->piece(0, before + 4096)}) == 0);

  REQUIRE(two.a.send(two.b.qp->qp_num, {two.a.memory->piece(0, length)}, key,
                     with_header ? global.get() : nullptr) == 0);

  auto const sent = await_one(two.a.queue);
  CHECK(sent.status == IBV_WC_SUCCESS);
  CHECK(sent.opcode == IBV_WC_SEND);
  auto const end = await_one(two.b.queue);
  CHECK(end.status == IBV_WC_SUCCESS);
  CHECK(end.opcode == IBV_WC_RECV);
  CHECK(end.wr_id == 6);
  CHECK(end.byte_len == before + length);
  CHECK(end.src_qp == two.a.qp->qp_num);
  CHECK(end.qp_num == two.b.qp->qp_num);
  CHECK(end.slid == 1);
  CHECK(end.sl == 3);
  CHECK(end.imm_data == 77);
  CHECK(end.wc_flags == (with_header ? IBV_WC_WITH_IMM | IBV_WC_GRH : IBV_WC_WITH_IMM));
  CHECK(two.b.memory->read(before, length) == text);
  if (!with_header) return;
  ibv_grh header;
  std::memcpy(&header, two.b.memory->at(0), sizeof header);
  CHECK(be32toh(header.version_tclass_flow) == (6u << 28 | 0x12u << 20 | 0xabcde));
  CHECK(header.next_hdr == 0x1b);
  CHECK(header.hop_limit == 9);
  CHECK(be16toh(header.paylen) == 28 + (length + 3) / 4 * 4);  // 4 of them the immediate's
  ibv_gid own{};
  REQUIRE(ibv().query_gid(two.a.domain->context, 1, 0, &own) == 0);
  CHECK(std::memcmp(&header.sgid, &own, sizeof own) == 0);
}

TEST_CASE("a datagram is answered by the address in its completion", "[soft]") {
  Two two;
  bool const with_header = GENERATE(true, false);
  auto const address = two.a.address_of(with_header);
  REQUIRE(two.b.receive(1, {two.b.memory->piece(0, 100)}) == 0);
  REQUIRE(two.a.receive(2, {two.a.memory->piece(0, 100)}) == 0);
  REQUIRE(two.a.send(two.b.qp->qp_num, {}, key, address.get()) == 0);
  CHECK(await_one(two.a.queue).opcode == IBV_WC_SEND);
  auto asked = await_one(two.b.queue);

  auto* const header = reinterpret_cast<ibv_grh*>(two.b.memory->at(0));
  HeldAddress const back{ibv().create_ah_from_wc(two.b.domain.get(), &asked, header, 1)};
  REQUIRE(back);
  two.b.memory->write(200, "answer");
  REQUIRE(two.b.send(asked.src_qp, {two.b.memory->piece(200, 6)}, own_key, back.get()) == 0);

  auto const answer = await_one(two.a.queue);
  CHECK(answer.wr_id == 2);
  CHECK(answer.src_qp == two.b.qp->qp_num);
  CHECK(two.a.memory->read(before, 6) == "answer");
  ibv_ah_attr attributes{};
  REQUIRE(ibv().init_ah_from_wc(two.b.domain->context, 1, &asked, header, &attributes) == 0);
  CHECK(attributes.dlid == 1);
  CHECK(attributes.is_global == (with_header ? 1 : 0));
  CHECK(attributes.grh.flow_label == (with_header ? 0xabcde : 0));
}

TEST_CASE("a datagram that nobody can take is lost", "[soft]") {
  Two two;
  auto const to = two.b.qp->qp_num;

  SECTION("no receive") {
    REQUIRE(two.a.send(to, {}) == 0);
  }
  SECTION("another key") {
    REQUIRE(two.b.receive(1, {two.b.memory->piece(0, 100)}) == 0);
    REQUIRE(two.a.send(to, {}, key + 1) == 0);
  }
  SECTION("a receive too short for it and the 40 bytes") {
    REQUIRE(two.b.receive(1, {two.b.memory->piece(0, before + 7)}) == 0);
    REQUIRE(two.a.send(to, {two.a.memory->piece(0, 8)}) == 0);
  }
  SECTION("more bytes than the MTU") {
    REQUIRE(two.b.receive(1, {two.b.memory->piece(0, 16384)}) == 0);
    REQUIRE(two.a.send(to, {two.a.memory->piece(0, 4097)}) == 0);
  }
  SECTION("no such queue pair") {
    REQUIRE(two.a.send(to + 100, {}) == 0);
  }
  SECTION("no such process") {
    REQUIRE(two.a.send(0xfff000, {}) == 0);
  }

  two.check_lost();
}

TEST_CASE("datagrams wait in SQD, and after a bad one are flushed until RTS", "[soft]") {
  Two two;
  auto const to = two.b.qp->qp_num;
  bool const drains = GENERATE(true, false);
  for (std::uint64_t id = 1; id <= 2; ++id) {
    REQUIRE(two.a.receive(id, {two.a.memory->piece(id * 100, 100)}) == 0);
    REQUIRE(two.b.receive(id, {two.b.memory->piece(id * 100, 100)}) == 0);
  }
  if (drains) {
    REQUIRE(move(two.a.qp.get(), IBV_QPS_SQD, {}, IBV_QP_STATE) == 0);
    REQUIRE(two.a.send(to, {}) == 0);
    CHECK(await(two.a.queue, 0).empty());
  } else {
    REQUIRE(two.a.send(to, {{8, 8, 0xabcdef}}) == 0);
    REQUIRE(two.a.send(to, {}) == 0);
    auto const ends = await(two.a.queue, 2);
    CHECK(ends[0].status == IBV_WC_LOC_PROT_ERR);
    CHECK(ends[1].status == IBV_WC_WR_FLUSH_ERR);
  }
  CHECK(state_of(two.a.qp.get()) == (drains ? IBV_QPS_SQD : IBV_QPS_SQE));
  CHECK(await(two.b.queue, 0).empty());

  REQUIRE(two.b.send(two.a.qp->qp_num, {}) == 0);  // receives go on
  CHECK(await_one(two.b.queue).status == IBV_WC_SUCCESS);
  CHECK(await_one(two.a.queue).wr_id == 1);
  REQUIRE(move(two.a.qp.get(), IBV_QPS_RTS, {}, IBV_QP_STATE) == 0);
  if (!drains) REQUIRE(two.a.send(to, {}) == 0);

  CHECK(await_one(two.a.queue).status == IBV_WC_SUCCESS);
  CHECK(await_one(two.b.queue).wr_id == 1);
}

TEST_CASE("one queue pair takes datagrams of many and sends to many", "[soft]") {
  auto const context = open_context();
  std::vector<HeldContext> others;
  Side hub{context.get()};
  constexpr std::uint64_t peers = 5;
  {
    std::vector<std::unique_ptr<Side>> sides;
    for (std::uint64_t i = 0; i < peers; ++i) {
      others.push_back(open_context());
      sides.push_back(std::make_unique<Side>(others.back().get()));
      REQUIRE(sides[i]->receive(1, {sides[i]->memory->piece(0, 64)}) == 0);
      REQUIRE(hub.receive(i, {hub.memory->piece(i * 64, 64)}) == 0);
    }
    for (auto const& side : sides) {
      side->memory->write(1000, std::to_string(side->qp->qp_num));
      REQUIRE(side->send(hub.qp->qp_num, {side->memory->piece(1000, 8)}) == 0);
      REQUIRE(hub.send(side->qp->qp_num, {}) == 0);
    }
    for (auto const& end : await(hub.queue, 2 * peers)) {
      if (end.opcode == IBV_WC_SEND) continue;
      CHECK(end.src_qp == sides[end.wr_id]->qp->qp_num);
      auto const number = std::to_string(end.src_qp);
      CHECK(hub.memory->read(end.wr_id * 64 + before, number.size()) == number);
    }
    for (auto const& side : sides) CHECK(await(side->queue, 2).size() == 2);
  }
  // They are gone: what is sent to them is lost.
  for (auto& other : others) other.reset();
  REQUIRE(hub.send(hub.qp->qp_num + (1u << 12), {}) == 0);
  CHECK(await_one(hub.queue).status == IBV_WC_SUCCESS);
}

TEST_CASE("a datagram needs an address of this host, and its handle holds the domain", "[soft]") {
  auto const context = open_context();
  Side side{context.get()};
  ibv_ah_attr attributes{};
  attributes.port_num = 1;
  attributes.dlid = 2;
  CHECK(ibv().create_ah(side.domain.get(), &attributes) == nullptr);
  CHECK(errno == ENETUNREACH);
  attributes.port_num = 2;
  CHECK(ibv().create_ah(side.domain.get(), &attributes) == nullptr);
  CHECK(errno == EINVAL);
  auto const domain = make_domain(context.get());
  attributes.port_num = 1;
  attributes.is_global = 1;
  REQUIRE(ibv().query_gid(context.get(), 1, 0, &attributes.grh.dgid) == 0);
  attributes.grh.sgid_index = 1;
  errno = 0;
  CHECK(ibv().create_ah(domain.get(), &attributes) == nullptr);
  CHECK(errno == EINVAL);
  attributes.is_global = 0;
  attributes.dlid = 1;
  HeldAddress const address{ibv().create_ah(domain.get(), &attributes)};
  REQUIRE(address);
  CHECK(ibv().dealloc_pd(domain.get()) == EBUSY);
}

TEST_CASE("a receive whose datagram's sender died is aborted, once, if it was not completed",
          "[soft]") {
  Two two;
  auto& shared = soft::Context::of(two.b.domain->context)
                     .segment.queue_pairs[two.b.qp->qp_num % soft::queue_pairs_max];
  for (std::uint64_t id = 1; id <= 3; ++id)
    REQUIRE(two.b.receive(id, {two.b.memory->piece(id * 100, 100)}) == 0);
  REQUIRE(two.a.send(two.b.qp->qp_num, {}) == 0);
  bool const had_completed = GENERATE(true, false);
  // What a sender leaves that is killed after its completion, or before it.
  shared.claim.set(had_completed ? 1 : 2);

  REQUIRE(two.a.send(two.b.qp->qp_num, {}) == 0);

  auto const ends = await(two.b.queue, had_completed ? 2 : 3);
  CHECK(ends[0].wr_id == 1);
  CHECK(ends[0].status == IBV_WC_SUCCESS);
  CHECK(ends[1].wr_id == 2);
  CHECK(ends[1].status == (had_completed ? IBV_WC_SUCCESS : IBV_WC_REM_ABORT_ERR));
  CHECK(ends.back().status == IBV_WC_SUCCESS);
  CHECK(ends.back().wr_id == (had_completed ? 2 : 3));
  CHECK(shared.claim.get() == 0);
}

TEST_CASE("a dead sender's receive waits for room, and those behind it wait for it", "[soft]") {
  auto const near = open_context();
  auto const far = open_context();
  Side a{near.get()};
  Side b{far.get(), 2};
  for (std::uint64_t id = 0; id < 5; ++id) REQUIRE(b.receive(id, {b.memory->piece(0, 512)}) == 0);
  auto const send = [&] {
    REQUIRE(a.send(b.qp->qp_num, {a.memory->piece(0, 8)}) == 0);
    CHECK(await_one(a.queue).status == IBV_WC_SUCCESS);
  };
  for (int i = 0; i < 2; ++i) send();
  // As a sender leaves it that dies after it matched the third.
  static_cast<soft::QueuePair*>(b.qp.get())->shared->claim.set(3);

  send();  // lost: the third cannot be ended while there is no room
  auto const first = await(b.queue, 2);
  send();

  CHECK(first[1].wr_id == 1);
  auto const then = await(b.queue, 2);
  CHECK(then[0].wr_id == 2);
  CHECK(then[0].status == IBV_WC_REM_ABORT_ERR);
  CHECK(then[1].wr_id == 3);
  CHECK(then[1].status == IBV_WC_SUCCESS);
}
