// SPDX-License-Identifier: MIT OR Apache-2.0
// Why a work request failed. Plain values; any thread.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/source_line.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace lend {

/// What a work request does. The last two concern bytes that the peer may access: PeerLoan.
enum class Operation : std::uint8_t { send, receive, write, read, atomic, lend, recall };

/// How a work request ended. Values are those of ibv_wc_status.
/// Source: ibv_poll_cq(3); rdma-core libibverbs/verbs.h, enum ibv_wc_status.
enum class WorkStatus : std::uint8_t {
  success = 0,
  local_length = 1,
  local_queue_pair_operation = 2,
  local_eec_operation = 3,
  local_protection = 4,
  flushed = 5,
  memory_window_bind = 6,
  bad_response = 7,
  local_access = 8,
  remote_invalid_request = 9,
  remote_access = 10,
  remote_operation = 11,
  retry_exceeded = 12,
  receiver_not_ready_exceeded = 13,
  local_rdd_violation = 14,
  remote_invalid_read_request = 15,
  remote_aborted = 16,
  invalid_eec_number = 17,
  invalid_eec_state = 18,
  fatal = 19,
  response_timeout = 20,
  general = 21,
  tag_matching = 22,
};

/// Where the cause of a status is.
enum class FailureClass : std::uint8_t {
  local_programming,  ///< this side posted something wrong
  remote,             ///< the peer refused or could not do it
  delivery,           ///< the peer did not answer, or had no receive posted
  flushed,            ///< an earlier failure (the first cause) or an abort ended it
  device,             ///< the device gave up
};

/// State of a queue pair. Values are those of ibv_qp_state.
enum class QueuePairState : std::uint8_t {
  reset = 0,
  init = 1,
  ready_to_receive = 2,
  ready_to_send = 3,
  send_queue_drained = 4,
  send_queue_error = 5,
  error = 6,
  unknown = 7,
};

/// One failed work request.
struct WorkFailure {
  /// Value of `slot` if the failure concerns the whole connection.
  static constexpr std::uint32_t no_slot = UINT32_MAX;

  WorkStatus status{};
  Operation operation{};
  QueuePairState queue_pair_state = QueuePairState::unknown;  ///< when the failure was seen
  std::uint32_t vendor_code = 0;                              ///< the device's own reason
  std::uint32_t queue_pair_number = 0;
  std::uint32_t peer_queue_pair_number = 0;  ///< 0: unknown, as over iWARP; or of datagrams
  std::uint32_t slot = 0;                    ///< index in the channel's slot table
  std::uint64_t bytes = 0;                   ///< requested when it was posted
  bool port_is_down = false;                 ///< this side's, when the failure was seen
  bool has_one_peer = true;                  ///< false: of datagrams, which may go to many
  SourceLine posted_at{};                    ///< line 0: unknown, as for work without a loan
  std::string peer_address{};                ///< GID or LID as text; empty: unknown
  std::string peer_name{};                   ///< ChannelOptions::peer_name
};

[[nodiscard]] LEND_EXPORT std::string_view name_of(Operation) noexcept;
[[nodiscard]] LEND_EXPORT std::string_view name_of(WorkStatus) noexcept;
[[nodiscard]] LEND_EXPORT std::string_view name_of(FailureClass) noexcept;
[[nodiscard]] LEND_EXPORT std::string_view name_of(QueuePairState) noexcept;

[[nodiscard]] LEND_EXPORT FailureClass class_of(WorkStatus) noexcept;

/// One sentence: what the caller can do about `status` of an `operation`.
[[nodiscard]] LEND_EXPORT std::string_view remedy_for(WorkStatus status,
                                                      Operation operation) noexcept;

}  // namespace lend
