// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the tables of a connection's life are those of the manual.
// Method: they are written down here a second time, from ibv_modify_qp(3) and the specification.
#include "support/catch.hpp"

#include <verbs/device/port.hpp>
#include <verbs/queue/queue_pair_states.hpp>

#include <set>

using namespace lend;
using lend::verbs::ack_timeout_code;
using lend::verbs::mtu_bytes_of;
using lend::verbs::mtu_of;
using lend::verbs::receiver_not_ready_delay_code;
using namespace std::chrono_literals;

TEST_CASE("each transition sets what the manual requires of a reliable connection", "[verbs]") {
  auto const mask = [](std::set<int> const& attributes) {
    int all = 0;
    for (int const one : attributes) all |= one;
    return all;
  };

  CHECK(verbs::reset_to_init.target == IBV_QPS_INIT);
  CHECK(verbs::reset_to_init.attributes ==
        mask({IBV_QP_STATE, IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_ACCESS_FLAGS}));
  CHECK(verbs::init_to_ready_to_receive.target == IBV_QPS_RTR);
  CHECK(verbs::init_to_ready_to_receive.attributes ==
        mask({IBV_QP_STATE, IBV_QP_AV, IBV_QP_PATH_MTU, IBV_QP_DEST_QPN, IBV_QP_RQ_PSN,
              IBV_QP_MAX_DEST_RD_ATOMIC, IBV_QP_MIN_RNR_TIMER}));
  CHECK(verbs::ready_to_receive_to_send.target == IBV_QPS_RTS);
  CHECK(verbs::ready_to_receive_to_send.attributes ==
        mask({IBV_QP_STATE, IBV_QP_SQ_PSN, IBV_QP_MAX_QP_RD_ATOMIC, IBV_QP_RETRY_CNT,
              IBV_QP_RNR_RETRY, IBV_QP_TIMEOUT}));
  CHECK(verbs::any_to_error.target == IBV_QPS_ERR);
  CHECK(verbs::any_to_error.attributes == IBV_QP_STATE);
}

TEST_CASE("an acknowledgement timeout is rounded up to 4.096 µs · 2^n", "[verbs]") {
  CHECK(ack_timeout_code(1ns) == 1);
  CHECK(ack_timeout_code(8192ns) == 1);
  CHECK(ack_timeout_code(8193ns) == 2);
  CHECK(ack_timeout_code(67ms) == 14);
  CHECK(ack_timeout_code(verbs::ack_timeout_max) == 31);
  CHECK_FALSE(ack_timeout_code(verbs::ack_timeout_max + 1ns));
  CHECK_FALSE(ack_timeout_code(0ns));
  CHECK_FALSE(ack_timeout_code(-1ns));
  CHECK_FALSE(ack_timeout_code(std::chrono::nanoseconds::max()));
}

TEST_CASE("a receiver-not-ready delay is rounded up to the device's table", "[verbs]") {
  CHECK(receiver_not_ready_delay_code(0ns) == 1);
  CHECK(receiver_not_ready_delay_code(10us) == 1);
  CHECK(receiver_not_ready_delay_code(10'001ns) == 2);
  CHECK(receiver_not_ready_delay_code(640us) == 12);
  CHECK(receiver_not_ready_delay_code(491'520us) == 31);
  CHECK(receiver_not_ready_delay_code(491'521us) == 0);
  CHECK(receiver_not_ready_delay_code(655'360us) == 0);
  CHECK_FALSE(receiver_not_ready_delay_code(655'361us));
  CHECK_FALSE(receiver_not_ready_delay_code(-1ns));
  // From code 4 on two times double in turn: .04 .06 .08 .12 …
  for (std::size_t code = 6; code < 32; ++code)
    CHECK(verbs::receiver_not_ready_delays[code] == 2 * verbs::receiver_not_ready_delays[code - 2]);
}

TEST_CASE("an MTU converts both ways, and no other number does", "[verbs]") {
  CHECK(mtu_bytes_of(IBV_MTU_256) == 256);
  CHECK(mtu_bytes_of(IBV_MTU_4096) == 4096);
  for (auto const mtu : {IBV_MTU_256, IBV_MTU_512, IBV_MTU_1024, IBV_MTU_2048, IBV_MTU_4096})
    CHECK(mtu_of(mtu_bytes_of(mtu)) == mtu);
  CHECK(mtu_bytes_of(ibv_mtu{}) == 0);
  CHECK_FALSE(mtu_of(0));
  CHECK_FALSE(mtu_of(1500));
  CHECK_FALSE(mtu_of(8192));
}
