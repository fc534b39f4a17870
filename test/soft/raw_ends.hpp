// SPDX-License-Identifier: MIT OR Apache-2.0
// The soft device by raw verbs: the pieces of a connection, each undone by its destructor, which
// checks that it could be. One thread at a time, unless said.
#pragma once

#include <infiniband/verbs.h>
#include <poll.h>
#include <soft/provider.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

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

inline Provider const& soft_device() {
  return soft::provider();
}

/// An open device with one protection domain.
class RawDevice {
 public:
  RawDevice() {
    auto** const list = soft_device().get_device_list(nullptr);
    context_ = soft_device().open_device(list[0]);
    soft_device().free_device_list(list);
    if (context_ == nullptr) FAIL("open_device: " << soft_device().last_reason());
    domain_ = soft_device().alloc_pd(context_);
    REQUIRE(domain_ != nullptr);
  }
  RawDevice(RawDevice const&) = delete;
  RawDevice& operator=(RawDevice const&) = delete;
  ~RawDevice() {
    CHECK(soft_device().dealloc_pd(domain_) == 0);
    CHECK(soft_device().close_device(context_) == 0);
  }
  [[nodiscard]] ibv_context* context() const noexcept { return context_; }
  [[nodiscard]] ibv_pd* domain() const noexcept { return domain_; }

 private:
  ibv_context* context_;
  ibv_pd* domain_;
};

enum class Home { device, process };  // the library's allocator, or private memory (CMA)

/// Registered memory with every right.
class RawMemory {
 public:
  RawMemory(RawDevice const& device, std::size_t length, Home home = Home::device)
      : device_{device}, length_{length} {
    if (home == Home::process) {
      private_.resize(length);
      at_ = private_.data();
    } else {
      at_ = static_cast<std::byte*>(soft_device().allocate(device.context(), length, {}));
    }
    REQUIRE(at_ != nullptr);
    region_ = soft_device().reg_mr(device.domain(), at_, length,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                                       IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
    REQUIRE(region_ != nullptr);
  }
  RawMemory(RawMemory const&) = delete;
  RawMemory& operator=(RawMemory const&) = delete;
  ~RawMemory() {
    CHECK(soft_device().dereg_mr(region_) == 0);
    if (private_.empty()) soft_device().release(device_.context(), at_, length_);
  }
  [[nodiscard]] std::byte* at(std::size_t offset = 0) const noexcept { return at_ + offset; }
  [[nodiscard]] Piece piece(std::size_t offset, std::size_t length) const noexcept {
    return {at_ + offset, static_cast<std::uint32_t>(length), region_->lkey};
  }
  [[nodiscard]] Remote remote(std::size_t offset = 0) const noexcept {
    return {reinterpret_cast<std::uint64_t>(at_ + offset), region_->rkey};
  }

 private:
  RawDevice const& device_;
  std::size_t length_;
  std::vector<std::byte> private_;
  std::byte* at_ = nullptr;
  ibv_mr* region_ = nullptr;
};

class RawChannel {
 public:
  explicit RawChannel(RawDevice const& device)
      : channel_{soft_device().create_comp_channel(device.context())} {
    REQUIRE(channel_ != nullptr);
  }
  RawChannel(RawChannel const&) = delete;
  RawChannel& operator=(RawChannel const&) = delete;
  ~RawChannel() { CHECK(soft_device().destroy_comp_channel(channel_) == 0); }
  [[nodiscard]] ibv_comp_channel* get() const noexcept { return channel_; }
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
    if (soft_device().get_cq_event(channel_, &queue, &mark) != 0) return false;
    soft_device().ack_cq_events(queue, 1);
    return true;
  }

 private:
  ibv_comp_channel* channel_;
};

class RawQueue {
 public:
  explicit RawQueue(RawDevice const& device, int entries = 256, RawChannel const* channel = nullptr)
      : queue_{soft_device().create_cq(device.context(), entries, nullptr,
                                       channel != nullptr ? channel->get() : nullptr, 0)} {
    REQUIRE(queue_ != nullptr);
  }
  RawQueue(RawQueue const&) = delete;
  RawQueue& operator=(RawQueue const&) = delete;
  ~RawQueue() { CHECK(soft_device().destroy_cq(queue_) == 0); }
  [[nodiscard]] ibv_cq* get() const noexcept { return queue_; }
  int poll(int count, ibv_wc* completions) const noexcept {
    return ::ibv_poll_cq(queue_, count, completions);
  }

 private:
  ibv_cq* queue_;
};

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

/// A shared receive queue.
class RawPool {
 public:
  RawPool(RawDevice const& device, std::uint32_t depth) {
    ibv_srq_init_attr asked{};
    asked.attr = {depth, 1, 0};
    pool_ = soft_device().create_srq(device.domain(), &asked);
    REQUIRE(pool_ != nullptr);
  }
  RawPool(RawPool const&) = delete;
  RawPool& operator=(RawPool const&) = delete;
  ~RawPool() { CHECK(soft_device().destroy_srq(pool_) == 0); }
  [[nodiscard]] ibv_srq* get() const noexcept { return pool_; }
  int receive(std::uint64_t id, Piece const& into) const {
    return post_receive(::ibv_post_srq_recv, pool_, id, into);
  }

 private:
  ibv_srq* pool_ = nullptr;
};

/// A queue pair whose sends are all signalled. Posting from several threads is fine.
class RawPair {
 public:
  RawPair(RawDevice const& device, RawQueue const& queue, std::uint32_t depth = 64,
          ibv_srq* pool = nullptr) {
    ibv_qp_init_attr_ex asked{};
    asked.send_cq = asked.recv_cq = queue.get();
    asked.qp_type = IBV_QPT_RC;
    asked.sq_sig_all = 1;
    asked.srq = pool;
    asked.cap = {depth, depth, 2, 2, 0};
    asked.pd = device.domain();
    asked.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    asked.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE;
    pair_ = ::ibv_create_qp_ex(device.context(), &asked);
    REQUIRE(pair_ != nullptr);
  }
  RawPair(RawPair const&) = delete;
  RawPair& operator=(RawPair const&) = delete;
  ~RawPair() { CHECK(soft_device().destroy_qp(pair_) == 0); }

  [[nodiscard]] ibv_qp* get() const noexcept { return pair_; }
  [[nodiscard]] std::uint32_t number() const noexcept { return pair_->qp_num; }
  /// 0 or errno. Waits for receives for ever; for a silent peer some seconds.
  int connect(std::uint32_t peer) const {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_INIT;
    to.port_num = 1;
    to.qp_access_flags =
        IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    auto const init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    if (auto const error = soft_device().modify_qp(pair_, &to, init); error != 0) return error;
    to = {};
    to.qp_state = IBV_QPS_RTR;
    to.path_mtu = IBV_MTU_4096;
    to.dest_qp_num = peer;
    to.max_dest_rd_atomic = 16;
    to.min_rnr_timer = 1;
    to.ah_attr.port_num = 1;
    to.ah_attr.dlid = 1;
    auto const ready = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    if (auto const error = soft_device().modify_qp(pair_, &to, ready); error != 0) return error;
    to = {};
    to.qp_state = IBV_QPS_RTS;
    to.timeout = 18;  // 4.096 us * 2^18 = 1.07 s; ibv_modify_qp(3)
    to.retry_cnt = 7;
    to.rnr_retry = 7;
    to.max_rd_atomic = 16;
    auto const sending = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                         IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
    return soft_device().modify_qp(pair_, &to, sending);
  }
  /// In RESET there is nothing to end, and no way to ERR.
  int fail() const {
    if (pair_->state == IBV_QPS_RESET) return 0;
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_ERR;
    return soft_device().modify_qp(pair_, &to, IBV_QP_STATE);
  }
  int receive(std::uint64_t id, Piece const& into) const {
    return post_receive(::ibv_post_recv, pair_, id, into);
  }
  int send(std::uint64_t id, Piece const& from) const { return post(IBV_WR_SEND, id, from, {}); }
  int write(std::uint64_t id, Piece const& from, Remote const& to) const {
    return post(IBV_WR_RDMA_WRITE, id, from, to);
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
  /// A send and a write, call by call: both are posted or none.
  int build(std::uint64_t id_of_send, std::uint64_t id_of_write, Piece const& from,
            Remote const& to) const {
    auto* const builder = soft_device().qp_to_qp_ex(pair_);
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
  int change(ibv_wr_opcode opcode, std::uint64_t id, Piece const& into, Remote const& to,
             std::uint64_t compare_or_add, std::uint64_t swap) const {
    ibv_sge list{reinterpret_cast<std::uint64_t>(into.at), into.length, into.key};
    ibv_send_wr work{};
    work.wr_id = id;
    work.sg_list = &list;
    work.num_sge = 1;
    work.opcode = opcode;
    work.wr.atomic = {to.address, compare_or_add, swap, to.key};
    ibv_send_wr* bad = nullptr;
    return ::ibv_post_send(pair_, &work, &bad);
  }
  int post(ibv_wr_opcode opcode, std::uint64_t id, Piece const& piece, Remote const& remote) const {
    ibv_sge list{reinterpret_cast<std::uint64_t>(piece.at), piece.length, piece.key};
    ibv_send_wr work{};
    work.wr_id = id;
    work.sg_list = &list;
    work.num_sge = 1;
    work.opcode = opcode;
    work.wr.rdma.remote_addr = remote.address;
    work.wr.rdma.rkey = remote.key;
    ibv_send_wr* bad = nullptr;
    return ::ibv_post_send(pair_, &work, &bad);
  }

  ibv_qp* pair_ = nullptr;
};

/// A datagram queue pair that can send at once. Its sends are all signalled.
class RawDatagrams {
 public:
  RawDatagrams(RawDevice const& device, RawQueue const& queue, std::uint32_t depth,
               ibv_srq* pool = nullptr) {
    ibv_qp_init_attr_ex asked{};
    asked.send_cq = asked.recv_cq = queue.get();
    asked.qp_type = IBV_QPT_UD;
    asked.sq_sig_all = 1;
    asked.srq = pool;
    asked.cap = {depth, depth, 1, 1, 0};
    asked.pd = device.domain();
    asked.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    asked.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
    pair_ = soft_device().create_qp_ex(device.context(), &asked);
    REQUIRE(pair_ != nullptr);
    ibv_ah_attr here{};
    here.port_num = 1;
    here.dlid = 1;
    address_ = soft_device().create_ah(device.domain(), &here);
    REQUIRE(address_ != nullptr);
    REQUIRE(start() == 0);
  }
  RawDatagrams(RawDatagrams const&) = delete;
  RawDatagrams& operator=(RawDatagrams const&) = delete;
  ~RawDatagrams() {
    CHECK(soft_device().destroy_ah(address_) == 0);
    CHECK(soft_device().destroy_qp(pair_) == 0);
  }
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
    return post_receive(::ibv_post_recv, pair_, id, into);
  }
  /// A datagram with an immediate and one without, call by call: both are posted or none.
  int build(std::uint64_t first_id, std::uint64_t second_id, Piece const& from,
            std::uint32_t number) const {
    auto* const builder = soft_device().qp_to_qp_ex(pair_);
    ::ibv_wr_start(builder);
    builder->wr_flags = IBV_SEND_SIGNALED;
    auto const address_it = [&] {
      // The key of the queue pair, which is 0. Source: ibv_modify_qp(3), qkey; C10-15.
      ::ibv_wr_set_ud_addr(builder, address_, number, 1u << 31);
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
    ibv_sge list{reinterpret_cast<std::uint64_t>(from.at), from.length, from.key};
    ibv_send_wr work{};
    work.wr_id = id;
    work.sg_list = &list;
    work.num_sge = 1;
    work.opcode = IBV_WR_SEND;
    work.wr.ud = {address_, number, 0};
    ibv_send_wr* bad = nullptr;
    return ::ibv_post_send(pair_, &work, &bad);
  }

 private:
  int move(ibv_qp_state state, int mask) const {
    ibv_qp_attr to{};
    to.port_num = 1;
    to.qp_state = state;
    return soft_device().modify_qp(pair_, &to, mask);
  }

  ibv_qp* pair_ = nullptr;
  ibv_ah* address_ = nullptr;
};

}  // namespace lend::test
