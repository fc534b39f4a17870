// SPDX-License-Identifier: MIT OR Apache-2.0
// What a queue pair found of its target, so that it need not ask for each request. One thread.
#pragma once

#include <soft/peers/peers.hpp>
#include <soft/segment/completion_ring.hpp>
#include <soft/segment/receive_ring.hpp>

#include <cstdint>

namespace lend::soft {

/// Checked, and true in one epoch of the target, in which its owner changes none of it. A queue
/// pair that forgets its peer forgets this first.
struct KnownTarget {
  static constexpr std::uint64_t nothing = UINT64_MAX;

  std::uint64_t epoch = nothing;
  std::uint64_t receiver = 0;  // receiver_name()
  std::uint32_t domain = 0;
  ReceiveRing receives{nullptr, 0, 0};  // null: of a shared queue
  KnownQueue queue;
  // Our view of the arena in which the latest request found its bytes.
  HeldView view;
  std::uint32_t arena = 0;
};

}  // namespace lend::soft
