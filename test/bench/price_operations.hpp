// SPDX-License-Identifier: MIT OR Apache-2.0
// The operations of a reliable connection, each with its call in each layer. One thread.
#pragma once

#include "price_ways.hpp"

#include <lend/channel/unsafe.hpp>

#include <cstddef>

namespace lend::bench {

constexpr std::size_t message = 8;  // bytes, at 0; the peer's at 64, received at 128

/// What posts, of one service.
struct Reliable {
  using Scope = PollingScope;
  using AnyBatch = Batch;
  static Channel& channel(LoopBack& end) { return end.channel; }
  static QueuePair& by_id(LoopBack& end) { return end.by_id; }
  static ibv_qp* queue_pair(LoopBack& end) { return end.queue_pair; }
};
struct SendAlone {
  using On = Reliable;
  static constexpr ibv_wr_opcode opcode = IBV_WR_SEND;
  static Send work(LoopBack& end, std::size_t = 0) { return {end.memory.gather(0, message)}; }
  static auto post_by_id(QueuePair& to, std::uint64_t id, Send const& work) {
    return to.unsafe_post_send(id, work);
  }
  static auto post_unsafe(Channel& to, Send const& work) { return unsafe_post_send(to, work); }
  static auto post(PollingScope& to, Send const& work) { return to.post_send(work); }
  static auto add(Batch& to, Send const& work, auto... no_handle) {
    return to.add_send(work, no_handle...);
  }
  static bool run(Channel& on, Send const& work) { return on.send(work).has_value(); }
};
struct WriteAlone {
  using On = Reliable;
  static constexpr ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
  static Write work(LoopBack& end, std::size_t = 0) {
    return {end.memory.gather(0, message), end.remote.slice(64, message)};
  }
  static auto post_by_id(QueuePair& to, std::uint64_t id, Write const& work) {
    return to.unsafe_post_write(id, work);
  }
  static auto post_unsafe(Channel& to, Write const& work) { return unsafe_post_write(to, work); }
  static auto post(PollingScope& to, Write const& work) { return to.post_write(work); }
  static auto add(Batch& to, Write const& work, auto... no_handle) {
    return to.add_write(work, no_handle...);
  }
  static bool run(Channel& on, Write const& work) { return on.write(work).has_value(); }
};
struct ReadAlone {
  using On = Reliable;
  static constexpr ibv_wr_opcode opcode = IBV_WR_RDMA_READ;
  static Read work(LoopBack& end, std::size_t lane = 0) {
    return {end.memory.scatter(1024 + lane * message, message), end.remote.slice(64, message)};
  }
  static auto post_by_id(QueuePair& to, std::uint64_t id, Read const& work) {
    return to.unsafe_post_read(id, work);
  }
  static auto post_unsafe(Channel& to, Read const& work) { return unsafe_post_read(to, work); }
  static auto post(PollingScope& to, Read const& work) { return to.post_read(work); }
  static auto add(Batch& to, Read const& work, auto... no_handle) {
    return to.add_read(work, no_handle...);
  }
  static bool run(Channel& on, Read const& work) { return on.read(work).has_value(); }
};
struct AtomicAlone {
  using On = Reliable;
  static constexpr ibv_wr_opcode opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  static Atomic work(LoopBack& end, std::size_t lane = 0) {
    return Atomic::fetch_add(end.memory.scatter(1024 + lane * message, message),
                             end.remote.word(64), 1);
  }
  static auto post_by_id(QueuePair& to, std::uint64_t id, Atomic const& work) {
    return to.unsafe_post_atomic(id, work);
  }
  static auto post_unsafe(Channel& to, Atomic const& work) { return unsafe_post_atomic(to, work); }
  static auto post(PollingScope& to, Atomic const& work) { return to.post_atomic(work); }
  static auto add(Batch& to, Atomic const& work, auto... no_handle) {
    return to.add_atomic(work, no_handle...);
  }
  static bool run(Channel& on, Atomic const& work) { return on.atomic(work).has_value(); }
};
struct ReceiveAlone {
  using On = Reliable;
  static Receive work(LoopBack& end, std::size_t lane = 0) {
    return {end.memory.scatter(128 + lane * message, message)};
  }
  static auto post_by_id(QueuePair& to, std::uint64_t id, Receive const& work) {
    return to.unsafe_post_receive(id, work);
  }
  static auto post_unsafe(Channel& to, Receive const& work) {
    return unsafe_post_receive(to, work);
  }
  static auto post(PollingScope& to, Receive const& work) { return to.post_receive(work); }
  static auto add(Batch& to, Receive const& work, auto... no_handle) {
    return to.add_receive(work, no_handle...);
  }
  static bool run(Channel& on, Receive const& work) { return on.receive(work).has_value(); }
};
struct SendAndReceive {
  using On = Reliable;
};

}  // namespace lend::bench
