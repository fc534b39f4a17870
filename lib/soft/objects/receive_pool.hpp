// SPDX-License-Identifier: MIT OR Apache-2.0
// A shared receive queue: its owner's half. Any thread.
#pragma once

#include <soft/objects/queue_pair.hpp>
#include <soft/platform/private_lock.hpp>
#include <soft/segment/completion_layout.hpp>
#include <soft/segment/pool_ring.hpp>

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace lend::soft {

struct ReceivePool : ibv_srq {
  std::uint32_t index = 0;
  SharedReceivePool* shared = nullptr;
  std::uint32_t depth = 0;
  std::uint32_t pieces = 0;           // per receive, at most
  std::uint32_t users = 0;            // queue pairs, under Context::control
  std::uint32_t events_reported = 0;  // under the same
  std::uint64_t ring_offset = 0;
  std::size_t ring_length = 0;
  PoolRing ring{};

  PrivateLock lock;  // guards all below; taken last
  std::uint64_t posted = 0;
  std::unique_ptr<std::byte[]> kept;  // PostedReceive, by index
  std::size_t kept_stride = 0;
  std::unique_ptr<std::uint64_t[]> words;  // by index: that of `order`, or 0: not posted
  std::unique_ptr<std::uint32_t[]> free;
  std::uint32_t free_count = 0;
  std::uint32_t without_copier = 0;  // queue pairs that are connected and have none

  [[nodiscard]] PostedReceive& kept_at(std::uint32_t which) noexcept {
    return *reinterpret_cast<PostedReceive*>(kept.get() + which * kept_stride);
  }
  /// Takes receive `which` for its completion, once. False when it is not posted: only a corrupt
  /// peer completes what is not, or twice, in two queues that two threads poll.
  [[nodiscard]] bool end(std::uint32_t which) noexcept {
    std::lock_guard const guard{lock};
    return which < depth && std::exchange(words[which], 0) != 0;
  }
  /// The same, of one posting: an index is used again.
  [[nodiscard]] bool end_as(std::uint64_t word) noexcept {
    std::lock_guard const guard{lock};
    auto const which = PoolRing::index_of(word);
    if (which >= depth || words[which] != word || word == 0) return false;
    words[which] = 0;
    return true;
  }
  /// The same, of the receive whose completion a peer wrote: its index, or none when it had ended.
  [[nodiscard]] std::optional<std::uint32_t> end_of(SharedCompletion const& completion) noexcept {
    bool const is_abandoned = how_of(completion).kind() == ReceiveKind::abandoned;
    auto const claim = completion.bytes[0].get();
    auto const which = is_abandoned ? PoolRing::index_of(claim) : completion.receive.get();
    if (is_abandoned ? end_as(claim) : end(which)) return which;
    return std::nullopt;
  }
  /// After it ended and its completion was read from kept_at().
  void recycle(std::uint32_t which) noexcept {
    std::lock_guard const guard{lock};
    free[free_count++] = which;
  }
};

inline ReceivePool* QueuePair::pool() const noexcept {
  return static_cast<ReceivePool*>(srq);
}

/// What take_own_claim() needs beside rx, or null: there is no claim. The caller holds rx.
[[nodiscard]] RobustLock* lock_of_claim(QueuePair const&) noexcept;
/// The word of the receive that a sender took and did not complete, or 0; it is the caller's to
/// end, unless a completion did. The caller holds rx and that lock, and let no sender in any more.
[[nodiscard]] std::uint64_t take_own_claim(QueuePair&) noexcept;
/// Takes that receive back. The caller did so with what lay unpolled.
void recycle_claim(QueuePair&, std::uint64_t word) noexcept;
/// Takes back the receives whose completions of `qp` lie unpolled in its completion queue, for
/// these are dropped. The caller holds that queue's lock and lets no process complete any more.
void recycle_unpolled(QueuePair& qp) noexcept;

[[nodiscard]] ibv_srq* create_srq(ibv_pd*, ibv_srq_init_attr*) noexcept;
[[nodiscard]] ibv_srq* create_srq_ex(ibv_context*, ibv_srq_init_attr_ex*) noexcept;
int modify_srq(ibv_srq*, ibv_srq_attr*, int mask) noexcept;
int query_srq(ibv_srq*, ibv_srq_attr*) noexcept;
int destroy_srq(ibv_srq*) noexcept;

}  // namespace lend::soft
