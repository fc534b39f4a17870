// SPDX-License-Identifier: MIT OR Apache-2.0
// The notify word of one completion queue: arming and waking. Pure.
//
// Every function runs under the queue's shared lock, which is taken over from dead holders; a
// producer publishes its completion under the same hold of that lock. So no race can lose a
// wake-up: a thread that arms either finds the completion already published, and polls it, or is
// found armed. A producer may die at any access. It wakes before it publishes: a death in between
// costs a wake-up without a completion, never a completion without a wake-up.
//
// Templates, so that test/soft/notify_test.cpp can cut them short at every access.
#pragma once

#include <cstdint>

namespace lend::soft {

inline constexpr std::uint32_t notify_solicited = 1;  // armed for solicited completions
inline constexpr std::uint32_t notify_any = 2;        // armed for every completion
inline constexpr std::uint32_t notify_announced = 4;  // woken; the owner has not taken it yet
// Nothing of arming, and never changed: its completions get the time. It lies here because a
// producer reads this word for each completion, and mostly finds 0.
inline constexpr std::uint32_t notify_timed = 8;

/// The owner arms the queue. Armed for any completion, it stays so if armed for solicited ones.
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

/// Wakes the owner, unless an earlier wake-up has not reached it yet. `ring` makes one token
/// readable and returns whether it could; if not, the queue stays armed for the next completion.
template <class Word, class Ring>
void announce(Word& word, Ring&& ring) {
  auto const value = word.get();
  if ((value & notify_announced) == 0 && !ring()) return;
  word.set((value & notify_timed) | notify_announced);
}

/// The owner disarms the queue, announced or not.
template <class Word>
void disarm(Word& word) {
  word.set(word.get() & notify_timed);
}

/// The owner took a token. Whether it was for this queue. There are never fewer tokens than
/// announced queues; there are more after a death, and for events told without the lock (see
/// CompletionQueue::owes_event).
template <class Word>
[[nodiscard]] bool take_announcement(Word& word) {
  auto const value = word.get();
  if ((value & notify_announced) == 0) return false;
  word.set(value & ~notify_announced);
  return true;
}

}  // namespace lend::soft
