// SPDX-License-Identifier: MIT OR Apache-2.0
// The ways of posting one operation at a time, of any service. One thread.
#pragma once

#include "price_operations.hpp"

#include <cstddef>
#include <type_traits>

namespace lend::bench {

/// Whether it brings bytes here.
template <class Operation>
constexpr bool is_fetch =
    Operation::opcode == IBV_WR_RDMA_READ || Operation::opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
/// As lend sends what is so short: the device grants it to both.
template <class Operation>
constexpr unsigned as_inline = is_fetch<Operation> ? 0u : unsigned{IBV_SEND_INLINE};

template <class Operation>
void fill_remote(LoopBack const& end, ibv_send_wr& request) {
  auto const address = end.remote.address() + 64;
  if constexpr (Operation::opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
    request.wr.atomic = {address, 1, 0, end.remote.key()};
  else if constexpr (Operation::opcode != IBV_WR_SEND)
    request.wr.rdma = {address, end.remote.key()};
  else if constexpr (requires { typename Operation::To; })
    request.wr.ud = {end.itself.native(), end.itself.number().value(),
                     end.datagrams.address().queue_key};
}

// As a program has it in the function that posts.
[[gnu::always_inline]] inline bool is_done(Result<PendingWork>&& posted) {
  return posted.has_value() && posted.assume_value().wait().has_value();
}

// ---- each way: one step ----

template <class On = Reliable>
bool raw_wait(LoopBack& end, std::uint64_t id) {
  ibv_wc completion;
  int taken = 0;
  while (taken == 0) taken = ibv_poll_cq(On::queue_pair(end)->send_cq, 1, &completion);
  return taken == 1 && completion.status == IBV_WC_SUCCESS && completion.wr_id == id;
}

inline bool raw_post(LoopBack& end, std::uint64_t id, ReceiveAlone) {
  ibv_sge element{end.address + 128, message, end.local_key};
  ibv_recv_wr request;
  request.wr_id = id;
  request.next = nullptr;
  request.sg_list = &element;
  request.num_sge = 1;
  ibv_recv_wr* refused;
  return ibv_post_recv(end.queue_pair, &request, &refused) == 0;
}

template <class Operation>
bool raw_post(LoopBack& end, std::uint64_t id, Operation) {
  ibv_sge element{end.address, message, end.local_key};
  if (is_fetch<Operation>) element.addr += 1024;
  ibv_send_wr request;
  request.wr_id = id;
  request.next = nullptr;
  request.sg_list = &element;
  request.num_sge = 1;
  request.opcode = Operation::opcode;
  request.send_flags = IBV_SEND_SIGNALED | as_inline<Operation>;
  fill_remote<Operation>(end, request);
  ibv_send_wr* refused;
  return ibv_post_send(Operation::On::queue_pair(end), &request, &refused) == 0;
}

template <class On>
struct Raw {
  explicit Raw(LoopBack&) {}
  template <class Operation>
  bool step(LoopBack& end, std::uint64_t id, Operation operation) {
    return raw_post(end, id, operation) && raw_wait<On>(end, id);
  }
  bool step(LoopBack& end, std::uint64_t id, SendAndReceive) {
    return raw_post(end, id, ReceiveAlone{}) && raw_post(end, ~id, SendAlone{}) &&
           raw_wait(end, ~id) && raw_wait(end, id);
  }
};

/// A queue pair and its queue, without a channel.
template <class On>
struct ById {
  explicit ById(LoopBack&) {}
  template <class Operation>
  bool step(LoopBack& end, std::uint64_t id, Operation) {
    return Operation::post_by_id(On::by_id(end), id, Operation::work(end)).has_value() &&
           wait(end, id);
  }
  bool step(LoopBack& end, std::uint64_t id, SendAndReceive) {
    return ReceiveAlone::post_by_id(end.by_id, id, ReceiveAlone::work(end)).has_value() &&
           step(end, ~id, SendAlone{}) && wait(end, id);
  }

 private:
  static bool wait(LoopBack& end, std::uint64_t id) {
    Completion one[1];
    for (;;) {
      auto const taken = end.completions.poll(one);
      if (!taken.has_value()) return false;
      if (!taken.assume_value().empty()) return one[0].id == id && one[0].success() != nullptr;
    }
  }
};

template <class On>
struct Unsafe {
  explicit Unsafe(LoopBack&) {}
  template <class Operation>
  bool step(LoopBack& end, std::uint64_t, Operation) {
    return is_done(Operation::post_unsafe(On::channel(end), Operation::work(end)));
  }
  bool step(LoopBack& end, std::uint64_t, SendAndReceive) {
    auto receive = unsafe_post_receive(end.channel, ReceiveAlone::work(end));
    return step(end, 0, SendAlone{}) && is_done(std::move(receive));
  }
};

template <class On>
struct Scoped {
  explicit Scoped(LoopBack& end) : scope{On::channel(end)} {}
  template <class Operation>
  bool step(LoopBack& end, std::uint64_t, Operation) {
    return is_done(Operation::post(scope, Operation::work(end)));
  }
  bool step(LoopBack& end, std::uint64_t, SendAndReceive) {
    auto receive = scope.post_receive(ReceiveAlone::work(end));
    return step(end, 0, SendAlone{}) && is_done(std::move(receive));
  }
  typename On::Scope scope;
};

template <class On>
struct Blocking {
  explicit Blocking(LoopBack&) {}
  template <class Operation>
  bool step(LoopBack& end, std::uint64_t, Operation) {
    return Operation::run(On::channel(end), Operation::work(end));
  }
  // Both cannot block on one thread: the receive is posted ahead.
  bool step(LoopBack& end, std::uint64_t, SendAndReceive) {
    auto receive = unsafe_post_receive(end.channel, ReceiveAlone::work(end));
    return step(end, 0, SendAlone{}) && is_done(std::move(receive));
  }
};

/// A scope for each operation, whose handle nobody asks.
template <class On>
struct Rounds {
  explicit Rounds(LoopBack&) {}
  template <class Operation>
  bool step(LoopBack& end, std::uint64_t, Operation) {
    typename On::Scope scope{On::channel(end)};
    auto const handle = Operation::post(scope, Operation::work(end));
    return handle.has_value() && scope.finish().has_value();
  }
  bool step(LoopBack& end, std::uint64_t, SendAndReceive) {
    PollingScope scope{end.channel};
    auto const receive = scope.post_receive(ReceiveAlone::work(end));
    auto const send = scope.post_send(SendAlone::work(end));
    return receive.has_value() && send.has_value() && scope.finish().has_value();
  }
};

}  // namespace lend::bench
