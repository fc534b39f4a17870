// SPDX-License-Identifier: MIT OR Apache-2.0
// Raw verbs on the soft device for tests: objects that end themselves, connected pairs of queue
// pairs, and work requests in one line. One thread per object.
#pragma once

#include "support/catch.hpp"

#include <soft/device/provider.hpp>

#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lend::test {

[[nodiscard]] inline verbs::Provider const& ibv() noexcept {
  return soft::provider();
}

/// An object that its verb destroys; that this succeeds is part of every test.
template <class T, int (*verbs::Provider::*destroy)(T*)>
struct Destroy {
  void operator()(T* made) const { CHECK((ibv().*destroy)(made) == 0); }
};
using HeldContext =
    std::unique_ptr<ibv_context, Destroy<ibv_context, &verbs::Provider::close_device>>;
using HeldDomain = std::unique_ptr<ibv_pd, Destroy<ibv_pd, &verbs::Provider::dealloc_pd>>;
using HeldRegion = std::unique_ptr<ibv_mr, Destroy<ibv_mr, &verbs::Provider::dereg_mr>>;
using HeldQueue = std::unique_ptr<ibv_cq, Destroy<ibv_cq, &verbs::Provider::destroy_cq>>;
using HeldChannel =
    std::unique_ptr<ibv_comp_channel,
                    Destroy<ibv_comp_channel, &verbs::Provider::destroy_comp_channel>>;
using HeldAddress = std::unique_ptr<ibv_ah, Destroy<ibv_ah, &verbs::Provider::destroy_ah>>;
using HeldPool = std::unique_ptr<ibv_srq, Destroy<ibv_srq, &verbs::Provider::destroy_srq>>;
using HeldQueuePair = std::unique_ptr<ibv_qp, Destroy<ibv_qp, &verbs::Provider::destroy_qp>>;

/// Null, with errno, if the device does not open.
inline ibv_context* open_or_null() {
  auto** const list = ibv().get_device_list(nullptr);
  if (list == nullptr) return nullptr;
  auto* const context = ibv().open_device(list[0]);
  ibv().free_device_list(list);
  return context;
}
inline HeldContext open_context() {
  HeldContext context{open_or_null()};
  if (!context) FAIL("open_device: " << ibv().last_reason());
  return context;
}
inline HeldDomain make_domain(ibv_context* context) {
  HeldDomain domain{ibv().alloc_pd(context)};
  REQUIRE(domain);
  return domain;
}
inline HeldAddress make_address(ibv_pd* domain) {
  ibv_ah_attr attributes{};
  attributes.port_num = 1;
  attributes.dlid = 1;
  HeldAddress made{ibv().create_ah(domain, &attributes)};
  REQUIRE(made);
  return made;
}
inline HeldChannel make_channel(ibv_context* context) {
  HeldChannel channel{ibv().create_comp_channel(context)};
  REQUIRE(channel);
  return channel;
}
inline HeldQueue make_queue(ibv_context* context, int entries = 64,
                            ibv_comp_channel* channel = nullptr, void* mark = nullptr) {
  HeldQueue queue{ibv().create_cq(context, entries, mark, channel, 0)};
  REQUIRE(queue);
  return queue;
}

inline constexpr int all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

enum class Where { private_memory, allocated };

/// Registered bytes.
class Memory {
 public:
  explicit Memory(ibv_pd* domain, std::size_t length, int access = all_access,
                  Where where = Where::private_memory)
      : context_{domain->context}, length_{length}, where_{where} {
    bytes_ = where == Where::allocated
                 ? static_cast<std::byte*>(ibv().allocate(context_, length, {}))
                 : static_cast<std::byte*>(std::calloc(length, 1));
    REQUIRE(bytes_ != nullptr);
    region_.reset(ibv().reg_mr(domain, bytes_, length, access));
    REQUIRE(region_);
  }
  Memory(Memory const&) = delete;
  Memory& operator=(Memory const&) = delete;
  ~Memory() {
    region_.reset();
    if (where_ == Where::allocated)
      ibv().release(context_, bytes_, length_);
    else
      std::free(bytes_);
  }

  [[nodiscard]] std::byte* at(std::size_t offset) const noexcept { return bytes_ + offset; }
  [[nodiscard]] std::uint64_t address(std::size_t offset = 0) const noexcept {
    return reinterpret_cast<std::uint64_t>(bytes_ + offset);
  }
  [[nodiscard]] std::uint32_t key() const noexcept { return region_->lkey; }
  [[nodiscard]] ibv_sge piece(std::size_t offset, std::size_t length) const noexcept {
    return {address(offset), static_cast<std::uint32_t>(length), key()};
  }
  void write(std::size_t offset, std::string const& text) const {
    std::memcpy(at(offset), text.data(), text.size());
  }
  [[nodiscard]] std::string read(std::size_t offset, std::size_t length) const {
    return {reinterpret_cast<char const*>(at(offset)), length};
  }
  [[nodiscard]] ibv_mr* region() const noexcept { return region_.get(); }
  void deregister() { region_.reset(); }

 private:
  ibv_context* context_;
  std::size_t length_;
  Where where_;
  std::byte* bytes_;
  HeldRegion region_;
};

/// What one end asks of its connection. Silence is over after 8 us, a receive that is not posted at
/// once: tests that wait say so.
struct Terms {
  unsigned access = all_access;
  std::uint32_t send_psn = 7;
  std::uint32_t receive_psn = 7;
  std::uint8_t timeout = 1;
  std::uint8_t retries = 0;
  std::uint8_t rnr_retries = 0;
  std::uint8_t rnr_timer = 1;
  std::uint8_t reads_out = 4;
  std::uint8_t reads_in = 4;
};

inline constexpr int init_mask =
    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
inline constexpr int rtr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
inline constexpr int rts_mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

/// Every attribute that any transition reads, valid.
inline ibv_qp_attr attributes_for(std::uint32_t peer, Terms const& terms = {}) {
  ibv_qp_attr attributes{};
  attributes.port_num = 1;
  attributes.qp_access_flags = terms.access;
  attributes.ah_attr.dlid = 1;
  attributes.ah_attr.port_num = 1;
  attributes.path_mtu = IBV_MTU_4096;
  attributes.dest_qp_num = peer;
  attributes.rq_psn = terms.receive_psn;
  attributes.sq_psn = terms.send_psn;
  attributes.max_dest_rd_atomic = terms.reads_in;
  attributes.max_rd_atomic = terms.reads_out;
  attributes.min_rnr_timer = terms.rnr_timer;
  attributes.timeout = terms.timeout;
  attributes.retry_cnt = terms.retries;
  attributes.rnr_retry = terms.rnr_retries;
  return attributes;
}
/// What the transitions of a type need.
struct Needs {
  int init;
  int rtr;
  int rts;
};
inline Needs needs_of(ibv_qp_type type) noexcept {
  if (type == IBV_QPT_RC) return {init_mask, rtr_mask, rts_mask};
  constexpr int uc_rtr =
      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (type == IBV_QPT_UC) return {init_mask, uc_rtr, IBV_QP_STATE | IBV_QP_SQ_PSN};
  return {IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, IBV_QP_STATE,
          IBV_QP_STATE | IBV_QP_SQ_PSN};
}
inline int move(ibv_qp* qp, ibv_qp_state state, ibv_qp_attr attributes, int mask) {
  attributes.qp_state = state;
  return ibv().modify_qp(qp, &attributes, mask);
}
/// RESET to `state`, not SQE, by way of those between.
inline void bring_to(ibv_qp* qp, ibv_qp_state state, std::uint32_t peer, Terms const& terms = {}) {
  auto const attributes = attributes_for(peer, terms);
  auto const needs = needs_of(qp->qp_type);
  if (state == IBV_QPS_RESET) return;
  REQUIRE(move(qp, IBV_QPS_INIT, attributes, needs.init) == 0);
  if (state == IBV_QPS_ERR) REQUIRE(move(qp, state, attributes, IBV_QP_STATE) == 0);
  if (state == IBV_QPS_ERR || state == IBV_QPS_INIT) return;
  REQUIRE(move(qp, IBV_QPS_RTR, attributes, needs.rtr) == 0);
  if (state == IBV_QPS_RTR) return;
  REQUIRE(move(qp, IBV_QPS_RTS, attributes, needs.rts) == 0);
  if (state == IBV_QPS_SQD) REQUIRE(move(qp, state, attributes, IBV_QP_STATE) == 0);
}
inline ibv_qp_attr query(ibv_qp* qp) {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr made{};
  REQUIRE(ibv().query_qp(qp, &attributes, IBV_QP_STATE, &made) == 0);
  return attributes;
}
inline ibv_qp_state state_of(ibv_qp* qp) {
  return query(qp).qp_state;
}

struct Depths {
  std::uint32_t sends = 16;
  std::uint32_t receives = 16;
  std::uint32_t pieces = 4;
  int completions = 64;
  bool signals_all = false;
  ibv_qp_type type = IBV_QPT_RC;
};

inline HeldQueuePair make_queue_pair(ibv_pd* domain, ibv_cq* sends, ibv_cq* receives,
                                     Depths const& depths = {}) {
  ibv_qp_init_attr asked{};
  asked.send_cq = sends;
  asked.recv_cq = receives;
  asked.qp_type = depths.type;
  asked.cap = {depths.sends, depths.receives, depths.pieces, depths.pieces, 64};
  asked.sq_sig_all = depths.signals_all ? 1 : 0;
  HeldQueuePair made{ibv().create_qp(domain, &asked)};
  REQUIRE(made);
  return made;
}

/// One that takes sends by ibv_wr_start() and the like, too.
inline HeldQueuePair make_builder(ibv_pd* domain, ibv_cq* sends, ibv_cq* receives) {
  ibv_qp_init_attr_ex asked{};
  asked.send_cq = sends;
  asked.recv_cq = receives;
  asked.qp_type = IBV_QPT_RC;
  asked.cap = {8, 8, 2, 2, 0};
  asked.pd = domain;
  asked.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  asked.send_ops_flags = IBV_QP_EX_WITH_SEND;
  HeldQueuePair made{::ibv_create_qp_ex(domain->context, &asked)};
  REQUIRE(made);
  return made;
}

/// One queue pair with its own domain and queues. Members are destroyed bottom-up.
struct End {
  explicit End(ibv_context* context, Depths const& depths = {})
      : domain{make_domain(context)},
        sends{make_queue(context, depths.completions)},
        receives{make_queue(context, depths.completions)},
        qp{make_queue_pair(domain.get(), sends.get(), receives.get(), depths)} {}

  HeldDomain domain;
  HeldQueue sends;
  HeldQueue receives;
  HeldQueuePair qp;
};

enum class Reach { one_context, two_contexts };  // loop-back, and as between processes

/// Two ends; connected unless said.
struct Link {
  explicit Link(Reach reach, Depths const& depths = {})
      : first{open_context()},
        second{reach == Reach::two_contexts ? open_context() : nullptr},
        a{first.get(), depths},
        b{second ? second.get() : first.get(), depths} {}
  explicit Link(Reach reach, Terms const& of_a, Terms const& of_b = {}, Depths const& depths = {})
      : Link{reach, depths} {
    connect(of_a, of_b);
  }

  void connect(Terms const& of_a = {}, Terms const& of_b = {}) {
    bring_to(a.qp.get(), IBV_QPS_RTS, b.qp->qp_num, of_a);
    bring_to(b.qp.get(), IBV_QPS_RTS, a.qp->qp_num, of_b);
  }

  HeldContext first;
  HeldContext second;
  End a;
  End b;
};

struct Request {
  ibv_wr_opcode opcode = IBV_WR_SEND;
  std::uint64_t id = 1;
  std::vector<ibv_sge> pieces = {};
  unsigned flags = IBV_SEND_SIGNALED;
  std::uint64_t remote_address = 0;
  std::uint32_t remote_key = 0;
  std::uint32_t immediate = 0;
  std::uint64_t compare_or_add = 0;
  std::uint64_t swap = 0;
  ibv_ah* address = nullptr;  // of a datagram, with these
  std::uint32_t peer = 0;
  std::uint32_t key = 0;
};

/// Names the pieces of `request`.
inline ibv_send_wr work_of(Request& request) {
  ibv_send_wr wr{};
  wr.wr_id = request.id;
  wr.sg_list = request.pieces.data();
  wr.num_sge = static_cast<int>(request.pieces.size());
  wr.opcode = request.opcode;
  wr.send_flags = request.flags;
  wr.imm_data = request.immediate;
  wr.wr.rdma.remote_addr = request.remote_address;
  wr.wr.rdma.rkey = request.remote_key;
  if (request.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
    wr.wr.atomic = {request.remote_address, request.compare_or_add, request.swap,
                    request.remote_key};
  if (request.address != nullptr) wr.wr.ud = {request.address, request.peer, request.key};
  return wr;
}
inline int post(End const& end, Request request) {
  ibv_send_wr wr = work_of(request);
  ibv_send_wr* bad = nullptr;
  auto const error = ibv_post_send(end.qp.get(), &wr, &bad);
  CHECK((error == 0) == (bad == nullptr));
  // The request is the device's business no longer.
  std::fill(request.pieces.begin(), request.pieces.end(), ibv_sge{});
  return error;
}
inline int post_receive(End const& end, std::uint64_t id, std::vector<ibv_sge> pieces = {}) {
  ibv_recv_wr wr{};
  wr.wr_id = id;
  wr.sg_list = pieces.data();
  wr.num_sge = static_cast<int>(pieces.size());
  ibv_recv_wr* bad = nullptr;
  auto const error = ibv_post_recv(end.qp.get(), &wr, &bad);
  CHECK((error == 0) == (bad == nullptr));
  return error;
}

/// What one poll gives.
inline std::vector<ibv_wc> poll(HeldQueue const& queue, int count = 64) {
  std::vector<ibv_wc> ends(static_cast<std::size_t>(count));
  auto const made = ibv_poll_cq(queue.get(), count, ends.data());
  REQUIRE(made >= 0);
  ends.resize(static_cast<std::size_t>(made));
  return ends;
}
/// Polls until `count` completions came, for ten seconds at most; then that no more are there.
inline std::vector<ibv_wc> await(HeldQueue const& queue, std::size_t count) {
  std::vector<ibv_wc> ends;
  auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  while (ends.size() < count && std::chrono::steady_clock::now() < limit) {
    auto const more = poll(queue);
    ends.insert(ends.end(), more.begin(), more.end());
    if (more.empty()) std::this_thread::yield();
  }
  auto const surplus = poll(queue);
  ends.insert(ends.end(), surplus.begin(), surplus.end());
  REQUIRE(ends.size() == count);
  return ends;
}
inline ibv_wc await_one(HeldQueue const& queue) {
  return await(queue, 1).front();
}

}  // namespace lend::test
