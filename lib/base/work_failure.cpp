// SPDX-License-Identifier: MIT OR Apache-2.0
// Names, classes and remedies of failed work. Pure functions; any thread.
//
// Source of what each status means: ibv_poll_cq(3); the InfiniBand Architecture Specification,
// volume 1, 11.6.2 (completion return status).
#include <lend/base/work_failure.hpp>

namespace lend {

std::string_view name_of(Operation operation) noexcept {
  switch (operation) {
    case Operation::send: return "send";
    case Operation::receive: return "receive";
    case Operation::write: return "write";
    case Operation::read: return "read";
    case Operation::atomic: return "atomic";
    case Operation::lend: return "lend";
    case Operation::recall: return "recall";
  }
  return "unknown";
}

std::string_view name_of(WorkStatus status) noexcept {
  switch (status) {
    case WorkStatus::success: return "success";
    case WorkStatus::local_length: return "local_length";
    case WorkStatus::local_queue_pair_operation: return "local_queue_pair_operation";
    case WorkStatus::local_eec_operation: return "local_eec_operation";
    case WorkStatus::local_protection: return "local_protection";
    case WorkStatus::flushed: return "flushed";
    case WorkStatus::memory_window_bind: return "memory_window_bind";
    case WorkStatus::bad_response: return "bad_response";
    case WorkStatus::local_access: return "local_access";
    case WorkStatus::remote_invalid_request: return "remote_invalid_request";
    case WorkStatus::remote_access: return "remote_access";
    case WorkStatus::remote_operation: return "remote_operation";
    case WorkStatus::retry_exceeded: return "retry_exceeded";
    case WorkStatus::receiver_not_ready_exceeded: return "receiver_not_ready_exceeded";
    case WorkStatus::local_rdd_violation: return "local_rdd_violation";
    case WorkStatus::remote_invalid_read_request: return "remote_invalid_read_request";
    case WorkStatus::remote_aborted: return "remote_aborted";
    case WorkStatus::invalid_eec_number: return "invalid_eec_number";
    case WorkStatus::invalid_eec_state: return "invalid_eec_state";
    case WorkStatus::fatal: return "fatal";
    case WorkStatus::response_timeout: return "response_timeout";
    case WorkStatus::general: return "general";
    case WorkStatus::tag_matching: return "tag_matching";
  }
  return "unknown";
}

std::string_view name_of(FailureClass failure_class) noexcept {
  switch (failure_class) {
    case FailureClass::local_programming: return "local_programming";
    case FailureClass::remote: return "remote";
    case FailureClass::delivery: return "delivery";
    case FailureClass::flushed: return "flushed";
    case FailureClass::device: return "device";
  }
  return "unknown";
}

std::string_view name_of(QueuePairState state) noexcept {
  switch (state) {
    case QueuePairState::reset: return "reset";
    case QueuePairState::init: return "init";
    case QueuePairState::ready_to_receive: return "ready_to_receive";
    case QueuePairState::ready_to_send: return "ready_to_send";
    case QueuePairState::send_queue_drained: return "send_queue_drained";
    case QueuePairState::send_queue_error: return "send_queue_error";
    case QueuePairState::error: return "error";
    case QueuePairState::unknown: return "unknown";
  }
  return "unknown";
}

FailureClass class_of(WorkStatus status) noexcept {
  switch (status) {
    case WorkStatus::local_length:
    case WorkStatus::local_queue_pair_operation:
    case WorkStatus::local_eec_operation:
    case WorkStatus::local_protection:
    case WorkStatus::memory_window_bind:
    case WorkStatus::local_access:
    case WorkStatus::local_rdd_violation:
    case WorkStatus::invalid_eec_number:
    case WorkStatus::invalid_eec_state:
    case WorkStatus::tag_matching: return FailureClass::local_programming;
    case WorkStatus::bad_response:
    case WorkStatus::remote_invalid_request:
    case WorkStatus::remote_access:
    case WorkStatus::remote_operation:
    case WorkStatus::remote_invalid_read_request:
    case WorkStatus::remote_aborted: return FailureClass::remote;
    case WorkStatus::retry_exceeded:
    case WorkStatus::receiver_not_ready_exceeded:
    case WorkStatus::response_timeout: return FailureClass::delivery;
    case WorkStatus::flushed: return FailureClass::flushed;
    case WorkStatus::success:
    case WorkStatus::fatal:
    case WorkStatus::general: break;
  }
  return FailureClass::device;
}

namespace {

constexpr std::string_view unknown_remedy =
    "lend does not know this status: see the device's manual.";

/// For statuses caused by the peer or by the network.
std::string_view remedy_at_the_peer(WorkStatus status, Operation operation) noexcept {
  switch (status) {
    case WorkStatus::bad_response:
      return "The peer answered with a packet that does not fit the request: check that both ends "
             "name each other and agree on sequence numbers.";
    case WorkStatus::remote_invalid_request:
      // SoftRoCE reports this for a receive where the specification has local_length.
      // Source: kernel drivers/infiniband/sw/rxe/rxe_resp.c, RESPST_ERR_LENGTH.
      if (operation == Operation::receive)
        return remedy_for(WorkStatus::local_length, Operation::receive);
      return operation == Operation::send
                 ? "The peer refused the message: it is most often longer than the receive posted "
                   "for it, so compare the two lengths."
                 : "The peer's queue pair refused the request: check that it allows this "
                   "operation from remote and that the length is legal.";
    case WorkStatus::remote_access:
      return "The peer's memory refused the access: check the remote key (a region that the peer "
             "registered again has a new one), that the range lies inside the exposed region, that "
             "the region allows this operation and still exists.";
    case WorkStatus::remote_operation:
      return operation == Operation::send
                 ? "The peer could not place the message: the memory of its receive is invalid or "
                   "gone, so look at the failure on its side."
                 : "The peer could not finish the operation: its memory may be gone, so look at "
                   "the failure on its side.";
    case WorkStatus::retry_exceeded:
      return "The peer did not answer: check that its process is alive, that both ends have "
             "finished "
             "the handshake with each other's current endpoint, and the network between them.";
    case WorkStatus::receiver_not_ready_exceeded:
      return "The peer had no receive posted in time: post receives before the peer sends, or "
             "allow more receiver-not-ready retries.";
    case WorkStatus::remote_invalid_read_request:
      return "The peer refused the read: check its queue pair's limit of reads in flight.";
    case WorkStatus::remote_aborted:
      return "The peer aborted the operation: look at the failure on its side.";
    case WorkStatus::response_timeout:
      return "The peer was reached but did not answer in time: check that it is alive and not "
             "overloaded.";
    default: return unknown_remedy;
  }
}

}  // namespace

std::string_view remedy_for(WorkStatus status, Operation operation) noexcept {
  bool const receiving = operation == Operation::receive;
  switch (status) {
    case WorkStatus::success: return "Nothing to do.";
    case WorkStatus::local_length:
      return receiving ? "The message was longer than the memory posted for it: post receives as "
                         "long as the longest message the peer sends."
                       : "The message is longer than the port allows: split it.";
    case WorkStatus::local_queue_pair_operation:
      // SoftRoCE reports this for a message that is too long. Seen on Linux 6.1.
      return receiving
                 ? "The device could not use this receive: the message may be longer than the "
                   "memory posted for it, or check that this memory is registered with the "
                   "channel's protection domain and is writable."
                 : "The device could not understand this request: check that the queue pair "
                   "was made for this operation and this many elements.";
    case WorkStatus::local_protection:
    case WorkStatus::local_access:
      return receiving || operation == Operation::read || operation == Operation::atomic
                 ? "The local memory is not registered, is too short, belongs to another "
                   "protection domain or may not be written: register it with the channel's "
                   "domain and keep it until the work completes."
                 : "The local memory is not registered, is too short or belongs to another "
                   "protection domain: register it with the channel's domain and keep it until "
                   "the work completes.";
    case WorkStatus::flushed:
      return "An earlier failure or an abort ended the queue pair first: look at the first cause, "
             "then "
             "prepare_again().";
    case WorkStatus::memory_window_bind:
      return "The memory window could not be bound: check that its memory and the queue pair "
             "allow it.";
    case WorkStatus::local_eec_operation:
    case WorkStatus::local_rdd_violation:
    case WorkStatus::invalid_eec_number:
    case WorkStatus::invalid_eec_state:
      return "A status of reliable datagrams, which lend does not use: suspect the driver.";
    case WorkStatus::bad_response:
    case WorkStatus::remote_invalid_request:
    case WorkStatus::remote_access:
    case WorkStatus::remote_operation:
    case WorkStatus::retry_exceeded:
    case WorkStatus::receiver_not_ready_exceeded:
    case WorkStatus::remote_invalid_read_request:
    case WorkStatus::remote_aborted:
    case WorkStatus::response_timeout: return remedy_at_the_peer(status, operation);
    case WorkStatus::fatal:
      return "The device failed and may need a reset: see the kernel log, then reopen the device.";
    case WorkStatus::general:
      return "The device gave no reason: see the vendor code and the kernel log.";
    case WorkStatus::tag_matching:
      return "A tag-matching request failed, which lend does not post: check what else uses this "
             "queue "
             "pair.";
  }
  return unknown_remedy;
}

}  // namespace lend
