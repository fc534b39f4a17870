// SPDX-License-Identifier: MIT OR Apache-2.0
// What lies in the segment that a context shares with its peers. No pointers, offsets only.
//
// Every process that maps a segment may write all of it, so a reader takes a copy and checks
// that copy. A cache line has one side that writes it for each message; what the other writes there
// is rare, and said. A structure becomes valid by one release store (a sequence number, a key, a
// state), so that a process may die between any two instructions.
#pragma once

#include <soft/platform/platform.hpp>
#include <soft/platform/robust_lock.hpp>
#include <soft/segment/offer.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lend::soft {

inline constexpr std::size_t cache_line = 64;
inline constexpr std::size_t page = 4096;

// A queue pair number has 24 bits: slot above, index below. Slot 0 is unused, so that the numbers 0
// and 1, which InfiniBand reserves, never occur.
inline constexpr std::uint32_t index_bits = 12;
inline constexpr std::uint32_t queue_pairs_max = 1u << index_bits;
inline constexpr std::uint32_t slots_max = 1u << (24 - index_bits);
inline constexpr std::uint32_t completion_queues_max = 4096;
inline constexpr std::uint32_t regions_max = 1u << 14;
inline constexpr std::uint32_t arenas_max = 1024;
inline constexpr std::uint32_t receive_pools_max = 1024;

inline constexpr std::uint32_t queue_depth_max = 1u << 14;
inline constexpr std::uint32_t completions_max = 1u << 16;
inline constexpr std::uint32_t pieces_max = 30;         // a receive of 30 pieces is 8 cache lines
inline constexpr std::uint32_t inline_bytes_max = 256;  // copied into the send queue when it stalls
inline constexpr std::uint32_t message_bytes_max = 1u << 30;
inline constexpr std::uint32_t outstanding_reads_max = 16;

// A key has 32 bits: the region's index above, which is not 0, and a generation below.
inline constexpr std::uint32_t key_generations = 1u << 18;
static_assert(std::uint64_t{regions_max} * key_generations == std::uint64_t{1} << 32);
[[nodiscard]] constexpr std::uint32_t index_of_key(std::uint32_t key) noexcept {
  return key / key_generations;
}

/// A value another process may write at any moment. Relaxed: what orders it is said where it is
/// used.
template <class T>
class Cell {
 public:
  [[nodiscard]] T get() const noexcept { return value_.load(std::memory_order_relaxed); }
  void set(T value) noexcept { value_.store(value, std::memory_order_relaxed); }

 private:
  static_assert(Atomic<T>::is_always_lock_free);
  Atomic<T> value_;
};

/// A pipe of the owner in which peers drop tokens, see wake_pipe.hpp.
struct SharedWake {
  Cell<std::uint64_t> inode;  // 0: there is none
  Cell<std::int32_t> fd;      // the end that is read, in the owner's process
};

struct SharedPiece {
  Cell<std::uint64_t> address;
  Cell<std::uint32_t> length;
  Cell<std::uint32_t> key;
};

/// A posted receive. A queue pair's own is valid for position p when sequence == p + 1; one of a
/// pool while the pool's order names it.
struct SharedReceive {
  Atomic<std::uint64_t> sequence;  // in a pool: index + 1 of the queue pair it was taken for
  Cell<std::uint32_t> length;      // of all pieces
  Cell<std::uint32_t> piece_count;
  SharedPiece pieces[3];  // and more in the following lines, to the ring's stride
};
static_assert(sizeof(SharedReceive) == cache_line);

[[nodiscard]] constexpr std::size_t whole_lines(std::size_t bytes) noexcept {
  return (bytes + cache_line - 1) / cache_line * cache_line;
}

struct SharedQueuePair {
  // Written by senders to this queue pair, under rx.
  alignas(cache_line) RobustLock rx;
  Atomic<std::uint64_t> receive_tail;  // position of the next receive to match
  // Of a receive that was taken and not completed: its position + 1, or in a pool the word that
  // named it (pool_ring.hpp); or 0.
  Cell<std::uint64_t> claim;
  // While a request from afar uses one, or 0: what deregisters it and finds rx held looks here.
  Atomic<std::uint32_t> remote_key;
  Cell<std::uint64_t> eager_tail;  // position in the eager ring, see bounce.hpp
  Cell<std::uint64_t> eager_head_seen;

  // Written by the owner under rx. Peers, too: under rx they move state to ERR and add to `events`;
  // `awaited` is anybody's.
  alignas(cache_line) Atomic<std::uint32_t> state;
  Cell<std::uint32_t> epoch;  // counts tenants and resets of this index
  Cell<std::uint32_t> remote_number;
  Cell<std::uint32_t> remote_instance;
  Cell<std::uint32_t> receive_psn;
  Cell<std::uint32_t> access;
  Cell<std::uint32_t> domain;
  Cell<std::uint32_t> completion_queue;
  Cell<std::uint64_t> ring_offset;
  Cell<std::uint32_t> ring_mask;
  Cell<std::uint16_t> ring_stride;
  Cell<std::uint8_t> rnr_timer;
  Cell<std::uint8_t> reads_max;
  Cell<std::uint16_t> pool;                   // index + 1, or 0: receives of its own
  Cell<std::uint8_t> type;                    // ibv_qp_type
  Atomic<std::uint8_t> awaited;               // see bounce.hpp
  Cell<std::uint32_t> key;                    // of datagrams
  Cell<std::uint32_t> send_completion_queue;  // who breaks this queue pair wakes both
  Cell<std::uint32_t> events;                 // see event_marks.hpp

  // Of the message at the head of its send queue that found no receive. Written by the owner, and
  // by the peer that takes the message.
  alignas(cache_line) Offer offer;
  Cell<std::uint64_t> bounce_offset;  // of BounceBuffers; written once
  Atomic<std::uint64_t> eager_head;   // written by the owner, as it polls
};
static_assert(sizeof(SharedQueuePair) == 3 * cache_line);

struct SharedCompletionQueue {
  // Written by those who complete receives, and by the owner to arm, under `lock`.
  alignas(cache_line) RobustLock lock;
  Cell<std::uint32_t> overrun;  // see event_marks.hpp
  Cell<std::uint64_t> tail;     // one behind when its last producer died, see completion_ring.cpp
  Cell<std::uint64_t> intended_tail;
  Cell<std::uint64_t> head_seen;
  // Written by the owner, as it polls.
  alignas(cache_line) Atomic<std::uint64_t> head;
  // Written once, and `notify` when somebody sleeps: the owner reads it for each of its own sends,
  // and would else wait for the line that its peers write.
  alignas(cache_line) Cell<std::uint64_t> ring_offset;
  Cell<std::uint32_t> ring_mask;
  Cell<std::uint32_t> notify;  // under `lock`; see notify.hpp
  SharedWake wake;
};
static_assert(sizeof(SharedCompletionQueue) == 3 * cache_line);

/// A shared receive queue, see pool_ring.hpp.
struct SharedReceivePool {
  // Written by takers of a receive, and by the owner to arm the limit, under `lock`.
  alignas(cache_line) RobustLock lock;
  Cell<std::uint32_t> limit;          // 0: not armed
  Cell<std::uint32_t> limit_reached;  // see event_marks.hpp
  Atomic<std::uint64_t> tail;
  // Written by the owner, and is_awaited by senders that find nothing posted.
  alignas(cache_line) Cell<std::uint64_t> posted;
  Cell<std::uint64_t> order_offset;
  Cell<std::uint64_t> receives_offset;
  Cell<std::uint32_t> mask;
  Cell<std::uint32_t> stride;
  Cell<std::uint32_t> is_awaited;  // at some queue pair, see awaited.hpp
  Cell<std::uint32_t> domain;      // of its receives' pieces, whatever the queue pair's is
};
static_assert(sizeof(SharedReceivePool) == 2 * cache_line);

/// Registered memory, or a memory window (window_scope.hpp). Valid while `key` is not 0.
struct alignas(cache_line) SharedRegion {
  Atomic<std::uint32_t> key;  // index and generation
  Cell<std::uint32_t> access;
  Cell<std::uint32_t> domain;  // of a window the scope of its queue pair
  Cell<std::uint32_t> arena;   // index, or arenas_max: private memory
  Cell<std::uint64_t> address;
  Cell<std::uint64_t> length;
  Cell<std::uint64_t> arena_offset;
  Cell<std::uint32_t> returned;  // a window's key, until the send that returns it has completed
};

/// A memfd of allocated memory, which peers map as a whole. Valid while `generation` is not 0.
struct SharedArena {
  Atomic<std::uint32_t> generation;
  Cell<std::int32_t> fd;
  Cell<std::uint64_t> length;
};

struct SharedHeader {
  static constexpr std::uint64_t magic_value = 0x63'74'66'6f'73'64'6e'6c;  // "lndsoftc"

  Atomic<std::uint64_t> magic;  // stored last
  Cell<std::uint32_t> instance;
  Cell<std::uint64_t> probe_address;  // in the owner's address space: a byte peers may read by CMA
  // What the owner may do to its peers by cross-memory attach: these bits.
  static constexpr std::uint32_t reads = 1;
  static constexpr std::uint32_t writes = 2;
  Cell<std::uint32_t> cross_memory;
  SharedWake async;  // where the owner waits for asynchronous events
  // Counts how often a peer moved a queue pair to ERR; the owner's poll_cq compares.
  alignas(cache_line) Atomic<std::uint32_t> trouble;
  // Held for each atomic operation on memory of this context, by whichever process executes it.
  alignas(cache_line) RobustLock atomics;
  // 1 while the owner's timer thread rests, or is about to. Who sets 0 wakes it: timer_thread.hpp.
  alignas(cache_line) Atomic<std::uint32_t> rests;
};

struct Segment {
  alignas(page) SharedHeader header;
  alignas(page) SharedQueuePair queue_pairs[queue_pairs_max];
  alignas(page) SharedCompletionQueue completion_queues[completion_queues_max];
  alignas(page) SharedReceivePool receive_pools[receive_pools_max];
  alignas(page) SharedRegion regions[regions_max];
  alignas(page) SharedArena arenas[arenas_max];
  alignas(page) std::byte rings[1];  // to segment_bytes
};

/// Address space, not memory: only pages that were touched exist.
inline constexpr std::size_t segment_bytes = std::size_t{512} << 20;
inline constexpr std::size_t rings_offset = offsetof(Segment, rings);

/// `count` objects of `stride` bytes at `offset` of the segment, or null when they do not lie
/// within its rings.
[[nodiscard]] inline std::byte* ring_at(Segment& segment, std::uint64_t offset, std::uint64_t count,
                                        std::uint64_t stride) noexcept {
  if (offset % cache_line != 0 || offset < rings_offset || offset > segment_bytes) return nullptr;
  if (count > completions_max || stride > page) return nullptr;
  if (count * stride > segment_bytes - offset) return nullptr;
  return reinterpret_cast<std::byte*>(&segment) + offset;
}

}  // namespace lend::soft
