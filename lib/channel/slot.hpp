// SPDX-License-Identifier: MIT OR Apache-2.0
// What a channel keeps about one work request. The thread of the channel.
#pragma once

#include <base/slot_table.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/channel/polling_scope.hpp>

#include <cstdint>

namespace lend {

/// One work request from post until its result is taken, or until it is over and nobody will ask.
struct Slot {
  ScopeRecord* scope = nullptr;  // null: posted unsafely, or its scope is over
  std::uint64_t bytes = 0;       // asked for
  SlotId before{};               // silent work ahead of this, over with it at the latest
  std::uint32_t loans = 0;       // of the slot's row in the loan table
  Operation operation{};
  bool unposted = false;  // in a batch
  bool held = false;      // a handle may still ask
  bool finished = false;  // the completion was seen; success or failure below is set
  bool failed = false;
  std::uint32_t failed_as = 0;  // counts the channel's failures as seen
  WorkSuccess success{};
  Error failure{};
};

}  // namespace lend
