// SPDX-License-Identifier: MIT OR Apache-2.0
// Random programs of lend, as data: what a step is, drawing them by lot, making them shorter.
// Values; one thread.
#pragma once

#include <lend/channel/builder.hpp>
#include <lend/verbs/service.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lend::test {

/// What a step does. Which channel, scope, handle or bytes: its numbers, modulo what there is.
enum class Do : std::uint8_t {
  open,           ///< a scope, in which the steps up to its `close` run
  close,          ///< ends the innermost scope in the way that its numbers say
  open_set,       ///< a scope of the wait set, if there is one, up to its `close`
  finish,         ///< a scope of those that are open, early
  post,           ///< in any open scope, waiting for room or not
  batch,          ///< of some requests
  post_unsafely,  ///< without loans
  block,          ///< one blocking call
  poll,           ///< a handle
  wait,           ///< for a handle, shortly
  ask_set,        ///< the wait set, if there is one: polls it, waits for it, wakes it or arms it
  ask_channel,    ///< a channel, as an event loop does: polls or arms it
  ask_events,     ///< of the device, if the program listens to them
  take_message,   ///< of the pool, if there is one
  drop_message,   ///< one that was taken
  drop,           ///< a handle
  leak,           ///< a handle
  move,           ///< a handle, to a new place or over another
  move_channel,   ///< to a new place
  recall,         ///< the rooms of a scope of datagrams
  renew_destination,  ///< of datagrams
  destroy_channel,
  destroy_region,  ///< on loan or not
  destroy_pool,    ///< with messages held or not
  fail_polls,      ///< the next poll of a completion queue fails
  refuse_flushes,  ///< the queue pair cannot be moved to the error state from here on
};

struct Step {
  Do what{};
  std::uint32_t numbers[6]{};
};

/// How the two ends are made, what goes wrong on the device, and what the program does.
struct Program {
  bool is_loop_back = false;   ///< one channel, its own peer
  bool is_unreliable = false;  ///< the connection
  bool is_in_set = false;      ///< the channels are of one WaitSet
  bool has_pool = false;       ///< and of one ReceivePool
  bool has_events = false;     ///< the program listens to DeviceEvents
  bool has_metrics = false;    ///< the channels count, and the model compares
  std::uint32_t low_mark = 0;  ///< of the pool
  std::uint32_t send_depth = 1;
  std::uint32_t receive_depth = 1;
  std::uint32_t inline_bytes = 0;
  Wait wait = Wait::adaptive;
  bool is_on_demand = false;      ///< memory of queue pairs that are driven by hand
  bool is_timed = false;          ///< their completions
  bool is_wakeable = false;       ///< their completion queues
  std::uint32_t rights = 0;       ///< of the peer, by lot
  Service service{};              ///< of queue pairs that are driven by hand
  std::uint32_t shared_ends = 0;  ///< a bit for each end whose queue pairs share receives
  std::string faults{};           ///< as FaultPlan::parse() takes it
  std::vector<Step> steps{};

  /// Of a channel.
  [[nodiscard]] std::uint32_t slots() const noexcept { return 2 * (send_depth + receive_depth); }
};

/// The program of `seed`: the same on every machine.
[[nodiscard]] Program program_of(std::uint64_t seed);

/// The same of channels for datagrams.
[[nodiscard]] Program program_of_datagrams(std::uint64_t seed);

/// The same of channels that lend to their peers.
[[nodiscard]] Program program_of_loans(std::uint64_t seed);

/// The same of queue pairs and memory windows by hand.
[[nodiscard]] Program program_by_hand(std::uint64_t seed);

/// The same of queue pairs of any service, and shared receives, by hand.
[[nodiscard]] Program program_of_services(std::uint64_t seed);

/// `program` with fewer steps and faults, of which `fails` still holds.
[[nodiscard]] Program shortened(Program program, std::function<bool(Program const&)> const& fails);

}  // namespace lend::test
