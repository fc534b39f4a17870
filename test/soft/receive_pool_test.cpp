// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a shared receive queue serves several queue pairs, in the order of posting, and accounts
// for each receive once, also when a queue pair fails in the middle.
// Source: ibv_create_srq(3), ibv_modify_srq(3), ibv_query_srq(3), ibv_post_srq_recv(3),
// ibv_create_qp(3).
#include <soft/objects/context.hpp>
#include <soft/objects/queue_pair.hpp>

#include <algorithm>

#include "soft/support.hpp"

using namespace lend;
using namespace lend::test;

namespace {

using HeldPool = std::unique_ptr<ibv_srq, Destroy<ibv_srq, &verbs::Provider::destroy_srq>>;

HeldPool make_pool(ibv_pd* domain, std::uint32_t depth = 16, std::uint32_t pieces = 4) {
  ibv_srq_init_attr asked{};
  asked.attr = {depth, pieces, 0};
  HeldPool pool{ibv().create_srq(domain, &asked)};
  REQUIRE(pool);
  CHECK(asked.attr.max_wr >= depth);
  CHECK(asked.attr.max_sge >= pieces);
  return pool;
}

int post_to(HeldPool const& pool, std::uint64_t id, std::vector<ibv_sge> pieces = {}) {
  ibv_recv_wr wr{};
  wr.wr_id = id;
  wr.sg_list = pieces.data();
  wr.num_sge = static_cast<int>(pieces.size());
  ibv_recv_wr* bad = nullptr;
  auto const error = ibv_post_srq_recv(pool.get(), &wr, &bad);
  CHECK((error == 0) == (bad == nullptr));
  return error;
}

HeldQueuePair make_user(ibv_pd* domain, ibv_cq* queue, ibv_srq* pool) {
  ibv_qp_init_attr asked{};
  asked.send_cq = asked.recv_cq = queue;
  asked.srq = pool;
  asked.qp_type = IBV_QPT_RC;
  asked.cap = {16, 0, 4, 0, 0};
  HeldQueuePair made{ibv().create_qp(domain, &asked)};
  REQUIRE(made);
  return made;
}

/// Two senders in one context, two users of one pool in another.
struct Fan {
  static constexpr std::size_t ends = 2;

  explicit Fan(Terms const& terms = {}) {
    for (std::size_t i = 0; i < ends; ++i) {
      senders.push_back(std::make_unique<End>(far.get()));
      users.push_back(make_user(domain.get(), queue.get(), pool.get()));
      bring_to(users[i].get(), IBV_QPS_RTS, senders[i]->qp->qp_num, terms);
      bring_to(senders[i]->qp.get(), IBV_QPS_RTS, users[i]->qp_num, terms);
    }
    from = std::make_unique<Memory>(senders[0]->domain.get(), 4096);
    other_from = std::make_unique<Memory>(senders[1]->domain.get(), 4096);
  }
  Memory const& source(std::size_t which) { return which == 0 ? *from : *other_from; }
  void send(std::size_t which, std::string const& text, std::uint64_t id = 1) {
    source(which).write(0, text);
    REQUIRE(post(*senders[which], {.id = id, .pieces = {source(which).piece(0, text.size())}}) ==
            0);
  }

  HeldContext near = open_context();
  HeldContext far = open_context();
  HeldDomain domain = make_domain(near.get());
  HeldQueue queue = make_queue(near.get());
  Memory to{domain.get(), 4096};
  HeldPool pool = make_pool(domain.get());
  std::vector<std::unique_ptr<End>> senders;
  std::vector<HeldQueuePair> users;
  std::unique_ptr<Memory> from;
  std::unique_ptr<Memory> other_from;
};

}  // namespace

TEST_CASE("messages that wait for a shared queue are taken by the posts of its receives, one each",
          "[soft]") {
  Terms terms;
  terms.rnr_retries = 7;
  Fan fan{terms};
  fan.send(0, std::string(100, 'x'));
  fan.send(1, std::string(100, 'y'));

  REQUIRE(post_to(fan.pool, 1, {fan.to.piece(0, 200)}) == 0);
  CHECK(poll(fan.queue).size() == 1);
  REQUIRE(post_to(fan.pool, 2, {fan.to.piece(200, 200)}) == 0);
  auto const second = poll(fan.queue);
  REQUIRE(second.size() == 1);
  CHECK(second[0].wr_id == 2);
  CHECK(second[0].byte_len == 100);

  for (auto const& sender : fan.senders) CHECK(await_one(sender->sends).status == IBV_WC_SUCCESS);
  auto const texts = fan.to.read(0, 100) + fan.to.read(200, 100);
  CHECK(std::count(texts.begin(), texts.end(), 'x') == 100);
  CHECK(std::count(texts.begin(), texts.end(), 'y') == 100);
}

TEST_CASE("a receive of a shared queue that is too short for the message that waits ends once",
          "[soft]") {
  Terms terms;
  terms.rnr_retries = 7;
  Fan fan{terms};
  fan.send(0, std::string(100, 'x'));

  REQUIRE(post_to(fan.pool, 1, {fan.to.piece(0, 99)}) == 0);
  REQUIRE(post_to(fan.pool, 2, {fan.to.piece(0, 100)}) == 0);

  CHECK(await_one(fan.senders[0]->sends).status == IBV_WC_REM_INV_REQ_ERR);
  auto const end = await_one(fan.queue);
  CHECK(end.wr_id == 1);
  CHECK(end.status == IBV_WC_LOC_LEN_ERR);
  fan.send(1, "whole");
  CHECK(await_one(fan.queue).wr_id == 2);
}

TEST_CASE("a claim that a peer scribbled leads to no receive that was not posted", "[soft]") {
  Terms terms;
  terms.rnr_retries = 7;
  Fan fan{terms};
  fan.send(0, std::string(100, 'x'));
  // A receive of nobody, and one of another posting.
  auto const claim = GENERATE(std::uint64_t{1} << 16 | 12, std::uint64_t{99} << 16);
  static_cast<soft::QueuePair*>(fan.users[0].get())->shared->claim.set(claim);
  REQUIRE(post_to(fan.pool, 1, {fan.to.piece(0, 100)}) == 0);
  CHECK(poll(fan.queue).empty());
}

TEST_CASE("queue pairs take receives of a shared queue in the order of posting", "[soft]") {
  Fan fan;
  std::string const texts[] = {"short", std::string(200, 'x'), "also short", std::string(300, 'y')};
  for (std::uint64_t i = 0; i < 4; ++i)
    REQUIRE(post_to(fan.pool, 10 + i,
                    {fan.to.piece(i * 512, 100), fan.to.piece(2048 + i * 512, 412)}) == 0);

  for (std::size_t i = 0; i < 4; ++i) fan.send(i % 2, texts[i]);

  auto const ends = await(fan.queue, 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(ends[i].status == IBV_WC_SUCCESS);
    CHECK(ends[i].opcode == IBV_WC_RECV);
    CHECK(ends[i].wr_id == 10 + i);
    CHECK(ends[i].qp_num == fan.users[i % 2]->qp_num);
    CHECK(ends[i].byte_len == texts[i].size());
    auto const head = std::min<std::size_t>(100, texts[i].size());
    CHECK(fan.to.read(i * 512, head) == texts[i].substr(0, head));
    CHECK(fan.to.read(2048 + i * 512, texts[i].size() - head) == texts[i].substr(head));
  }
  for (auto const& sender : fan.senders)
    for (auto const& end : await(sender->sends, 2)) CHECK(end.status == IBV_WC_SUCCESS);
}

TEST_CASE("a shared queue's receives are of its own protection domain, not its queue pairs'",
          "[soft]") {
  Fan fan;
  HeldDomain const theirs = make_domain(fan.near.get());
  End sender{fan.far.get()};
  auto const user = make_user(theirs.get(), fan.queue.get(), fan.pool.get());
  bring_to(user.get(), IBV_QPS_RTS, sender.qp->qp_num, {});
  bring_to(sender.qp.get(), IBV_QPS_RTS, user->qp_num, {});
  Memory const from{sender.domain.get(), 4096};
  auto const bytes = GENERATE(std::size_t{8}, std::size_t{200});  // in the completion; copied
  from.write(0, std::string(bytes, 'x'));
  CAPTURE(bytes);

  SECTION("which is where their keys are looked for") {
    REQUIRE(post_to(fan.pool, 1, {fan.to.piece(0, 200)}) == 0);
    REQUIRE(post(sender, {.pieces = {from.piece(0, bytes)}}) == 0);
    CHECK(await_one(fan.queue).status == IBV_WC_SUCCESS);
    CHECK(await_one(sender.sends).status == IBV_WC_SUCCESS);
    CHECK(fan.to.read(0, bytes) == std::string(bytes, 'x'));
  }
  SECTION("so that a key of the queue pair's is a protection error") {
    Memory const wrong{theirs.get(), 4096};
    REQUIRE(post_to(fan.pool, 1, {wrong.piece(0, 200)}) == 0);
    REQUIRE(post(sender, {.pieces = {from.piece(0, bytes)}}) == 0);
    CHECK(await_one(fan.queue).status == IBV_WC_LOC_PROT_ERR);
    CHECK(await_one(sender.sends).status == IBV_WC_REM_OP_ERR);
  }
}

TEST_CASE("a shared queue is used round and round, full when its depth is outstanding", "[soft]") {
  Fan fan;
  std::uint64_t posted = 0;
  for (; posted < 16; ++posted) REQUIRE(post_to(fan.pool, posted, {fan.to.piece(0, 64)}) == 0);
  CHECK(post_to(fan.pool, 99) == ENOMEM);

  for (std::uint64_t i = 0; i < 100; ++i) {
    fan.send(i % 2, "again");
    CHECK(await_one(fan.senders[i % 2]->sends).status == IBV_WC_SUCCESS);
    // Not before it is polled.
    CHECK(post_to(fan.pool, posted) == ENOMEM);
    CHECK(await_one(fan.queue).wr_id == i);
    REQUIRE(post_to(fan.pool, posted++, {fan.to.piece(0, 64)}) == 0);
  }
}

TEST_CASE("an empty shared queue is a receiver that is not ready", "[soft]") {
  Terms patient;
  patient.rnr_retries = GENERATE(std::uint8_t{0}, std::uint8_t{7});
  Fan fan{patient};

  fan.send(0, "early");

  if (patient.rnr_retries == 0) {
    CHECK(await_one(fan.senders[0]->sends).status == IBV_WC_RNR_RETRY_EXC_ERR);
    CHECK(state_of(fan.users[0].get()) == IBV_QPS_RTS);
  } else {
    CHECK(await(fan.senders[0]->sends, 0).empty());
    REQUIRE(post_to(fan.pool, 3, {fan.to.piece(0, 64)}) == 0);
    CHECK(await_one(fan.senders[0]->sends).status == IBV_WC_SUCCESS);
    CHECK(await_one(fan.queue).wr_id == 3);
    CHECK(fan.to.read(0, 5) == "early");
  }
}

TEST_CASE("a shared queue's receives outlive a queue pair in error", "[soft]") {
  Fan fan;
  REQUIRE(post_to(fan.pool, 1, {fan.to.piece(0, 8)}) == 0);
  REQUIRE(post_to(fan.pool, 2, {fan.to.piece(0, 64)}) == 0);

  fan.send(0, "too long for the first");
  CHECK(await_one(fan.senders[0]->sends).status == IBV_WC_REM_INV_REQ_ERR);
  fan.send(1, "fits the second");

  auto const ends = await(fan.queue, 2);
  CHECK(ends[0].wr_id == 1);
  CHECK(ends[0].status == IBV_WC_LOC_LEN_ERR);
  CHECK(ends[1].wr_id == 2);
  CHECK(ends[1].status == IBV_WC_SUCCESS);
  CHECK(state_of(fan.users[0].get()) == IBV_QPS_ERR);
  CHECK(state_of(fan.users[1].get()) == IBV_QPS_RTS);
}

TEST_CASE("a receive that a write with a bad key took is flushed with its queue pair", "[soft]") {
  Fan fan;
  REQUIRE(post_to(fan.pool, 1, {fan.to.piece(0, 64)}) == 0);
  REQUIRE(post_to(fan.pool, 2, {fan.to.piece(64, 64)}) == 0);

  REQUIRE(post(*fan.senders[0], {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                                 .pieces = {fan.from->piece(0, 8)},
                                 .remote_address = fan.to.address(),
                                 .remote_key = 0xabcdef}) == 0);

  CHECK(await_one(fan.senders[0]->sends).status == IBV_WC_REM_ACCESS_ERR);
  auto const flushed = await_one(fan.queue);
  CHECK(flushed.wr_id == 1);
  CHECK(flushed.status == IBV_WC_WR_FLUSH_ERR);
  fan.send(1, "next");
  CHECK(await_one(fan.queue).wr_id == 2);
}

TEST_CASE("receives that a destroyed or reset queue pair had completed can be posted again",
          "[soft]") {
  Fan fan;
  bool const is_reset = GENERATE(true, false);
  for (int round = 0; round < 3; ++round) {
    if (round > 0 && !is_reset) break;
    for (std::uint64_t i = 0; i < 16; ++i)
      REQUIRE(post_to(fan.pool, i, {fan.to.piece(0, 64)}) == 0);
    for (int i = 0; i < 16; ++i) fan.send(0, "unpolled");
    if (is_reset) {
      REQUIRE(move(fan.users[0].get(), IBV_QPS_RESET, {}, IBV_QP_STATE) == 0);
      bring_to(fan.users[0].get(), IBV_QPS_RTS, fan.senders[0]->qp->qp_num);
    } else {
      fan.users[0].reset();
    }
    CHECK(await(fan.queue, 0).empty());
    static_cast<void>(await(fan.senders[0]->sends, 16));
  }

  REQUIRE(post_to(fan.pool, 77, {fan.to.piece(0, 64)}) == 0);
  fan.send(1, "alive");
  CHECK(await_one(fan.queue).wr_id == 77);
}

TEST_CASE("a shared queue in use is not destroyed", "[soft]") {
  Fan fan;

  CHECK(ibv().destroy_srq(fan.pool.get()) == EBUSY);
  fan.users.clear();
  fan.pool.reset();
}

TEST_CASE("a queue pair with a shared queue has no receives of its own", "[soft]") {
  Fan fan;
  ibv_recv_wr wr{};
  ibv_recv_wr* bad = nullptr;

  CHECK(ibv_post_recv(fan.users[0].get(), &wr, &bad) == EINVAL);
  CHECK(bad == &wr);
}

TEST_CASE("a shared queue answers what it was given and refuses what there is not", "[soft]") {
  auto const context = open_context();
  auto const domain = make_domain(context.get());
  ibv_device_attr device{};
  REQUIRE(ibv().query_device(context.get(), &device) == 0);
  CHECK(device.max_srq > 0);
  CHECK(device.max_srq_wr >= 1024);
  CHECK(device.max_srq_sge >= 4);
  ibv_srq_init_attr asked{};
  asked.attr = {static_cast<std::uint32_t>(device.max_srq_wr) + 1, 1, 0};
  CHECK(ibv().create_srq(domain.get(), &asked) == nullptr);
  CHECK(errno == EINVAL);
  auto const pool = make_pool(domain.get(), 10, 2);
  ibv_srq_attr attributes{};
  attributes.srq_limit = 7;

  CHECK(ibv().modify_srq(pool.get(), &attributes, IBV_SRQ_LIMIT) == 0);

  REQUIRE(ibv().query_srq(pool.get(), &attributes) == 0);
  CHECK(attributes.max_wr == 10);
  CHECK(attributes.max_sge == 2);
  CHECK(attributes.srq_limit == 7);
  attributes.srq_limit = 11;
  CHECK(ibv().modify_srq(pool.get(), &attributes, IBV_SRQ_LIMIT) == EINVAL);
  CHECK(ibv().modify_srq(pool.get(), &attributes, IBV_SRQ_MAX_WR) == EOPNOTSUPP);
  CHECK(post_to(pool, 1, std::vector<ibv_sge>(3)) == EINVAL);
}

TEST_CASE("the limit of a shared queue is reached once, below it, and disarmed", "[soft]") {
  Fan fan;
  for (std::uint64_t i = 0; i < 4; ++i) REQUIRE(post_to(fan.pool, i, {fan.to.piece(0, 64)}) == 0);
  ibv_srq_attr attributes{};
  attributes.srq_limit = 3;
  REQUIRE(ibv().modify_srq(fan.pool.get(), &attributes, IBV_SRQ_LIMIT) == 0);

  fan.send(0, "three are left");
  REQUIRE(ibv().query_srq(fan.pool.get(), &attributes) == 0);
  CHECK(attributes.srq_limit == 3);
  fan.send(1, "two are left");

  REQUIRE(ibv().query_srq(fan.pool.get(), &attributes) == 0);
  CHECK(attributes.srq_limit == 0);
}

TEST_CASE("a basic shared queue can be made the extended way, another kind cannot", "[soft]") {
  auto const context = open_context();
  auto const domain = make_domain(context.get());
  ibv_srq_init_attr_ex asked{};
  asked.attr = {4, 1, 0};
  asked.pd = domain.get();
  asked.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE;

  asked.srq_type = IBV_SRQT_BASIC;
  HeldPool const pool{ibv().create_srq_ex(context.get(), &asked)};
  CHECK(pool);
  asked.srq_type = IBV_SRQT_XRC;
  CHECK(ibv().create_srq_ex(context.get(), &asked) == nullptr);
  CHECK(errno == EOPNOTSUPP);
}

TEST_CASE("a shared receive whose completion had no room ends once all the same", "[soft]") {
  Fan fan;
  fan.users.clear();
  fan.queue = make_queue(fan.near.get(), 2);
  auto user = make_user(fan.domain.get(), fan.queue.get(), fan.pool.get());
  auto& sender = *fan.senders[0];
  REQUIRE(move(sender.qp.get(), IBV_QPS_RESET, {}, IBV_QP_STATE) == 0);
  bring_to(user.get(), IBV_QPS_RTS, sender.qp->qp_num);
  bring_to(sender.qp.get(), IBV_QPS_RTS, user->qp_num);
  for (std::uint64_t id = 0; id < 16; ++id)
    REQUIRE(post_to(fan.pool, id, {fan.to.piece(0, 64)}) == 0);
  for (std::uint64_t id = 0; id < 3; ++id) fan.send(0, "three are one too many", id);
  auto const sent = await(sender.sends, 3);
  CHECK(sent[1].status == IBV_WC_SUCCESS);
  CHECK(sent[2].status == IBV_WC_RETRY_EXC_ERR);

  SECTION("flushed by the queue pair that broke") {
    auto const ends = await(fan.queue, 3);
    for (std::uint64_t id = 0; id < 3; ++id) {
      CHECK(ends[id].wr_id == id);
      CHECK(ends[id].status == (id < 2 ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR));
    }
    for (std::uint64_t id = 0; id < 3; ++id) CHECK(post_to(fan.pool, id) == 0);
  }
  SECTION("given back by a reset before it was flushed") {
    CHECK(state_of(user.get()) == IBV_QPS_ERR);
    REQUIRE(move(user.get(), IBV_QPS_RESET, {}, IBV_QP_STATE) == 0);
    CHECK(await(fan.queue, 0).empty());
    for (std::uint64_t id = 0; id < 3; ++id) CHECK(post_to(fan.pool, id) == 0);
  }
  SECTION("given back when the queue pair is destroyed") {
    user.reset();
    for (std::uint64_t id = 0; id < 3; ++id) CHECK(post_to(fan.pool, id) == 0);
  }
  CHECK(post_to(fan.pool, 99) == ENOMEM);
  user.reset();
}
