// SPDX-License-Identifier: MIT OR Apache-2.0
// One fault of a fault plan (faults.hpp): plain data.
#pragma once

#include <lend/base/language.hpp>

#include <cstdint>

namespace lend {

/// One fault.
struct PlannedFault {
  enum class Kind : std::uint8_t {
    drop,                ///< lost `amount` times; each time costs an acknowledgement timeout
    delay,               ///< delayed by `amount` nanoseconds, with all operations behind it
    receiver_not_ready,  ///< refused `amount` times, as by a peer without a receive
    flush,               ///< its queue pair fails before it
    peer_death,          ///< its peer's process is gone from here on
    queue_error,         ///< the completion queue of its queue pair fails every poll from here on
    control_call,        ///< the control call (create, modify, query) fails with errno `amount`
    port_down,           ///< the port goes down before it: an event, and the port's state
    port_up,             ///< it becomes active again
  };
  Kind kind{};
  std::uint64_t at = 0;      ///< number of the operation, or of the control call
  std::uint64_t amount = 0;  ///< times, nanoseconds or errno

  friend bool operator==(PlannedFault const&, PlannedFault const&) = default;
};

}  // namespace lend
