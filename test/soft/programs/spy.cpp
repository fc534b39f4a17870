// SPDX-License-Identifier: MIT OR Apache-2.0
// The soft device with its calls written down. One at a time, one thread.
#include "soft/programs/spy.hpp"

#include <endian.h>
#include <channel/state/pool_state.hpp>
#include <soft/device/provider.hpp>
#include <verbs/device/device_list.hpp>

#include <algorithm>
#include <cerrno>

#include "support/catch.hpp"
#include "support/two_ends.hpp"

namespace lend::test {

namespace {

Spy* active = nullptr;
ibv_context_ops device{};  // the soft device's own

verbs::Provider& table() {
  static verbs::Provider provider = soft::provider();
  return provider;
}

}  // namespace

/// The calls that are watched: what they did, then what it means.
struct SpyCalls {
  static Accepted described(ibv_send_wr const& request) {
    Accepted work;
    work.device_writes = request.opcode == IBV_WR_RDMA_READ ||
                         request.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
                         request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    work.is_fenced = (request.send_flags & IBV_SEND_FENCE) != 0;
    work.is_solicited = (request.send_flags & IBV_SEND_SOLICITED) != 0;
    work.is_silent = (request.send_flags & IBV_SEND_SIGNALED) == 0;
    work.is_copied = (request.send_flags & IBV_SEND_INLINE) != 0;
    return work;
  }
  static Accepted described(ibv_recv_wr const&) {
    Accepted work;
    work.is_receive = work.device_writes = true;
    return work;
  }

  /// All of a chain that was accepted.
  template <class Request>
  static void note(std::vector<Accepted>& works, std::uint32_t queue_pair, Request const* request,
                   Request const* end) {
    for (; request != end; request = request->next) {
      Accepted work = described(*request);
      work.id = request->wr_id;
      work.queue_pair = queue_pair;
      for (int i = 0; i < request->num_sge; ++i)
        work.pieces.push_back(
            {request->sg_list[i].addr, request->sg_list[i].length, request->sg_list[i].lkey});
      active->check_apart(work);
      works.push_back(std::move(work));
    }
  }

  static int post_send(ibv_qp* pair, ibv_send_wr* request, ibv_send_wr** refused) {
    std::vector<std::optional<Sent>> messages;
    for (auto const* one = request; one != nullptr; one = one->next)
      messages.push_back(active->wire_.describe(*pair, *one));
    auto at = active->works_.size();
    int const result = device.post_send(pair, request, refused);
    note(active->works_, pair->qp_num, request, result == 0 ? nullptr : *refused);
    auto const* one = request;
    for (auto& message : messages) {
      if (at == active->works_.size()) break;
      if (one->opcode == IBV_WR_LOCAL_INV) active->invalidated_.insert(one->invalidate_rkey);
      if (pair->qp_type == IBV_QPT_UD) active->works_[at].way = one->wr.ud.ah;
      one = one->next;
      if (message) message->work = at;
      ++at;
      if (message) active->wire_.note_sent(std::move(*message));
    }
    return result;
  }

  static int post_receive(ibv_qp* pair, ibv_recv_wr* request, ibv_recv_wr** refused) {
    auto at = active->works_.size();
    int const result = device.post_recv(pair, request, refused);
    note(active->works_, pair->qp_num, request, result == 0 ? nullptr : *refused);
    for (; at < active->works_.size(); ++at) active->wire_.note_receive(pair->qp_num, at);
    return result;
  }

  static int post_shared(ibv_srq* queue, ibv_recv_wr* request, ibv_recv_wr** refused) {
    int const result = device.post_srq_recv(queue, request, refused);
    auto before = active->pooled_.size();
    note(active->pooled_, 0, request, result == 0 ? nullptr : *refused);
    for (; before < active->pooled_.size(); ++before)
      active->pool_events_.push_back({before, true});
    return result;
  }

  /// A send queue completes in order: what is ahead of `work` and silent has succeeded.
  static void end_before(Accepted& work) {
    if (work.is_receive) return;
    for (auto& other : active->works_) {
      if (&other == &work) return;
      if (other.queue_pair == work.queue_pair && other.is_silent && other.is_in_progress()) {
        other.state = Accepted::State::completed;
        other.seen_at = ++active->seen_;
        active->complain_if(active->wire_.note_left(active->index_of(other)));
      }
    }
  }

  static int poll(ibv_cq* queue, int count, ibv_wc* entries) {
    Spy& spy = *active;
    bool const fails = spy.polls_to_fail > 0;
    if (fails) --spy.polls_to_fail;
    int const got = fails ? -EIO : device.poll_cq(queue, count, entries);
    if (got < 0) {
      ++spy.polls_failed;
      spy.failed_[queue] = true;
    }
    for (int i = 0; i < got; ++i) {
      Accepted* const work = channel::is_pooled(entries[i].wr_id)
                                 ? spy.find_pooled(entries[i].qp_num, entries[i].wr_id)
                                 : spy.find(entries[i].qp_num, entries[i].wr_id);
      if (work == nullptr) {
        spy.complain("a completion of work that nobody posted, or a second one");
        continue;
      }
      end_before(*work);
      work->state = Accepted::State::completed;
      work->status = entries[i].status;
      work->seen_at = ++spy.seen_;
      if (entries[i].status != IBV_WC_SUCCESS) continue;
      bool const is_pooled = channel::is_pooled(entries[i].wr_id);
      auto const place = is_pooled ? std::nullopt : std::optional{spy.index_of(*work)};
      spy.complain_if(work->is_receive ? spy.wire_.note_received(*work, place, entries[i])
                                       : spy.wire_.note_left(*place));
      bool const by_write = entries[i].opcode == IBV_WC_RECV_RDMA_WITH_IMM;
      if (work->is_receive && !(is_pooled && by_write)) work->bytes_received = entries[i].byte_len;
      if ((entries[i].wc_flags & IBV_WC_WITH_IMM) != 0)
        work->immediate = be32toh(entries[i].imm_data);
    }
    if (got >= 0 && got < count) spy.complain_if(spy.wire_.note_drained(queue));
    return got;
  }

  static ibv_qp* create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) {
    ibv_qp* const pair = soft::provider().create_qp(domain, attributes);
    if (pair != nullptr) {
      ++active->queue_pairs;
      active->queues_[pair->qp_num] = attributes->send_cq;
      active->failed_.erase(attributes->send_cq);
      active->wire_.note_made(*pair);
      active->destroyed_.erase(pair->qp_num);
    }
    return pair;
  }

  static int modify_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask) {
    if (active->flushes_fail && (mask & IBV_QP_STATE) != 0 && attributes->qp_state == IBV_QPS_ERR) {
      ++active->flushes_refused;
      return EIO;
    }
    int const result = soft::provider().modify_qp(pair, attributes, mask);
    if (result == 0) active->wire_.note_moved(pair->qp_num, *attributes, mask);
    return result;
  }

  static int destroy_qp(ibv_qp* pair) {
    Spy& spy = *active;
    bool const had_to = spy.failed_.contains(spy.queues_[pair->qp_num]) || spy.flushes_refused > 0;
    auto const seen = ++spy.seen_;
    for (auto& work : spy.works_) {
      if (work.queue_pair != pair->qp_num || !work.is_in_progress()) continue;
      work.state = Accepted::State::destroyed;
      work.status = IBV_WC_WR_FLUSH_ERR;
      work.seen_at = seen;
      if (!had_to)
        spy.complain("a queue pair was destroyed with work in progress that a flush would end");
    }
    spy.wire_.note_gone(pair->qp_num);
    spy.destroyed_.insert(pair->qp_num);
    --spy.queue_pairs;
    return soft::provider().destroy_qp(pair);
  }

  static int destroy_srq(ibv_srq* queue) {
    auto const seen = ++active->seen_;
    for (auto& work : active->pooled_) {
      if (!work.is_in_progress()) continue;
      work.state = Accepted::State::destroyed;
      work.seen_at = seen;
    }
    return soft::provider().destroy_srq(queue);
  }

  static int destroy_address(ibv_ah* way) {
    for (auto const& work : active->works_)
      if (work.way == way && work.is_in_progress())
        active->complain("an address handle ended while a datagram needs it");
    return soft::provider().destroy_ah(way);
  }

  static int get_async_event(ibv_context* context, ibv_async_event* event) {
    int const result = soft::provider().get_async_event(context, event);
    if (result != 0) return result;
    SeenEvent seen{.type = event->event_type};
    switch (seen.type) {
      case IBV_EVENT_QP_ACCESS_ERR:
      case IBV_EVENT_QP_REQ_ERR:
        active->reported_.insert(event->element.qp->qp_num);
        [[fallthrough]];
      case IBV_EVENT_QP_FATAL:
      case IBV_EVENT_QP_LAST_WQE_REACHED:
      case IBV_EVENT_COMM_EST:
      case IBV_EVENT_SQ_DRAINED:
        seen.queue_pair = event->element.qp->qp_num;
        seen.object = event->element.qp;
        break;
      case IBV_EVENT_PORT_ACTIVE:
      case IBV_EVENT_PORT_ERR:
        seen.port = static_cast<std::uint32_t>(event->element.port_num);
        break;
      case IBV_EVENT_DEVICE_FATAL: break;
      default: seen.object = event->element.cq;  // or another: one place for all
    }
    active->events_.push_back(seen);
    return result;
  }

  static ibv_mr* register_region(ibv_pd* domain, void* address, std::size_t length, int access) {
    ibv_mr* const region = soft::provider().reg_mr(domain, address, length, access);
    if (region != nullptr) ++active->regions;
    return region;
  }

  static int deregister(ibv_mr* region) {
    for (auto const* works : {&active->works_, &active->pooled_})
      for (auto const& work : *works)
        for (auto const& piece : work.pieces)
          if (work.is_in_progress() && !work.is_copied && piece.key == region->lkey)
            active->complain("memory ended while the device might touch it");
    int const result = soft::provider().dereg_mr(region);
    if (result == 0) --active->regions;
    return result;
  }
};

Spy::Spy() {
  active = this;
  verbs::Provider& provider = table();
  provider.create_qp = SpyCalls::create_qp;
  provider.modify_qp = SpyCalls::modify_qp;
  provider.destroy_qp = SpyCalls::destroy_qp;
  provider.destroy_srq = SpyCalls::destroy_srq;
  provider.destroy_ah = SpyCalls::destroy_address;
  provider.get_async_event = SpyCalls::get_async_event;
  provider.reg_mr = SpyCalls::register_region;
  provider.dereg_mr = SpyCalls::deregister;
}

Spy::~Spy() {
  active = nullptr;
}

Context Spy::open() {
  Context context = must(must(verbs::devices_of(table())).front().open());
  ibv_context& raw = *context.native();
  device = raw.ops;
  raw.ops.post_send = SpyCalls::post_send;
  raw.ops.post_recv = SpyCalls::post_receive;
  raw.ops.post_srq_recv = SpyCalls::post_shared;
  raw.ops.poll_cq = SpyCalls::poll;
  return context;
}

void Spy::begin(bool is_exact) {
  wire_.begin(is_exact);
  works_.clear();
  pooled_.clear();
  pool_events_.clear();
  queues_.clear();
  failed_.clear();
  reported_.clear();
  destroyed_.clear();
  invalidated_.clear();
  events_.clear();
  violation_.clear();
  polls_to_fail = 0;
  flushes_fail = false;
  polls_failed = flushes_refused = 0;
  seen_ = 0;
}

void Spy::complain(std::string text) {
  if (violation_.empty()) violation_ = std::move(text);
}

void Spy::complain_if(std::string text) {
  if (!text.empty()) complain(std::move(text));
}

void Spy::check_apart(Accepted const& work) {
  auto const meets = [&](Accepted const& other) {
    return other.is_in_progress() && !other.is_copied &&
           (work.device_writes || other.device_writes) &&
           std::ranges::any_of(work.pieces, [&](Piece const& piece) {
             return std::ranges::any_of(other.pieces,
                                        [&](Piece const& its) { return piece.overlaps(its); });
           });
  };
  if (std::ranges::any_of(works_, meets) || std::ranges::any_of(pooled_, meets))
    complain("work was posted to bytes that other work has");
}

Accepted* Spy::find(std::uint32_t queue_pair, std::uint64_t id) noexcept {
  for (auto& work : works_)
    if (work.id == id && work.queue_pair == queue_pair && work.is_in_progress()) return &work;
  return nullptr;
}

Accepted* Spy::find_pooled(std::uint32_t queue_pair, std::uint64_t id) noexcept {
  for (std::size_t i = 0; i < pooled_.size(); ++i) {
    if (pooled_[i].id != id || !pooled_[i].is_in_progress()) continue;
    pooled_[i].queue_pair = queue_pair;
    pool_events_.push_back({i, false});
    return &pooled_[i];
  }
  return nullptr;
}

}  // namespace lend::test
