// SPDX-License-Identifier: MIT OR Apache-2.0
// Two ends with many small pieces between them. One thread.
#pragma once

#include "support/two_ends.hpp"

namespace lend::test {

inline constexpr std::size_t piece = 8;

inline std::string word(std::size_t number) {
  std::string text = std::to_string(number);
  text.resize(piece, '.');
  return text;
}

/// Two ends with `count` pieces to send from, each with its word, and as many to send to, which the
/// peer may reach.
struct Pieces {
  std::size_t count;
  TwoEnds ends;
  MemoryRegion here = must(ends.domain.allocate(count * piece));
  // SAFETY: nothing here looks at these bytes while the peer may write there.
  MemoryRegion there =
      must(ends.domain.unsafe_allocate_exposed(count * piece, RemoteAccess::read_write));
  RemoteRegion remote = must(there.remote());

  explicit Pieces(std::size_t pieces, ChannelOptions const& options = {})
      : count{pieces}, ends{two_ends(options)} {
    for (std::size_t i = 0; i < count; ++i) put(here, i * piece, word(i));
  }
  GatherElement from(std::size_t i) const { return here.gather(i * piece, piece); }
  ScatterElement into(std::size_t i) { return there.scatter(i * piece, piece); }
  RemoteSlice slice(std::size_t i) const { return remote.slice(i * piece, piece); }
  Write write(std::size_t i) const { return {from(i), slice(i)}; }
  /// Returns when what end a has written is there, also where a write is over before.
  void settle() {
    auto back = must(ends.domain.allocate(piece));
    must(ends.a.read({back.scatter(0, piece), slice(0)}));
  }
  std::string arrived(std::size_t i) const { return text_at(there, i * piece, piece); }
};

}  // namespace lend::test
