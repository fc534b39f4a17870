// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a queue pair moves exactly as reliable-connected queue pairs do.
// Method: every pair of states and every attribute, against a table of its own.
// Source: ibv_modify_qp(3). Attributes that the soft device has no use for are refused.
#include "soft/support.hpp"

using namespace lend;
using namespace lend::test;

namespace {

struct Row {
  ibv_qp_state from;
  ibv_qp_state to;
  int required;
  int optional;
};
constexpr Row table[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, init_mask, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, IBV_QP_STATE,
     IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_INIT, IBV_QPS_RTR, rtr_mask, IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_RTR, IBV_QPS_RTS, rts_mask, IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    {IBV_QPS_RTS, IBV_QPS_RTS, IBV_QP_STATE, IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
};
constexpr ibv_qp_state states[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
                                   IBV_QPS_SQD,   IBV_QPS_SQE,  IBV_QPS_ERR, IBV_QPS_UNKNOWN};
constexpr ibv_qp_state reached_states[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
                                           IBV_QPS_ERR};

/// Each attribute alone, but the state and the current state.
std::vector<int> all_attributes() {
  std::vector<int> bits;
  for (int bit = IBV_QP_EN_SQD_ASYNC_NOTIFY; bit <= IBV_QP_RATE_LIMIT; bit <<= 1)
    bits.push_back(bit);
  return bits;
}

/// One end, and fresh queue pairs that would connect to it.
struct Bench {
  HeldContext context = open_context();
  End peer{context.get()};
  End end{context.get()};

  void fresh(ibv_qp_state state) {
    end.qp = make_queue_pair(end.domain.get(), end.sends.get(), end.receives.get());
    bring_to(end.qp.get(), state, peer.qp->qp_num);
  }
  int try_to_move(ibv_qp_state state, int mask, ibv_qp_attr const& attributes) {
    return move(end.qp.get(), state, attributes, mask);
  }
  int try_to_move(ibv_qp_state state, int mask) {
    auto attributes = attributes_for(peer.qp->qp_num);
    attributes.cur_qp_state = state_of(end.qp.get());
    return try_to_move(state, mask, attributes);
  }
};

}  // namespace

TEST_CASE("a queue pair takes the transitions of the specification and no others", "[soft]") {
  Bench bench;
  for (auto const from : reached_states)
    for (auto const to : states) {
      INFO("from " << from << " to " << to);
      Row const* row = nullptr;
      for (auto const& candidate : table)
        if (candidate.from == from && candidate.to == to) row = &candidate;
      auto const always = to == IBV_QPS_RESET || to == IBV_QPS_ERR;
      bench.fresh(from);

      auto const mask = row != nullptr ? row->required : IBV_QP_STATE;
      auto const error = bench.try_to_move(to, mask);

      CHECK(error == (row != nullptr || always ? 0 : EINVAL));
      CHECK(state_of(bench.end.qp.get()) == (error == 0 ? to : from));
      CHECK(bench.end.qp->state == (error == 0 ? to : from));
      if (error != 0) CHECK(verbs().last_reason() != nullptr);
    }
}

TEST_CASE("a transition needs each required attribute and takes only optional ones beside",
          "[soft]") {
  Bench bench;
  for (auto const& [from, to, required, optional] : table) {
    INFO("from " << from << " to " << to);
    for (auto const bit : all_attributes()) {
      INFO("attribute " << bit);
      auto const is_required = (required & bit) != 0;
      auto const is_known = is_required || (optional & bit) != 0;
      bench.fresh(from);

      auto const error = bench.try_to_move(to, is_required ? required & ~bit : required | bit);

      CHECK(error == (!is_required && is_known ? 0 : EINVAL));
      CHECK(state_of(bench.end.qp.get()) == (error == 0 ? to : from));
      if (error != 0) CHECK(verbs().last_reason() != nullptr);
    }
    bench.fresh(from);
    CHECK(bench.try_to_move(to, required | optional | IBV_QP_CUR_STATE) == 0);
  }
}

TEST_CASE("RESET and ERR take no attributes", "[soft]") {
  Bench bench;
  for (auto const to : {IBV_QPS_RESET, IBV_QPS_ERR})
    for (auto const bit : all_attributes()) {
      bench.fresh(IBV_QPS_INIT);
      CHECK(bench.try_to_move(to, IBV_QP_STATE | bit) == EINVAL);
    }
}

TEST_CASE("a wrong belief about the current state is refused", "[soft]") {
  Bench bench;
  bench.fresh(IBV_QPS_INIT);
  auto attributes = attributes_for(bench.peer.qp->qp_num);
  attributes.cur_qp_state = IBV_QPS_RESET;

  CHECK(bench.try_to_move(IBV_QPS_ERR, IBV_QP_STATE | IBV_QP_CUR_STATE, attributes) == EINVAL);
  CHECK(state_of(bench.end.qp.get()) == IBV_QPS_INIT);
}

TEST_CASE("without a state in the mask the state stays and optional attributes change", "[soft]") {
  Bench bench;
  bench.fresh(IBV_QPS_RTS);
  auto attributes = attributes_for(bench.peer.qp->qp_num);
  attributes.qp_state = IBV_QPS_ERR;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_READ;
  attributes.min_rnr_timer = 9;

  REQUIRE(verbs().modify_qp(bench.end.qp.get(), &attributes,
                            IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER) == 0);

  auto const answer = query(bench.end.qp.get());
  CHECK(answer.qp_state == IBV_QPS_RTS);
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
      {IBV_QPS_RESET, [](ibv_qp_attr& a) { a.pkey_index = 1; }},
      {IBV_QPS_RESET, [](ibv_qp_attr& a) { a.port_num = 0; }},
      {IBV_QPS_RESET, [](ibv_qp_attr& a) { a.port_num = 2; }},
      {IBV_QPS_RESET, [](ibv_qp_attr& a) { a.qp_access_flags = 1u << 30; }},
      {IBV_QPS_INIT, [](ibv_qp_attr& a) { a.ah_attr.port_num = 2; }},
      {IBV_QPS_INIT, [](ibv_qp_attr& a) { a.path_mtu = ibv_mtu{}; }},
      {IBV_QPS_INIT, [](ibv_qp_attr& a) { a.dest_qp_num = 1u << 24; }},
      {IBV_QPS_INIT, [](ibv_qp_attr& a) { a.rq_psn = 1u << 24; }},
      {IBV_QPS_INIT, [](ibv_qp_attr& a) { a.max_dest_rd_atomic = 17; }},
      {IBV_QPS_INIT, [](ibv_qp_attr& a) { a.min_rnr_timer = 32; }},
      {IBV_QPS_RTR, [](ibv_qp_attr& a) { a.timeout = 32; }},
      {IBV_QPS_RTR, [](ibv_qp_attr& a) { a.retry_cnt = 8; }},
      {IBV_QPS_RTR, [](ibv_qp_attr& a) { a.rnr_retry = 8; }},
      {IBV_QPS_RTR, [](ibv_qp_attr& a) { a.sq_psn = 1u << 24; }},
      {IBV_QPS_RTR, [](ibv_qp_attr& a) { a.max_rd_atomic = 17; }},
  };
  for (auto const& bad : all) {
    INFO("entry " << &bad - all);
    auto attributes = good;
    bad.spoil(attributes);
    bench.fresh(bad.from);
    auto const& row = *std::find_if(std::begin(table), std::end(table), [&](Row const& each) {
      return each.from == bad.from && each.to != bad.from;
    });

    CHECK(bench.try_to_move(row.to, row.required, attributes) == EINVAL);
    CHECK(verbs().last_reason() != nullptr);
    CHECK(state_of(bench.end.qp.get()) == bad.from);
    CHECK(bench.try_to_move(row.to, row.required) == 0);
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
  CHECK(verbs().last_reason() != nullptr);
  CHECK(state_of(bench.end.qp.get()) == IBV_QPS_INIT);
  ibv_gid gid{};
  REQUIRE(verbs().query_gid(bench.context.get(), 1, 0, &gid) == 0);
  attributes = attributes_for(bench.peer.qp->qp_num);
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.grh.dgid = gid;
  CHECK(bench.try_to_move(IBV_QPS_RTR, rtr_mask, attributes) == 0);
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
  REQUIRE(verbs().query_qp(bench.end.qp.get(), &answer, IBV_QP_STATE, &made) == 0);

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

TEST_CASE("posting is possible only in the states that allow it", "[soft]") {
  Bench bench;
  for (auto const state : reached_states) {
    INFO("state " << state);
    bench.fresh(state);
    auto const sends = state == IBV_QPS_RTS || state == IBV_QPS_ERR;
    CHECK(post(bench.end, {}) == (sends ? 0 : EINVAL));
    CHECK(post_receive(bench.end, 1) == (state == IBV_QPS_RESET ? EINVAL : 0));
  }
}

TEST_CASE("RESET forgets work, completions and attributes; the queue pair connects anew",
          "[soft]") {
  Link link{GENERATE(Reach::one_context, Reach::two_contexts), Terms{}};
  Memory from{link.a.domain.get(), 64};
  Memory to{link.b.domain.get(), 64};
  from.write(0, "again");
  REQUIRE(post_receive(link.b, 1, {to.piece(0, 64)}) == 0);
  REQUIRE(post_receive(link.b, 2, {to.piece(0, 64)}) == 0);
  REQUIRE(post(link.a, {.id = 3, .pieces = {from.piece(0, 5)}}) == 0);
  if (GENERATE(false, true)) {
    REQUIRE(move(link.a.qp.get(), IBV_QPS_ERR, {}, IBV_QP_STATE) == 0);
    REQUIRE(move(link.b.qp.get(), IBV_QPS_ERR, {}, IBV_QP_STATE) == 0);
    REQUIRE(post(link.a, {.id = 4}) == 0);
    REQUIRE(post_receive(link.b, 5) == 0);
  }

  REQUIRE(move(link.a.qp.get(), IBV_QPS_RESET, {}, IBV_QP_STATE) == 0);
  REQUIRE(move(link.b.qp.get(), IBV_QPS_RESET, {}, IBV_QP_STATE) == 0);

  CHECK(await(link.a.sends, 0).empty());
  CHECK(await(link.b.receives, 0).empty());
  CHECK(query(link.a.qp.get()).dest_qp_num == 0);
  link.connect();
  for (std::uint64_t id = 0; id < 16; ++id)
    REQUIRE(post_receive(link.b, id, {to.piece(0, 64)}) == 0);
  CHECK(post_receive(link.b, 16) == ENOMEM);
  for (std::uint64_t id = 0; id < 16; ++id)
    REQUIRE(post(link.a, {.id = id, .pieces = {from.piece(0, 5)}}) == 0);
  auto const sent = await(link.a.sends, 16);
  auto const received = await(link.b.receives, 16);
  for (std::size_t i = 0; i < 16; ++i) {
    CHECK(sent[i].status == IBV_WC_SUCCESS);
    CHECK(sent[i].wr_id == i);
    CHECK(received[i].status == IBV_WC_SUCCESS);
    CHECK(received[i].wr_id == i);
  }
  CHECK(to.read(0, 5) == "again");
}
