// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what modify_qp sets is checked, kept and answered, and nothing else changes.
// Method: each attribute by its value, good and bad, in each transition that takes it.
// Source: ibv_modify_qp(3), ibv_query_qp(3).
#include "transition_bench.hpp"

using namespace lend;
using namespace lend::test;
using namespace lend::test::moves;

TEST_CASE("a queue pair does not migrate to a path that it has not", "[soft]") {
  Bench bench;
  bench.fresh(RTS);
  auto attributes = attributes_for(bench.peer.qp->qp_num);

  attributes.path_mig_state = GENERATE(IBV_MIG_REARM, IBV_MIG_ARMED);
  CHECK(bench.try_to_move(RTS, migration, attributes) == EOPNOTSUPP);
  CHECK(query(bench.end.qp.get()).path_mig_state == IBV_MIG_MIGRATED);
}

TEST_CASE("without a state in the mask the state stays and optional attributes change", "[soft]") {
  Bench bench;
  auto const state = GENERATE(RTS, SQD);
  bench.fresh(state);
  auto attributes = attributes_for(bench.peer.qp->qp_num);
  attributes.qp_state = ERR;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_READ;
  attributes.min_rnr_timer = 9;

  REQUIRE(ibv().modify_qp(bench.end.qp.get(), &attributes, rights | timer) == 0);

  auto const answer = query(bench.end.qp.get());
  CHECK(answer.qp_state == state);
  CHECK(answer.qp_access_flags == IBV_ACCESS_REMOTE_READ);
  CHECK(answer.min_rnr_timer == 9);
}

TEST_CASE("an attribute out of range is refused with a reason and nothing changes", "[soft]") {
  Bench bench;
  auto const good = attributes_for(bench.peer.qp->qp_num);
  struct Bad {
    ibv_qp_state from;
    void (*spoil)(ibv_qp_attr&);
  };
  constexpr Bad all[] = {
      {RESET, [](ibv_qp_attr& a) { a.pkey_index = 1; }},
      {RESET, [](ibv_qp_attr& a) { a.port_num = 0; }},
      {RESET, [](ibv_qp_attr& a) { a.port_num = 2; }},
      {RESET, [](ibv_qp_attr& a) { a.qp_access_flags = 1u << 30; }},
      {INIT, [](ibv_qp_attr& a) { a.ah_attr.port_num = 2; }},
      {INIT, [](ibv_qp_attr& a) { a.path_mtu = ibv_mtu{}; }},
      {INIT, [](ibv_qp_attr& a) { a.dest_qp_num = 1u << 24; }},
      {INIT, [](ibv_qp_attr& a) { a.rq_psn = 1u << 24; }},
      {INIT, [](ibv_qp_attr& a) { a.max_dest_rd_atomic = 17; }},
      {INIT, [](ibv_qp_attr& a) { a.min_rnr_timer = 32; }},
      {RTR, [](ibv_qp_attr& a) { a.timeout = 32; }},
      {RTR, [](ibv_qp_attr& a) { a.retry_cnt = 8; }},
      {RTR, [](ibv_qp_attr& a) { a.rnr_retry = 8; }},
      {RTR, [](ibv_qp_attr& a) { a.sq_psn = 1u << 24; }},
      {RTR, [](ibv_qp_attr& a) { a.max_rd_atomic = 17; }},
      {SQD, [](ibv_qp_attr& a) { a.ah_attr.port_num = 2; }},
      {SQD, [](ibv_qp_attr& a) { a.pkey_index = 1; }},
      {SQD, [](ibv_qp_attr& a) { a.port_num = 2; }},
      {SQD, [](ibv_qp_attr& a) { a.timeout = 32; }},
      {SQD, [](ibv_qp_attr& a) { a.retry_cnt = 8; }},
      {SQD, [](ibv_qp_attr& a) { a.rnr_retry = 8; }},
      {SQD, [](ibv_qp_attr& a) { a.max_rd_atomic = 17; }},
      {SQD, [](ibv_qp_attr& a) { a.max_dest_rd_atomic = 17; }},
      {SQD, [](ibv_qp_attr& a) { a.min_rnr_timer = 32; }},
      {SQD, [](ibv_qp_attr& a) { a.qp_access_flags = 1u << 30; }},
  };
  for (auto const& bad : all) {
    INFO("entry " << &bad - all);
    auto attributes = good;
    bad.spoil(attributes);
    bench.fresh(bad.from);
    auto const to = bad.from == SQD ? SQD : static_cast<ibv_qp_state>(bad.from + 1);
    auto const& row = *row_of(RC, bad.from, to);
    auto const mask = row.required | (row.optional & ~alternate & ~now_in);

    CHECK(bench.try_to_move(to, mask, attributes) == EINVAL);
    CHECK(ibv().last_reason() != nullptr);
    CHECK(state_of(bench.end.qp.get()) == bad.from);
    CHECK(bench.try_to_move(to, mask) == 0);
  }
}

TEST_CASE("a peer of another host or that never was is unreachable, with a reason", "[soft]") {
  Bench bench;
  bench.fresh(IBV_QPS_INIT);
  auto attributes = attributes_for(bench.peer.qp->qp_num);

  SECTION("another LID") {
    attributes.ah_attr.dlid = 2;
  }
  SECTION("another GID") {
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.grh.dgid.global = {1, 2};
  }
  SECTION("a slot that nobody has") {
    attributes.dest_qp_num = (1u << 24) - 1;
  }

  CHECK(bench.try_to_move(IBV_QPS_RTR, rtr_mask, attributes) == ENETUNREACH);
  CHECK(ibv().last_reason() != nullptr);
  CHECK(state_of(bench.end.qp.get()) == IBV_QPS_INIT);
  ibv_gid gid{};
  REQUIRE(ibv().query_gid(bench.context.get(), 1, 0, &gid) == 0);
  attributes = attributes_for(bench.peer.qp->qp_num);
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.grh.dgid = gid;
  attributes.ah_attr.grh.sgid_index = 1;  // of one's own, of which there is one
  CHECK(bench.try_to_move(IBV_QPS_RTR, rtr_mask, attributes) == EINVAL);
  attributes.ah_attr.grh.sgid_index = 0;
  CHECK(bench.try_to_move(IBV_QPS_RTR, rtr_mask, attributes) == 0);
  CHECK(bench.try_to_move(IBV_QPS_RTS, rts_mask, attributes) == 0);
  CHECK(bench.try_to_move(SQD, 0) == 0);
  attributes.ah_attr.grh.dgid.global = {1, 2};
  CHECK(bench.try_to_move(SQD, av, attributes) == ENETUNREACH);
}

TEST_CASE("an attribute in the mask is set, and one that is not stays", "[soft]") {
  struct Field {
    int bit;
    std::uint64_t (*of)(ibv_qp_attr const&);
  };
  constexpr Field fields[] = {
      {notify, [](ibv_qp_attr const& a) -> std::uint64_t { return a.en_sqd_async_notify; }},
      {rights, [](ibv_qp_attr const& a) -> std::uint64_t { return a.qp_access_flags; }},
      {qkey, [](ibv_qp_attr const& a) -> std::uint64_t { return a.qkey; }},
      {av, [](ibv_qp_attr const& a) -> std::uint64_t { return a.ah_attr.sl; }},
      {mtu, [](ibv_qp_attr const& a) -> std::uint64_t { return a.path_mtu; }},
      {timeout, [](ibv_qp_attr const& a) -> std::uint64_t { return a.timeout; }},
      {retries, [](ibv_qp_attr const& a) -> std::uint64_t { return a.retry_cnt; }},
      {rnr, [](ibv_qp_attr const& a) -> std::uint64_t { return a.rnr_retry; }},
      {rq_psn, [](ibv_qp_attr const& a) -> std::uint64_t { return a.rq_psn; }},
      {reads, [](ibv_qp_attr const& a) -> std::uint64_t { return a.max_rd_atomic; }},
      {timer, [](ibv_qp_attr const& a) -> std::uint64_t { return a.min_rnr_timer; }},
      {sq_psn, [](ibv_qp_attr const& a) -> std::uint64_t { return a.sq_psn; }},
      {reads_in, [](ibv_qp_attr const& a) -> std::uint64_t { return a.max_dest_rd_atomic; }},
      {peer_number, [](ibv_qp_attr const& a) -> std::uint64_t { return a.dest_qp_num; }},
  };
  Bench bench;
  for (auto const& [type, from, to, required, optional] : table) {
    INFO("type " << type << " from " << from << " to " << to);
    auto wanted = attributes_for(bench.peer.qp->qp_num);
    wanted.en_sqd_async_notify = 1;
    wanted.qp_access_flags = IBV_ACCESS_REMOTE_READ;
    wanted.qkey = 77;
    wanted.ah_attr.sl = 3;
    wanted.path_mtu = IBV_MTU_512;
    wanted.timeout = 14;
    wanted.retry_cnt = 6;
    wanted.rnr_retry = 5;
    wanted.rq_psn = 0x123456;
    wanted.sq_psn = 0xabcdef;
    wanted.max_rd_atomic = 3;
    wanted.max_dest_rd_atomic = 2;
    wanted.min_rnr_timer = 12;
    wanted.cur_qp_state = from;
    auto const whole = required | (optional & ~alternate);
    for (auto const mask : {required, whole}) {
      bench.fresh(from, type);
      auto const before = query(bench.end.qp.get());

      REQUIRE(bench.try_to_move(to, mask, wanted) == 0);

      auto const after = query(bench.end.qp.get());
      CHECK(after.qp_state == to);
      CHECK(after.cur_qp_state == to);
      for (auto const& [bit, of] : fields) {
        INFO("attribute " << bit);
        CHECK(of(after) == of((mask & bit) != 0 ? wanted : before));
      }
    }
  }
}

TEST_CASE("a query answers what was set and what the queue pair was made with", "[soft]") {
  Bench bench;
  Terms terms;
  terms.send_psn = 0xabcdef;
  terms.receive_psn = 0x123456;
  terms.timeout = 14;
  terms.retries = 6;
  terms.rnr_retries = 5;
  terms.rnr_timer = 12;
  terms.reads_out = 3;
  terms.reads_in = 2;
  bench.fresh(IBV_QPS_RESET);
  bring_to(bench.end.qp.get(), IBV_QPS_RTS, bench.peer.qp->qp_num, terms);

  ibv_qp_attr answer{};
  ibv_qp_init_attr made{};
  REQUIRE(ibv().query_qp(bench.end.qp.get(), &answer, IBV_QP_STATE, &made) == 0);

  CHECK(answer.qp_state == IBV_QPS_RTS);
  CHECK(answer.cur_qp_state == IBV_QPS_RTS);
  CHECK(answer.dest_qp_num == bench.peer.qp->qp_num);
  CHECK(answer.sq_psn == 0xabcdef);
  CHECK(answer.rq_psn == 0x123456);
  CHECK(answer.timeout == 14);
  CHECK(answer.retry_cnt == 6);
  CHECK(answer.rnr_retry == 5);
  CHECK(answer.min_rnr_timer == 12);
  CHECK(answer.max_rd_atomic == 3);
  CHECK(answer.max_dest_rd_atomic == 2);
  CHECK(answer.path_mtu == IBV_MTU_4096);
  CHECK(answer.port_num == 1);
  CHECK(answer.ah_attr.dlid == 1);
  CHECK(answer.qp_access_flags == static_cast<unsigned>(all_access));
  CHECK(answer.cap.max_send_wr == 16);
  CHECK(answer.cap.max_recv_wr == 16);
  CHECK(answer.cap.max_send_sge == 4);
  CHECK(answer.cap.max_inline_data >= 64);
  CHECK(made.send_cq == bench.end.sends.get());
  CHECK(made.recv_cq == bench.end.receives.get());
  CHECK(made.qp_type == IBV_QPT_RC);
}
