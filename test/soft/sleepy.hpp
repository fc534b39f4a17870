// SPDX-License-Identifier: MIT OR Apache-2.0
// Ends that sleep on a channel, and its events. One thread at a time.
#pragma once

#include "support.hpp"

#include <poll.h>

#include <utility>

namespace lend::test {

inline constexpr int patience = 10'000;  // ms; reached only by a lost wake-up

inline bool is_readable(HeldChannel const& channel, int milliseconds = 0) {
  pollfd wait{channel->fd, POLLIN, 0};
  return ::poll(&wait, 1, milliseconds) == 1;
}

/// The queue of the next event, acknowledged.
inline ibv_cq* take_event(HeldChannel const& channel) {
  REQUIRE(is_readable(channel, patience));
  ibv_cq* queue = nullptr;
  void* mark = nullptr;
  REQUIRE(ibv().get_cq_event(channel.get(), &queue, &mark) == 0);
  CHECK(mark == queue->cq_context);
  ibv().ack_cq_events(queue, 1);
  return queue;
}
/// Arms, and that nothing is there yet.
inline void arm(HeldQueue const& queue, bool solicited_only = false) {
  REQUIRE(ibv_req_notify_cq(queue.get(), solicited_only ? 1 : 0) == 0);
}

/// An end whose two queues share a channel.
struct SleepyEnd : End {
  explicit SleepyEnd(ibv_context* context) : SleepyEnd{context, make_channel(context)} {}
  SleepyEnd(ibv_context* context, HeldChannel made) : End{context}, channel{std::move(made)} {
    qp.reset();
    sends = make_queue(context, 64, channel.get(), &sends);
    receives = make_queue(context, 64, channel.get(), &receives);
    qp = make_queue_pair(domain.get(), sends.get(), receives.get());
  }
  // Its queues go first.
  ~SleepyEnd() {
    qp.reset();
    sends.reset();
    receives.reset();
  }
  HeldChannel channel;
};

struct SleepyLink {
  explicit SleepyLink(Terms const& terms = {}) {
    bring_to(a.qp.get(), IBV_QPS_RTS, b.qp->qp_num, terms);
    bring_to(b.qp.get(), IBV_QPS_RTS, a.qp->qp_num, terms);
  }
  HeldContext first{open_context()};
  HeldContext second{open_context()};
  SleepyEnd a{first.get()};
  SleepyEnd b{second.get()};
  Memory from{a.domain.get(), 4096};
  Memory to{b.domain.get(), 4096};
};

}  // namespace lend::test
