// SPDX-License-Identifier: MIT OR Apache-2.0
// Fault injection on the soft device, for tests of programs that use lend.
//
// From the injection of a plan on, the send-side work requests (send, write, read, atomic) of a
// context are counted from 1, in the order of posting, and separately its control calls. A fault
// takes effect when its request starts, after all that was posted before it on its queue pair;
// never, if the request is flushed before. A program whose threads do not race meets the same
// faults each time.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/soft/planned_fault.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lend {

class Context;

/// A plan of faults: a value, which may be built from a temporary. One fault for each operation and
/// each control call; of several, the first counts. inject_faults() refuses a fault that can never
/// take effect (number 0; no repetition, a negative delay, no errno).
///
///   auto const plan = FaultPlan{}.drop(3).peer_dies(10);  // the third is late, the tenth fails
///   LEND_TRY(same, FaultPlan::parse("drop@3:1 peer-death@10"));
///   LEND_TRYV(inject_faults(context, same));
class LEND_EXPORT FaultPlan {
 public:
  /// The operation is lost `times` times. More often than the retry count: RETRY_EXC_ERR. A
  /// datagram, or a message of an unreliable connection, is lost for good.
  FaultPlan& drop(std::uint64_t operation, unsigned times = 1) &;
  FaultPlan drop(std::uint64_t operation, unsigned times = 1) && {
    return std::move(drop(operation, times));
  }
  FaultPlan& delay(std::uint64_t operation, std::chrono::nanoseconds span) &;
  FaultPlan delay(std::uint64_t operation, std::chrono::nanoseconds span) && {
    return std::move(delay(operation, span));
  }
  /// The operation finds no receive `times` times. More often than the RNR retry count, unless that
  /// is unlimited: RNR_RETRY_EXC_ERR. On an unreliable connection it is lost.
  FaultPlan& receiver_not_ready(std::uint64_t operation, unsigned times = 1) &;
  FaultPlan receiver_not_ready(std::uint64_t operation, unsigned times = 1) && {
    return std::move(receiver_not_ready(operation, times));
  }
  FaultPlan& flush(std::uint64_t operation) &;
  FaultPlan flush(std::uint64_t operation) && { return std::move(flush(operation)); }
  FaultPlan& peer_dies(std::uint64_t operation) &;
  FaultPlan peer_dies(std::uint64_t operation) && { return std::move(peer_dies(operation)); }
  FaultPlan& completion_queue_fails(std::uint64_t operation) &;
  FaultPlan completion_queue_fails(std::uint64_t operation) && {
    return std::move(completion_queue_fails(operation));
  }
  /// The device's port goes down before the operation: the device reports it, and no queue pair can
  /// be connected until it is up. Those that are connected go on; drop() their operations if they
  /// must not.
  FaultPlan& port_goes_down(std::uint64_t operation) &;
  FaultPlan port_goes_down(std::uint64_t operation) && {
    return std::move(port_goes_down(operation));
  }
  FaultPlan& port_comes_up(std::uint64_t operation) &;
  FaultPlan port_comes_up(std::uint64_t operation) && {
    return std::move(port_comes_up(operation));
  }
  /// Calls that destroy something cannot fail.
  FaultPlan& control_call_fails(std::uint64_t call, int errno_value) &;
  FaultPlan control_call_fails(std::uint64_t call, int errno_value) && {
    return std::move(control_call_fails(call, errno_value));
  }

  /// `count` faults of all kinds but those of the port, at operations and control calls from 1 to
  /// `operations`. The same
  /// three numbers give the same plan on every machine. Repetitions are 1 or 2, delays at most 1
  /// ms, errnos ENOMEM, EAGAIN or EACCES.
  [[nodiscard]] static FaultPlan random(std::uint64_t seed, unsigned count,
                                        std::uint64_t operations);

  /// A list of `KIND@N` or `KIND@N:AMOUNT`, separated by spaces: drop, delay (nanoseconds), rnr,
  /// flush, peer-death, queue-error, control (errno), port-down, port-up.
  /// Errors:  invalid_argument  the message has the word that is wrong, and why.
  [[nodiscard]] static Result<FaultPlan> parse(std::string_view text);
  /// The plan as parse() takes it: print it in a failed test, to repeat it.
  [[nodiscard]] std::string text() const;

  [[nodiscard]] std::vector<PlannedFault> const& faults() const& noexcept { return faults_; }
  [[nodiscard]] std::vector<PlannedFault> faults() && noexcept { return std::move(faults_); }

 private:
  FaultPlan& add(PlannedFault::Kind, std::uint64_t at, std::uint64_t amount);
  std::vector<PlannedFault> faults_;
};

/// Injects the plan into a context of the soft device and counts from 1 again. Operations that are
/// posted already keep their faults.
///
/// To inject faults into an unmodified program, set the environment variable LEND_SOFT_FAULTS to
/// the plan's text; each soft device takes it when it is opened.
///
/// Errors:  unsupported       not a soft device.
///          invalid_argument  a fault that can never take effect; the message says which, and why.
///                            The previous plan stays.
/// Threads: not while other threads post on the context; they may make control calls.
[[nodiscard]] LEND_EXPORT Result<void> inject_faults(Context const&, FaultPlan const&);

}  // namespace lend
