// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a queue pair moves exactly as queue pairs of its type do.
// Method: every pair of states and every attribute of every type, against a table of its own.
#include "transition_bench.hpp"

using namespace lend;
using namespace lend::test;
using namespace lend::test::moves;

TEST_CASE("a queue pair takes the transitions of the specification and no others", "[soft]") {
  Bench bench;
  for (auto const type : types)
    for (auto const from : reached_states(type))
      for (auto const to : states) {
        INFO("type " << type << " from " << from << " to " << to);
        auto const* const row = row_of(type, from, to);
        bench.fresh(from, type);

        auto const error = bench.try_to_move(to, row != nullptr ? row->required : 0);

        CHECK(error == (row != nullptr || leads_to_end(from, to) ? 0 : EINVAL));
        bench.check_state(error == 0 ? to : from);
        if (error != 0) CHECK(ibv().last_reason() != nullptr);
      }
}

TEST_CASE("a transition needs each required attribute and takes only optional ones beside",
          "[soft]") {
  Bench bench;
  for (auto const& [type, from, to, required, optional] : table) {
    INFO("type " << type << " from " << from << " to " << to);
    for (auto const bit : all_attributes()) {
      INFO("attribute " << bit);
      auto const is_required = (required & bit) != 0;
      auto const is_optional = (optional & bit) != 0;
      bench.fresh(from, type);

      auto const error = bench.try_to_move(to, is_required ? required & ~bit : required | bit);

      // The device has one path, which is not the attribute's fault.
      CHECK(error == (!is_optional ? EINVAL : bit == alternate ? EOPNOTSUPP : 0));
      bench.check_state(error == 0 ? to : from);
      if (error != 0) CHECK(ibv().last_reason() != nullptr);
    }
    bench.fresh(from, type);
    CHECK(bench.try_to_move(to, required | (optional & ~alternate)) == 0);
  }
}

TEST_CASE("RESET and ERR take no attributes", "[soft]") {
  Bench bench;
  for (auto const type : types)
    for (auto const from : reached_states(type))
      for (auto const to : {RESET, ERR})
        for (auto const bit : all_attributes()) {
          bench.fresh(from, type);
          CHECK(bench.try_to_move(to, bit) == EINVAL);
          CHECK(state_of(bench.end.qp.get()) == from);
        }
}

TEST_CASE("a wrong belief about the current state is refused", "[soft]") {
  Bench bench;
  auto const from = GENERATE(RTR, RTS, SQD);
  bench.fresh(from);
  auto attributes = attributes_for(bench.peer.qp->qp_num);
  attributes.cur_qp_state = from == RTS ? SQD : RTS;

  CHECK(bench.try_to_move(RTS, row_of(RC, from, RTS)->required | now_in, attributes) == EINVAL);
  CHECK(state_of(bench.end.qp.get()) == from);
}

TEST_CASE("posting is possible only in the states that allow it", "[soft]") {
  Bench bench;
  for (auto const type : types)
    for (auto const state : reached_states(type)) {
      INFO("type " << type << " state " << state);
      bench.fresh(state, type);
      auto const sends = state == RTS || state == SQD || state == SQE || state == ERR;
      CHECK(bench.try_to_post() == (sends ? 0 : EINVAL));
      CHECK(post_receive(bench.end, 1) == (state == RESET ? EINVAL : 0));
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
