// SPDX-License-Identifier: MIT OR Apache-2.0
// A request that takes the short way (direct.hpp) and holds its target's rx, and what is rare on
// that way, out of line. The caller holds send_lock.
#pragma once

#include <soft/objects/queue_pair.hpp>
#include <soft/segment/completion_layout.hpp>
#include <soft/segment/completion_ring.hpp>
#include <soft/segment/layout.hpp>

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace lend::soft::direct {

// The writes and sends, without and with an immediate, are all up to this one.
inline constexpr auto last_opcode = IBV_WR_SEND_WITH_IMM;
static_assert(IBV_WR_RDMA_WRITE == 0 && IBV_WR_RDMA_WRITE_WITH_IMM == 1 && IBV_WR_SEND == 2 &&
              last_opcode == 3);
[[nodiscard]] constexpr bool is_write(ibv_wr_opcode opcode) noexcept {
  return opcode <= IBV_WR_RDMA_WRITE_WITH_IMM;
}
/// Of the receive's completion.
[[nodiscard]] constexpr std::uint8_t flags_of(ibv_wr_opcode opcode) noexcept {
  return opcode == IBV_WR_SEND ? 0 : IBV_WC_WITH_IMM;
}

/// One request, whose target's rx is held. Functions out of line take it by value, so that it stays
/// in registers.
struct Reached {
  QueuePair& qp;
  Context& context;
  Peer& peer;
  KnownTarget& known;
  SharedQueuePair& target;
  ibv_send_wr const& wr;
  ibv_wr_opcode opcode;
  std::uint32_t length;
  bool is_self;  // the peer

  [[nodiscard]] std::byte const* source() const noexcept {
    return reinterpret_cast<std::byte const*>(wr.sg_list->addr);
  }
};

/// The completion of a receive at the target. `placed`: the bytes are in memory, else in it.
struct Arrival {
  std::uint64_t position;
  ReceiveKind kind;
  bool placed;
  bool is_in_stream;
};

/// What became of a request. Left: the general way does it.
enum class Reach : std::uint8_t { done, waits, left };

// What is rare, out of line.

/// Whether a queue pair may take the short way from now on: in RTS, of a reliable connection. Makes
/// what it keeps of its target, the first time. False, too, where there is no memory.
[[nodiscard]] bool begin_directly(QueuePair&) noexcept;
/// Looks at the target, whose rx is held. False: it does not listen to us, or says nonsense.
[[nodiscard]] bool learn(QueuePair&) noexcept;
/// Views the arena. False: it cannot be mapped.
[[nodiscard]] bool look_at(QueuePair&, std::uint32_t arena) noexcept;
/// Whether the receive's piece may be written by the target's device, the memory is not mapped, and
/// the bytes have room in a completion.
[[nodiscard]] bool lies_apart(QueuePair&, std::uint32_t key, std::uint64_t address,
                              std::uint32_t length) noexcept;
/// The bytes of a message of up to SharedCompletion::inline_max to its completion.
void write_bytes(KnownQueue const&, SharedCompletion&, std::byte const* source,
                 std::uint32_t length) noexcept;
/// Publishes what push_plain() left: once a message has come in, it is completed, whatever happens
/// to its receiver meanwhile.
[[nodiscard]] bool push_all(Reached, Arrival) noexcept;
/// Offers a send that found no receive to its receiver, and begins to wait. False: it may not wait,
/// or is for the general way.
[[nodiscard]] bool offer(Reached) noexcept;
/// Keeps a send that was offered. The target's rx is not held any more.
void defer(QueuePair&, ibv_send_wr const&) noexcept;

}  // namespace lend::soft::direct
