// SPDX-License-Identifier: MIT OR Apache-2.0
// Faults on order: what is to go wrong on the soft device, and when. For tests of what you build.
//
// Send-side work requests (send, write, read, atomic) of a context are counted from 1 on, in the
// order in which they are posted, from the moment the plan is injected; so are its control calls.
// A fault strikes as its request starts, after all that was posted before it on its queue pair;
// never, if the request is flushed before.
// A program whose threads do not race meets the same faults each time.
#pragma once

#include <lend/base/result.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lend {

class Context;

/// One thing that goes wrong.
struct PlannedFault {
  enum class Kind : std::uint8_t {
    drop,                ///< lost `amount` times; each time costs an acknowledgement timeout
    delay,               ///< on its way for `amount` nanoseconds; what is behind it waits
    receiver_not_ready,  ///< refused `amount` times, as by a peer with no receive posted
    flush,               ///< its queue pair breaks before it
    peer_death,          ///< its peer's process is gone from here on
    queue_error,         ///< the completion queue of its queue pair fails every poll from here on
    control_call,  ///< the control call that makes, changes or asks something fails with `amount`
  };
  Kind kind{};
  std::uint64_t at = 0;      ///< number of the operation, or of the control call
  std::uint64_t amount = 0;  ///< times, nanoseconds or errno

  friend bool operator==(PlannedFault const&, PlannedFault const&) = default;
};

/// A value. One fault for each operation and each control call; the first that was ordered counts.
/// What can never strike (number 0; no time, a negative delay, no errno) is refused as it is
/// injected.
///
///   auto const plan = FaultPlan{}.drop(3).peer_dies(10);  // the third is late, the tenth fails
///   LEND_TRY(same, FaultPlan::parse("drop@3:1 peer-death@10"));
///   LEND_TRYV(inject_faults(context, same));
class FaultPlan {
 public:
  /// More often than the retry count: RETRY_EXC_ERR. A datagram, or an unreliable connection's
  /// message, is just lost.
  FaultPlan& drop(std::uint64_t operation, unsigned times = 1);
  FaultPlan& delay(std::uint64_t operation, std::chrono::nanoseconds);
  /// More often than the retry count for that, unless it is unlimited: RNR_RETRY_EXC_ERR. Without a
  /// reliable connection it is lost.
  FaultPlan& receiver_not_ready(std::uint64_t operation, unsigned times = 1);
  FaultPlan& flush(std::uint64_t operation);
  FaultPlan& peer_dies(std::uint64_t operation);
  FaultPlan& completion_queue_fails(std::uint64_t operation);
  /// Calls that end something cannot fail.
  FaultPlan& control_call_fails(std::uint64_t call, int errno_value);

  /// `count` faults of all kinds, at operations and control calls from 1 to `operations`, chosen by
  /// `seed`: the same for the same three numbers on every machine. Strikes once or twice, delays up
  /// to a millisecond, errnos ENOMEM, EAGAIN and EACCES.
  [[nodiscard]] static FaultPlan random(std::uint64_t seed, unsigned count,
                                        std::uint64_t operations);

  /// `KIND@N` or `KIND@N:AMOUNT`, with spaces between: drop, delay (nanoseconds), rnr, flush,
  /// peer-death, queue-error, control (errno).
  /// Errors:  invalid_argument  the message has the word that makes no sense, and why.
  [[nodiscard]] static Result<FaultPlan> parse(std::string_view text);
  /// What parse() takes: print it beside a failed test, to replay it.
  [[nodiscard]] std::string text() const;

  [[nodiscard]] std::vector<PlannedFault> const& faults() const& noexcept { return faults_; }
  void faults() const&& = delete;  // they would dangle

 private:
  FaultPlan& add(PlannedFault::Kind, std::uint64_t at, std::uint64_t amount);
  std::vector<PlannedFault> faults_;
};

/// From now on this context of the soft device goes wrong as planned, and counts from 1 again. What
/// is posted already keeps the faults it has.
///
/// A program that is not to be changed has its plan from the environment variable LEND_SOFT_FAULTS
/// (the text), which each soft device takes as it is opened.
///
/// Errors:  unsupported       another device: what a card does cannot be planned.
///          invalid_argument  a fault that can never strike; the message says which, and why. The
///                            plan before it stays.
/// Threads: not while others post on the context. They may make control calls.
[[nodiscard]] Result<void> inject_faults(Context const&, FaultPlan const&);

}  // namespace lend
