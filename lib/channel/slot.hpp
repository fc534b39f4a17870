// SPDX-License-Identifier: MIT OR Apache-2.0
// What a channel keeps about one work request. The thread of the channel.
#pragma once

#include <base/slot_table.hpp>
#include <lend/base/borrow.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/channel/polling_scope.hpp>

#include <cstdint>

namespace lend {

struct RegionState;

/// A loan of a slot's, and its region.
struct LentPiece {
  Loan loan{};
  RegionState* region = nullptr;
};

/// One work request from post until its result is taken, or until it is over and nobody will ask.
///
/// Unposted (only of a batch), then outstanding (neither that nor finished), then finished, maybe
/// failed, then free. Batching posts it, or fails it where it was refused; end() and fail() of the
/// channel finish it; take_back() frees it without either. What is finished is freed at once, but
/// while it is `held`, whatever its state, only when the handle asks or goes, or the scope ends.
struct Slot {
  ScopeRecord* scope = nullptr;
  LentPiece* pieces = nullptr;  // the slot's row in the loan table
  SlotId before{};              // silent work ahead of this, over with it at the latest
  WorkSuccess work{};           // bytes: asked for, then received
  std::uint32_t loans = 0;      // of the row, in use
  bool unposted = false;        // in a batch
  bool held = false;            // a handle may still ask
  bool finished = false;        // the completion was seen
  bool failed = false;          // and tells of a failure
  std::uint64_t failed_as = 0;  // the number of its failure among the channel's, as seen
  Error failure{};
};

}  // namespace lend
