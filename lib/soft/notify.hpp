// SPDX-License-Identifier: MIT OR Apache-2.0
// From "wake me" to the wake-up: the notify word of one completion queue. Pure.
//
// Every function runs under the queue's shared lock, which is stolen from the dead; a producer
// publishes its completion under the same hold of that lock. So there is no race to lose a wake-up
// by: who arms either finds the completion already published, and polls it, or is found armed.
// A producer may die at any access. It wakes before it publishes: a death in between costs a
// wake-up for nothing, never a completion that nobody is told of.
//
// Templates, so that test/soft/notify_test.cpp can cut them short at every access.
#pragma once

#include <cstdint>

namespace lend::soft {

inline constexpr std::uint32_t notify_solicited = 1;  // armed for what the sender wants noticed
inline constexpr std::uint32_t notify_any = 2;        // armed for every completion
inline constexpr std::uint32_t notify_announced = 4;  // woken for, and the owner does not know yet

/// The owner asks. Asked for any once, a later wish for solicited ones takes nothing away.
template <class Word>
void arm(Word& word, bool solicited_only) {
  word.set(word.get() | (solicited_only ? notify_solicited : notify_any));
}

/// Whether a completion that is about to be published must be announced. One load.
template <class Word>
[[nodiscard]] bool is_due(Word const& word, bool is_solicited) {
  auto const value = word.get();
  if (value == 0) [[likely]]
    return false;
  return (value & (is_solicited ? notify_any | notify_solicited : notify_any)) != 0;
}

/// Wakes the owner, unless an earlier wake-up has yet to reach it. `ring` makes one token readable
/// and says whether it could; if not, the queue stays armed for the next completion.
template <class Word, class Ring>
void announce(Word& word, Ring&& ring) {
  if ((word.get() & notify_announced) == 0 && !ring()) return;
  word.set(notify_announced);
}

/// The owner took a token: whether it was for this queue. There are never fewer tokens than
/// announced queues, and more only after a death.
template <class Word>
[[nodiscard]] bool take_announcement(Word& word) {
  auto const value = word.get();
  if ((value & notify_announced) == 0) return false;
  word.set(value & ~notify_announced);
  return true;
}

}  // namespace lend::soft
