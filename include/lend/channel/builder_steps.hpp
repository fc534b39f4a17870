// SPDX-License-Identifier: MIT OR Apache-2.0
// The steps of a ChannelBuilder, in its type. Constants; any thread.
#pragma once

#include <lend/base/language.hpp>

#include <cstdint>

namespace lend {

/// The steps of a builder, one bit each.
enum class BuilderStep : std::uint32_t {
  protection_domain = 1u << 0,
  send_depth = 1u << 1,
  receive_depth = 1u << 2,
  elements = 1u << 3,
  inline_bytes = 1u << 4,
  ack_timeout = 1u << 5,
  ack_retries = 1u << 6,
  receiver_not_ready_retries = 1u << 7,
  receiver_not_ready_delay = 1u << 8,
  wait = 1u << 9,
  gid = 1u << 10,  ///< by index, address or network, once
  keep_alive = 1u << 11,
  wait_set = 1u << 12,      ///< instead of wait
  receive_pool = 1u << 13,  ///< instead of receive_depth, after wait_set
  receive_elements = 1u << 14,
  mtu = 1u << 15,
  reads = 1u << 16,
  remote_access = 1u << 17,
  service_level = 1u << 18,
  traffic_class = 1u << 19,
  partition_key = 1u << 20,
  queue_key = 1u << 21,
  observe = 1u << 22,
};

template <std::uint32_t Steps>
concept ProtectionDomainIsSet = (Steps & std::uint32_t(BuilderStep::protection_domain)) != 0;

template <std::uint32_t Steps>
concept WaitSetIsSet = (Steps & std::uint32_t(BuilderStep::wait_set)) != 0;

template <std::uint32_t Steps, BuilderStep Step>
concept StepNotTakenYet = (Steps & std::uint32_t(Step)) == 0;

}  // namespace lend
