// SPDX-License-Identifier: MIT OR Apache-2.0
// Two ends of a transport in one process, without a device: for tests of what is built on
// transports. Each end one thread at a time; the ends may have different ones.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/transport/base.hpp>
#include <lend/transport/transport.hpp>

#include <cstdint>
#include <memory>
#include <utility>

namespace lend {

/// What goes wrong, always the same way. Words are messages, credits and finishes.
struct MemoryFaults {
  std::uint32_t late_polls = 0;     ///< a word comes only after so many looks of its receiver
  std::uint64_t dies_at_word = 0;   ///< the first end is gone in place of sending this, from 1
  std::uint64_t flips_at_word = 0;  ///< of the first end, from 1: a bit of it is flipped
  std::uint32_t flipped_bit = 0;    ///< 0 to 31
  bool is_silent = false;           ///< descriptors never become readable; look_again() helps
  bool wakes_for_nothing = false;   ///< descriptors are readable after each arm()
};

class MemoryTransport;

/// Two ends, connected to each other; both have these options.
/// Errors:  invalid_argument  options out of range, or of another kind.
///          exhausted         no memory, or no descriptor.
[[nodiscard]] LEND_EXPORT Result<std::pair<MemoryTransport, MemoryTransport>> memory_transports(
    TransportOptions const& options = {}, MemoryFaults const& faults = {});

/// Made by memory_transports().
class LEND_EXPORT MemoryTransport : public TransportBase {
 private:
  friend Result<std::pair<MemoryTransport, MemoryTransport>> memory_transports(
      TransportOptions const& options, MemoryFaults const& faults);
  explicit MemoryTransport(std::unique_ptr<transport::End> end) noexcept;
};

}  // namespace lend
