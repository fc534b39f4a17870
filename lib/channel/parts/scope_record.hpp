// SPDX-License-Identifier: MIT OR Apache-2.0
// What a channel keeps of each scope. The thread of the channel.
#pragma once

#include <channel/parts/linked_list.hpp>
#include <lend/base/error.hpp>
#include <lend/channel/batch.hpp>
#include <lend/channel/polling_scope.hpp>

#include <cstdint>
#include <new>
#include <vector>

namespace lend::channel {

/// The channel's record of one scope, at a fixed address: in the PollingScope, or in the channel.
struct ScopeRecord {
  std::uint32_t outstanding = 0;          ///< posted, completion not seen
  std::uint32_t finished = 0;             ///< completed, and a handle may still take the result
  std::uint64_t unpolled = 0;             ///< ended, and no handle took the result
  std::uint64_t ahead_of_handles = 0;     ///< of all these, whose end another one's handle tells
  std::vector<Error> failures{};          ///< of work whose result no handle took
  std::vector<std::uint64_t> seen_as{};   ///< sequence number of each failure, for the order
  bool has_lost_failure = false;          ///< there was no memory to keep it
  std::uint32_t lent = 0;                 ///< to the peer
  Batch* batches = nullptr;               ///< the open ones
  ChannelState* channel = nullptr;        ///< null once it is gone, or the scope has ended
  LinkedNode<ScopeRecord> as_open{this};  ///< of that channel

  [[nodiscard]] bool owns_memory() const noexcept {
    return failures.data() != nullptr || seen_as.data() != nullptr;
  }
  void leave() noexcept {
    channel = nullptr;
    as_open.leave();
  }
};

}  // namespace lend::channel

inline lend::channel::ScopeRecord& lend::PollingScope::record() noexcept {
  static_assert(sizeof(channel::ScopeRecord) <= record_bytes && alignof(channel::ScopeRecord) <= 8);
  return *std::launder(reinterpret_cast<channel::ScopeRecord*>(record_));
}
