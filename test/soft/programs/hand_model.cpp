// SPDX-License-Identifier: MIT OR Apache-2.0
// What becomes of a request, by the rules of verbs, one after the other. One thread.
#include <algorithm>
#include <cstring>

#include "soft/programs/hand_run.hpp"

namespace lend::test {

/// Its receives come back; what it is given from here on is flushed.
void HandRun::break_end(End& end) {
  end.is_broken = true;
  for (auto const& room : end.rooms)
    end.receives.push_back({.id = room.id, .status = WorkStatus::flushed});
  end.rooms.clear();
}

/// The window that `key` opens, if it does.
HandRun::Window* HandRun::bound(End& end, std::uint32_t key) {
  auto const window = std::ranges::find_if(
      end.windows, [&](Window const& one) { return one.is_bound && one.remote.key() == key; });
  return window == end.windows.end() ? nullptr : &*window;
}

void HandRun::apply(std::size_t at, Asked const& asked) {
  End& here = ends_[at];
  if (asked.operation == Operation::receive) {
    here.rooms.push_back({asked.id, asked.here});
    if (here.is_broken) break_end(here);
    return;
  }
  bool const is_flushed = here.is_broken;
  auto const status = is_flushed ? WorkStatus::flushed : execute_at(here, ends_[1 - at], asked);
  bool const is_read = asked.operation == Operation::read;
  if (status != WorkStatus::success)
    here.sends.push_back({.id = asked.id, .status = status});
  else if (!asked.is_silent)
    here.sends.push_back(
        {.id = asked.id, .bytes = is_read ? static_cast<std::uint32_t>(asked.here.length) : 0});
  if (status != WorkStatus::success && !is_flushed) break_end(here);
}

WorkStatus HandRun::execute_at(End& here, End& there, Asked const& asked) {
  if (there.is_broken) return WorkStatus::retry_exceeded;
  if (asked.operation == Operation::send) return deliver(here, there, asked);
  // Nobody asks for the key of no bytes.
  bool const is_open = !asked.is_by_window || bound(there, asked.remote.key) != nullptr;
  if (!(asked.is_permitted && is_open) && asked.here.length != 0) {
    break_end(there);
    return WorkStatus::remote_access;
  }
  std::byte* const own = here.own_bytes.data() + asked.here.offset;
  std::byte* const shown = there.shown_bytes.data() + asked.there;
  switch (asked.operation) {
    case Operation::write:
      std::memcpy(shown, own, asked.here.length);
      return asked.immediate ? deliver(here, there, asked) : WorkStatus::success;
    case Operation::atomic: {
      std::uint64_t word = 0;
      std::memcpy(&word, shown, sizeof word);
      std::memcpy(own, &word, sizeof word);
      if (!asked.swaps)
        word += asked.numbers[0];
      else if (word == asked.numbers[0])
        word = asked.numbers[1];
      std::memcpy(shown, &word, sizeof word);
      return WorkStatus::success;
    }
    default: std::memcpy(own, shown, asked.here.length); return WorkStatus::success;
  }
}

/// A message, or the end of a write, to the receive that has waited longest.
WorkStatus HandRun::deliver(End& here, End& there, Asked const& asked) {
  if (there.rooms.empty()) return WorkStatus::receiver_not_ready_exceeded;
  Room const room = there.rooms.front();
  there.rooms.pop_front();
  bool const is_send = asked.operation == Operation::send;
  if (is_send && asked.here.length > room.bytes.length) {
    there.receives.push_back({.id = room.id, .status = WorkStatus::local_length});
    break_end(there);
    return WorkStatus::remote_invalid_request;
  }
  std::optional<std::uint32_t> returned;
  if (asked.returned.key() != 0) {
    auto const window = std::ranges::find_if(
        there.windows, [&](Window const& one) { return one.remote.key() == asked.returned.key(); });
    if (window == there.windows.end() || !window->is_bound) {
      // The lender hears of it, not the peer.
      there.receives.push_back({.id = room.id, .status = WorkStatus::remote_invalid_request});
      break_end(there);
      return WorkStatus::success;
    }
    window->is_bound = false;
    returned = asked.returned.key();
  }
  if (is_send)
    std::memcpy(there.own_bytes.data() + room.bytes.offset,
                here.own_bytes.data() + asked.here.offset, asked.here.length);
  there.receives.push_back({.id = room.id,
                            .bytes = static_cast<std::uint32_t>(asked.here.length),
                            .immediate = asked.immediate,
                            .returned = returned,
                            .is_solicited = has(asked.options, RequestOption::solicited)});
  return WorkStatus::success;
}

}  // namespace lend::test
