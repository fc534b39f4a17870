// SPDX-License-Identifier: MIT OR Apache-2.0
// Work for one of many peers, and what became of it. Values; any thread.
#pragma once

#include <lend/base/error.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/verbs/remote_region.hpp>
#include <lend/verbs/work_request.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace lend {

/// Bytes of the region that a peer exposed.
struct PeerSlice {
  std::uint32_t peer = 0;
  RemoteSlice slice{};
};

/// A region that a peer exposed: its key means something to that peer's device only.
struct PeerRegion {
  std::uint32_t peer = 0;
  RemoteRegion region{};

  /// As RemoteRegion::slice().
  [[nodiscard]] PeerSlice slice(std::size_t offset, std::size_t length) const noexcept {
    return {peer, region.slice(offset, length)};
  }
  // NOLINTNEXTLINE(google-explicit-constructor): the whole region is its largest slice.
  operator PeerSlice() const noexcept { return {peer, region}; }
};

struct PeerSend {
  std::uint32_t peer;
  Send work;
};
struct PeerReceive {
  std::uint32_t peer;
  Receive work;
};
/// The peer is the target's.
struct PeerWrite {
  GatherList source;
  PeerSlice target;
  std::optional<std::uint32_t> immediate{};
};
/// The peer is the source's.
struct PeerRead {
  ScatterList target;
  PeerSlice source;
};

/// What became of one row of a grouped call, whatever became of the others.
struct Outcome {
  enum class State : std::uint8_t {
    unposted,   ///< nothing happened; `error` says why
    succeeded,  ///< `success` has the result
    failed,     ///< `error` says why; the peer's channel is broken
    flushed,    ///< a failure of another request, or an abort, ended it; so is the channel
  };
  std::uint32_t peer = 0;
  State state{};
  WorkSuccess success{};
  Error error{};
};

}  // namespace lend
