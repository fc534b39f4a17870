// SPDX-License-Identifier: MIT OR Apache-2.0
// What the walk decides: turns, their order where it matters, and choices.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lend::interleave {

/// What an actor will do when it goes on.
struct Operation {
  enum class Kind : std::uint8_t { start, load, store, update, fence, sleep, wake, resume, plain };
  Kind kind = Kind::start;
  void const* address = nullptr;
  std::memory_order order = std::memory_order_relaxed;
};

inline bool is_strict(Operation const& op) {
  return op.order == std::memory_order_seq_cst;
}

/// Whether the order of the two makes no difference to anybody.
inline bool are_independent(Operation const& one, Operation const& two) {
  if (is_strict(one) && is_strict(two)) return false;
  if (one.address != two.address || one.address == nullptr) return true;
  return one.kind == Operation::Kind::load && two.kind == Operation::Kind::load;
}

/// One way to go on: an actor does its next operation, or dies, or wakes because its time is over.
struct Turn {
  enum class Kind : std::uint8_t { go_on, die, time_out };
  std::uint32_t actor = 0;
  Kind kind = Kind::go_on;
  Operation operation;  // what it touches
};

inline bool are_independent(Turn const& one, Turn const& two) {
  return one.actor != two.actor && are_independent(one.operation, two.operation);
}
inline bool is_same(Turn const& one, Turn const& two) {
  return one.actor == two.actor && one.kind == two.kind;
}

/// A decision of the walk: whose turn, or which of several values or sleepers.
struct Decision {
  std::vector<Turn> turns;   // empty: a choice of `count`
  std::vector<Turn> asleep;  // turns whose histories were met before
  std::size_t count = 0;
  std::size_t taken = 0;

  [[nodiscard]] std::size_t options() const { return turns.empty() ? count : turns.size(); }
};

}  // namespace lend::interleave
