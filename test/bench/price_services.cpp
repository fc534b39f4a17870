// SPDX-License-Identifier: MIT OR Apache-2.0
// A send by the services that acknowledge nothing. One thread.
#include "price_together.hpp"

#include <array>

namespace lend::bench {

namespace {

struct Unreliable {
  using Scope = UnreliableScope;
  using AnyBatch = UnreliableBatch;
  static UnreliableChannel& channel(LoopBack& end) { return end.unreliable; }
  static UnreliableQueuePair& by_id(LoopBack& end) { return end.unreliable_by_id; }
  static ibv_qp* queue_pair(LoopBack& end) { return end.unreliable_by_id.native(); }
};
struct Addressed {
  using Scope = DatagramScope;
  using AnyBatch = DatagramBatch;
  static DatagramChannel& channel(LoopBack& end) { return end.datagrams; }
  static DatagramQueuePair& by_id(LoopBack& end) { return end.datagrams_by_id; }
  static ibv_qp* queue_pair(LoopBack& end) { return end.datagrams_by_id.native(); }
};

struct UnreliableSend {
  using On = Unreliable;
  static constexpr ibv_wr_opcode opcode = IBV_WR_SEND;
  static Send work(LoopBack& end, std::size_t = 0) { return {end.memory.gather(0, message)}; }
  static auto post_by_id(UnreliableQueuePair& to, std::uint64_t id, Send const& work) {
    return to.unsafe_post_send(id, work);
  }
  static auto post_unsafe(UnreliableChannel& to, Send const& work) {
    return unsafe_post_send(to, work);
  }
  static auto post(UnreliableScope& to, Send const& work) { return to.post_send(work); }
  static auto add(UnreliableBatch& to, Send const& work) { return to.add_send(work); }
  static bool run(UnreliableChannel& on, Send const& work) { return on.send(work).has_value(); }
};
struct DatagramSend {
  using To = Destination;
  using On = Addressed;
  static constexpr ibv_wr_opcode opcode = IBV_WR_SEND;
  struct Work {
    Send send;
    Destination const& to;
  };
  static Work work(LoopBack& end, std::size_t = 0) {
    return {{end.memory.gather(0, message)}, end.itself};
  }
  static auto post_by_id(DatagramQueuePair& to, std::uint64_t id, Work const& work) {
    return to.unsafe_post_send(id, work.send, work.to);
  }
  static auto post(DatagramScope& to, Work const& work) { return to.post_send(work.send, work.to); }
  static auto add(DatagramBatch& to, Work const& work) { return to.add_send(work.send, work.to); }
  static bool run(DatagramChannel& on, Work const& work) {
    return on.send(work.send, work.to).has_value();
  }
};

constexpr std::array sends{row<UnreliableSend>("send by UC"), row<DatagramSend>("send by UD")};

}  // namespace

std::span<Row const> rows_of_services() noexcept {
  return sends;
}

}  // namespace lend::bench
