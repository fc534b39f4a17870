// SPDX-License-Identifier: MIT OR Apache-2.0
// Ranks that are peers of each other, each with a part of a window.
#pragma once

#include "group/scope_ranks.hpp"

#include <cstdint>
#include <string>

namespace lend::test {

constexpr std::size_t window_words = 16;  // of a part

/// A rank with its part of a window, and other memory.
struct WindowRank {
  Group& group;
  std::uint32_t rank, next, before;
  Peers& peers;
  Values& own;
  Values& mine;
  Window& window;
};

template <class Body>
void on_windows(std::uint32_t size, Body const& body, GroupOptions const& options = {},
                PeerOptions const& peer_options = {}) {
  if (auto const device = open_test_device(); !device.capabilities().endpoints)
    return skip(device, "ranks on iWARP devices have no windows");
  ScopeRanks ranks{size, options};
  on_each(ranks.groups, [&](Group& group) {
    auto const rank = group.rank();
    auto own = ranks.values(rank, window_words), mine = ranks.values(rank, 12 * window_words);
    auto peers = taken(Peers::connect_all(group, within(patience), peer_options));
    auto window = taken(Window::create(peers, own.region(), RemoteAccess::all, within(patience)));
    WindowRank self{group, rank,  (rank + 1) % size, (rank + size - 1) % size, peers, own,
                    mine,  window};
    body(self);
  });
}

template <class T>
bool fails_with(Result<T> const& result, Errc code) {
  return result.has_error() && result.error() == code;
}

template <class T>
bool fails_with(Result<T> const& result, Errc code, std::string const& said) {
  return fails_with(result, code) && says(result.error(), said);
}

template <class T>
Error failure_of(Result<T> const& result) {
  expect(result.has_error(), "it succeeded");
  return result.error();
}

inline std::int64_t value_at(Values const& values, std::size_t place) {
  return taken(values.values(place, 1))[0];
}

}  // namespace lend::test
