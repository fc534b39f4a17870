// SPDX-License-Identifier: MIT OR Apache-2.0
// Ends of connections between processes and threads: what support.hpp makes, with work requests of
// one piece that are posted by value. Posting checks nothing, so that any thread may.
#pragma once

#include <infiniband/verbs.h>
#include <poll.h>
#include <sched.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "soft/support.hpp"
#include "support/catch.hpp"

namespace lend::test {

/// A work request of one piece, by value.
struct Piece {
  std::byte* at = nullptr;
  std::uint32_t length = 0;
  std::uint32_t key = 0;
};
struct Remote {
  std::uint64_t address = 0;
  std::uint32_t key = 0;
};

/// An open device with one protection domain.
class RawDevice {
 public:
  [[nodiscard]] ibv_context* context() const noexcept { return context_.get(); }
  [[nodiscard]] ibv_pd* domain() const noexcept { return domain_.get(); }

 private:
  HeldContext context_ = open_context();
  HeldDomain domain_ = make_domain(context_.get());
};

/// Registered memory with every right.
class RawMemory {
 public:
  RawMemory(RawDevice const& device, std::size_t length, Where where = Where::allocated)
      : memory_{device.domain(), length, all_access | IBV_ACCESS_MW_BIND, where} {}
  [[nodiscard]] std::byte* at(std::size_t offset = 0) const noexcept { return memory_.at(offset); }
  [[nodiscard]] Piece piece(std::size_t offset, std::size_t length) const noexcept {
    return {at(offset), static_cast<std::uint32_t>(length), memory_.key()};
  }
  [[nodiscard]] ibv_mr* region() const noexcept { return memory_.region(); }
  [[nodiscard]] Remote remote(std::size_t offset = 0) const noexcept {
    return {memory_.address(offset), memory_.region()->rkey};
  }

 private:
  Memory memory_;
};

class RawChannel {
 public:
  explicit RawChannel(RawDevice const& device) : channel_{make_channel(device.context())} {}
  [[nodiscard]] ibv_comp_channel* get() const noexcept { return channel_.get(); }
  /// Sleeps until an event is there, and takes it. False when none came in time.
  [[nodiscard]] bool wait(int milliseconds) const {
    pollfd wait{channel_->fd, POLLIN, 0};
    if (::poll(&wait, 1, milliseconds) != 1) return false;
    REQUIRE(take_one());
    return true;
  }
  /// Takes an event; waits for it unless its descriptor is non-blocking.
  [[nodiscard]] bool take_one() const {
    ibv_cq* queue = nullptr;
    void* mark = nullptr;
    if (ibv().get_cq_event(channel_.get(), &queue, &mark) != 0) return false;
    ibv().ack_cq_events(queue, 1);
    return true;
  }

 private:
  HeldChannel channel_;
};

class RawQueue {
 public:
  explicit RawQueue(RawDevice const& device, int entries = 256, RawChannel const* channel = nullptr)
      : queue_{
            make_queue(device.context(), entries, channel != nullptr ? channel->get() : nullptr)} {}
  [[nodiscard]] ibv_cq* get() const noexcept { return queue_.get(); }
  int poll(int count, ibv_wc* completions) const noexcept {
    return ::ibv_poll_cq(queue_.get(), count, completions);
  }

 private:
  HeldQueue queue_;
};

/// The next completion, whatever it says.
inline ibv_wc next_of(RawQueue const& queue) {
  ibv_wc completion{};
  while (queue.poll(1, &completion) == 0) ::sched_yield();
  return completion;
}

/// One receive of one piece, by ibv_post_recv or ibv_post_srq_recv.
template <class Post, class Queue>
int post_receive(Post post, Queue* queue, std::uint64_t id, Piece const& into) {
  ibv_sge list{reinterpret_cast<std::uint64_t>(into.at), into.length, into.key};
  ibv_recv_wr work{};
  work.wr_id = id;
  work.sg_list = &list;
  work.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return post(queue, &work, &bad);
}

/// One send of one piece; `work` says what else its operation needs.
inline int post_send(ibv_qp* pair, ibv_wr_opcode opcode, std::uint64_t id, Piece const& piece,
                     ibv_send_wr work) {
  ibv_sge list{reinterpret_cast<std::uint64_t>(piece.at), piece.length, piece.key};
  work.wr_id = id;
  work.sg_list = &list;
  work.num_sge = 1;
  work.opcode = opcode;
  ibv_send_wr* bad = nullptr;
  return ::ibv_post_send(pair, &work, &bad);
}

/// A shared receive queue.
class RawPool {
 public:
  RawPool(RawDevice const& device, std::uint32_t depth) {
    ibv_srq_init_attr asked{};
    asked.attr = {depth, 1, 0};
    pool_.reset(ibv().create_srq(device.domain(), &asked));
    REQUIRE(pool_);
  }
  [[nodiscard]] ibv_srq* get() const noexcept { return pool_.get(); }
  int receive(std::uint64_t id, Piece const& into) const {
    return post_receive(::ibv_post_srq_recv, pool_.get(), id, into);
  }

 private:
  HeldPool pool_;
};

/// Whether a queue pair's sends are also built call by call. Where they may be, no post takes the
/// shortest way.
enum class Builders : bool { no, yes };

/// A queue pair whose sends are all signalled. Posting from several threads is fine.
class RawPair {
 public:
  RawPair(RawDevice const& device, RawQueue const& queue, std::uint32_t depth = 64,
          ibv_srq* pool = nullptr, Builders builders = Builders::no) {
    ibv_qp_init_attr_ex asked{};
    asked.send_cq = asked.recv_cq = queue.get();
    asked.qp_type = IBV_QPT_RC;
    asked.sq_sig_all = 1;
    asked.srq = pool;
    asked.cap = {depth, depth, 2, 2, 0};
    asked.pd = device.domain();
    asked.comp_mask = IBV_QP_INIT_ATTR_PD;
    if (builders == Builders::yes) asked.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    asked.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE;
    pair_.reset(ibv().create_qp_ex(device.context(), &asked));
    REQUIRE(pair_);
  }

  [[nodiscard]] ibv_qp* get() const noexcept { return pair_.get(); }
  [[nodiscard]] bool has_builders() const noexcept {
    return ibv().qp_to_qp_ex(pair_.get()) != nullptr;
  }
  [[nodiscard]] std::uint32_t number() const noexcept { return pair_->qp_num; }
  /// 0 or errno. Waits for receives for ever; for a silent peer some seconds.
  int connect(std::uint32_t peer) const {
    auto const to = attributes_for(peer, {.timeout = 18,  // 4.096 us * 2^18 = 1.07 s
                                          .retries = 7,
                                          .rnr_retries = 7,
                                          .reads_out = 16,
                                          .reads_in = 16});
    for (auto const& [state, mask] : {std::pair<ibv_qp_state, int>{IBV_QPS_INIT, init_mask},
                                      {IBV_QPS_RTR, rtr_mask},
                                      {IBV_QPS_RTS, rts_mask}})
      if (auto const error = move(pair_.get(), state, to, mask); error != 0) return error;
    return 0;
  }
  /// In RESET there is nothing to end, and no way to ERR.
  int fail() const {
    if (pair_->state == IBV_QPS_RESET) return 0;
    return move(pair_.get(), IBV_QPS_ERR, {}, IBV_QP_STATE);
  }
  int receive(std::uint64_t id, Piece const& into) const {
    return post_receive(::ibv_post_recv, pair_.get(), id, into);
  }
  int send(std::uint64_t id, Piece const& from) const { return post(IBV_WR_SEND, id, from, {}); }
  /// A send that also ends the peer's window of that key.
  int give_back(std::uint64_t id, Piece const& from, std::uint32_t key) const {
    ibv_send_wr work{};
    work.invalidate_rkey = key;
    return post_send(pair_.get(), IBV_WR_SEND_WITH_INV, id, from, work);
  }
  int write(std::uint64_t id, Piece const& from, Remote const& to) const {
    return post(IBV_WR_RDMA_WRITE, id, from, to);
  }
  /// False: it was not posted.
  [[nodiscard]] bool write_at_once(std::uint64_t id, std::span<std::byte const> bytes,
                                   Remote const& to) const {
    ibv_sge list{reinterpret_cast<std::uint64_t>(bytes.data()),
                 static_cast<std::uint32_t>(bytes.size()), 0};
    return ibv().write_at_once(pair_.get(), write_of(id, list, to));
  }
  int write_with_immediate(std::uint64_t id, Piece const& from, Remote const& to) const {
    return post(IBV_WR_RDMA_WRITE_WITH_IMM, id, from, to);
  }
  int read(std::uint64_t id, Piece const& into, Remote const& from) const {
    return post(IBV_WR_RDMA_READ, id, into, from);
  }
  int fetch_and_add(std::uint64_t id, Piece const& into, Remote const& to,
                    std::uint64_t add) const {
    return change(IBV_WR_ATOMIC_FETCH_AND_ADD, id, into, to, add, 0);
  }
  int compare_and_swap(std::uint64_t id, Piece const& into, Remote const& to, std::uint64_t wanted,
                       std::uint64_t swap) const {
    return change(IBV_WR_ATOMIC_CMP_AND_SWP, id, into, to, wanted, swap);
  }
  /// Two writes in one list. How many were posted.
  unsigned write_twice(std::uint64_t first_id, std::uint64_t second_id, Piece const& from,
                       Remote const& to) const {
    ibv_sge list{reinterpret_cast<std::uint64_t>(from.at), from.length, from.key};
    auto first = write_of(first_id, list, to), second = write_of(second_id, list, to);
    first.next = &second;
    ibv_send_wr* bad = nullptr;
    if (::ibv_post_send(pair_.get(), &first, &bad) == 0) return 2;
    return bad == &second ? 1 : 0;
  }
  /// A send and a write, call by call: both are posted or none. The queue pair has builders.
  int build(std::uint64_t id_of_send, std::uint64_t id_of_write, Piece const& from,
            Remote const& to) const {
    auto* const builder = ibv().qp_to_qp_ex(pair_.get());
    ::ibv_wr_start(builder);
    builder->wr_flags = IBV_SEND_SIGNALED;
    auto const set_piece = [&] {
      ::ibv_wr_set_sge(builder, from.key, reinterpret_cast<std::uint64_t>(from.at), from.length);
    };
    builder->wr_id = id_of_send;
    ::ibv_wr_send(builder);
    set_piece();
    builder->wr_id = id_of_write;
    ::ibv_wr_rdma_write(builder, to.key, to.address);
    set_piece();
    return ::ibv_wr_complete(builder);
  }

 private:
  [[nodiscard]] static ibv_send_wr write_of(std::uint64_t id, ibv_sge& list, Remote const& to) {
    ibv_send_wr work{};
    work.wr_id = id;
    work.sg_list = &list;
    work.num_sge = 1;
    work.opcode = IBV_WR_RDMA_WRITE;
    work.wr.rdma = {to.address, to.key};
    return work;
  }
  int change(ibv_wr_opcode opcode, std::uint64_t id, Piece const& into, Remote const& to,
             std::uint64_t compare_or_add, std::uint64_t swap) const {
    ibv_send_wr work{};
    work.wr.atomic = {to.address, compare_or_add, swap, to.key};
    return post_send(pair_.get(), opcode, id, into, work);
  }
  int post(ibv_wr_opcode opcode, std::uint64_t id, Piece const& piece, Remote const& remote) const {
    ibv_send_wr work{};
    work.wr.rdma = {remote.address, remote.key};
    return post_send(pair_.get(), opcode, id, piece, work);
  }

  HeldQueuePair pair_;
};

/// A memory window of type 2, for the peer to write.
class RawWindow {
 public:
  explicit RawWindow(RawDevice const& device)
      : window_{::ibv_alloc_mw(device.domain(), IBV_MW_TYPE_2)} {
    REQUIRE(window_);
  }
  /// That of the next bind.
  [[nodiscard]] std::uint32_t next_key() const noexcept { return ::ibv_inc_rkey(window_->rkey); }
  int bind(RawPair const& pair, std::uint64_t id, RawMemory const& memory, std::size_t offset,
           std::size_t length) const {
    ibv_send_wr work{};
    work.bind_mw = {
        window_.get(),
        next_key(),
        {memory.region(), memory.remote(offset).address, length, IBV_ACCESS_REMOTE_WRITE}};
    auto const error = post(pair, IBV_WR_BIND_MW, id, work);
    if (error == 0) window_->rkey = work.bind_mw.rkey;
    return error;
  }
  int invalidate(RawPair const& pair, std::uint64_t id) const {
    ibv_send_wr work{};
    work.invalidate_rkey = window_->rkey;
    return post(pair, IBV_WR_LOCAL_INV, id, work);
  }

 private:
  static int post(RawPair const& pair, ibv_wr_opcode opcode, std::uint64_t id, ibv_send_wr& work) {
    work.wr_id = id;
    work.opcode = opcode;
    ibv_send_wr* bad = nullptr;
    return ::ibv_post_send(pair.get(), &work, &bad);
  }

  std::unique_ptr<ibv_mw, Destroy<ibv_mw, &verbs::Provider::dealloc_mw>> window_;
};

/// A datagram queue pair that can send at once. Its sends are all signalled.
class RawDatagrams {
 public:
  RawDatagrams(RawDevice const& device, RawQueue const& queue, std::uint32_t depth,
               ibv_srq* pool = nullptr)
      : address_{make_address(device.domain())} {
    ibv_qp_init_attr_ex asked{};
    asked.send_cq = asked.recv_cq = queue.get();
    asked.qp_type = IBV_QPT_UD;
    asked.sq_sig_all = 1;
    asked.srq = pool;
    asked.cap = {depth, depth, 1, 1, 0};
    asked.pd = device.domain();
    asked.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    asked.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
    pair_.reset(ibv().create_qp_ex(device.context(), &asked));
    REQUIRE(pair_);
    REQUIRE(start() == 0);
  }
  [[nodiscard]] ibv_qp* get() const noexcept { return pair_.get(); }
  [[nodiscard]] std::uint32_t number() const noexcept { return pair_->qp_num; }
  /// From RESET to where it sends. 0 or errno.
  int start() const {
    auto const init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
    for (auto const& [state, mask] : {std::pair<ibv_qp_state, int>{IBV_QPS_INIT, init},
                                      {IBV_QPS_RTR, IBV_QP_STATE},
                                      {IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN}})
      if (auto const error = move(state, mask); error != 0) return error;
    return 0;
  }
  int reset() const { return move(IBV_QPS_RESET, IBV_QP_STATE); }
  int set_key() const { return move(IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_QKEY); }
  /// In RESET there is nothing to end, and no way to ERR.
  int fail() const { return pair_->state == IBV_QPS_RESET ? 0 : move(IBV_QPS_ERR, IBV_QP_STATE); }
  int receive(std::uint64_t id, Piece const& into) const {
    return post_receive(::ibv_post_recv, pair_.get(), id, into);
  }
  /// A datagram with an immediate and one without, call by call: both are posted or none.
  int build(std::uint64_t first_id, std::uint64_t second_id, Piece const& from,
            std::uint32_t number) const {
    auto* const builder = ibv().qp_to_qp_ex(pair_.get());
    ::ibv_wr_start(builder);
    builder->wr_flags = IBV_SEND_SIGNALED;
    auto const address_it = [&] {
      // The key of the queue pair, which is 0. Source: ibv_modify_qp(3), qkey; C10-15.
      ::ibv_wr_set_ud_addr(builder, address_.get(), number, 1u << 31);
      ::ibv_wr_set_sge(builder, from.key, reinterpret_cast<std::uint64_t>(from.at), from.length);
    };
    builder->wr_id = first_id;
    ::ibv_wr_send_imm(builder, 7);
    address_it();
    builder->wr_id = second_id;
    ::ibv_wr_send(builder);
    address_it();
    return ::ibv_wr_complete(builder);
  }
  int send(std::uint64_t id, Piece const& from, std::uint32_t number) const {
    ibv_send_wr work{};
    work.wr.ud = {address_.get(), number, 0};
    return post_send(pair_.get(), IBV_WR_SEND, id, from, work);
  }

 private:
  int move(ibv_qp_state state, int mask) const {
    ibv_qp_attr to{};
    to.port_num = 1;
    return test::move(pair_.get(), state, to, mask);
  }

  HeldQueuePair pair_;
  HeldAddress address_;
};

}  // namespace lend::test
