// SPDX-License-Identifier: MIT OR Apache-2.0
// The ways of posting sixteen operations at a time; and all ways of an operation. For three files,
// each of which compiles its own: in one, the compiler would inline less than for a program. One
// thread.
#pragma once

#include "price_kinds.hpp"

#include <optional>
#include <type_traits>
#include <vector>

namespace lend::bench {

// ---- sixteen at a time; one step in sixteen does them all ----

/// By verbs: one chain, of whose sends the last is signaled.
template <class On>
struct Chained {
  explicit Chained(LoopBack&) {}
  template <class Operation>
  bool step(LoopBack& end, std::uint64_t id, Operation operation) {
    if (id % together != 0) return true;
    return post(end, operation) &&
           wait(end, std::is_same_v<Operation, ReceiveAlone> ? together : 1);
  }
  bool step(LoopBack& end, std::uint64_t id, SendAndReceive) {
    if (id % together != 0) return true;
    return post(end, ReceiveAlone{}) && post(end, SendAlone{}) && wait(end, together + 1);
  }

 private:
  static bool post(LoopBack& end, ReceiveAlone) {
    ibv_sge elements[together];
    ibv_recv_wr requests[together];
    for (std::size_t i = 0; i < together; ++i) {
      elements[i] = {end.address + 128 + i * message, message, end.local_key};
      requests[i].wr_id = i;
      requests[i].next = i + 1 < together ? &requests[i + 1] : nullptr;
      requests[i].sg_list = &elements[i];
      requests[i].num_sge = 1;
    }
    ibv_recv_wr* refused;
    return ibv_post_recv(end.queue_pair, requests, &refused) == 0;
  }
  template <class Operation>
  static bool post(LoopBack& end, Operation) {
    ibv_sge elements[together];
    ibv_send_wr requests[together];
    for (std::size_t i = 0; i < together; ++i) {
      bool const is_last = i + 1 == together;
      elements[i] = {end.address, message, end.local_key};
      if (is_fetch<Operation>) elements[i].addr += 1024 + i * message;
      requests[i].wr_id = i;
      requests[i].next = is_last ? nullptr : &requests[i + 1];
      requests[i].sg_list = &elements[i];
      requests[i].num_sge = 1;
      requests[i].opcode = Operation::opcode;
      requests[i].send_flags = as_inline<Operation> | (is_last ? unsigned{IBV_SEND_SIGNALED} : 0u);
      fill_remote<Operation>(end, requests[i]);
    }
    ibv_send_wr* refused;
    return ibv_post_send(On::queue_pair(end), requests, &refused) == 0;
  }
  static bool wait(LoopBack& end, std::size_t count) {
    ibv_wc completions[together];
    while (count > 0) {
      int const taken = ibv_poll_cq(On::queue_pair(end)->send_cq, together, completions);
      for (int i = 0; i < taken; ++i)
        if (completions[i].status != IBV_WC_SUCCESS) return false;
      if (taken < 0) return false;
      count -= static_cast<std::size_t>(taken);
    }
    return true;
  }
};

template <class On, class... Tag>
struct BatchedWith {
  explicit BatchedWith(LoopBack& end) : scope{On::channel(end)} {}
  template <class Operation>
  bool step(LoopBack& end, std::uint64_t id, Operation operation) {
    return id % together != 0 || step_together(end, operation);
  }

 private:
  // Out of line, as the posts of Chained are: a step that posts nothing is no call there, either.
  template <class Operation>
  [[gnu::noinline]] bool step_together(LoopBack& end, Operation operation) {
    auto batch = scope.batch();
    auto last = add(batch, end, operation);
    return batch.post().has_value() && is_done(std::move(last));
  }
  [[gnu::noinline]] bool step_together(LoopBack& end, SendAndReceive) {
    auto batch = scope.batch();
    auto received = add(batch, end, ReceiveAlone{});
    auto sent = add(batch, end, SendAlone{});
    return batch.post().has_value() && is_done(std::move(sent)) && is_done(std::move(received));
  }
  /// The handle of the last; the others are dropped, or there is none.
  template <class Operation>
  static Result<PendingWork> add(typename On::AnyBatch& batch, LoopBack& end, Operation) {
    for (std::size_t i = 0; i + 1 < together; ++i) {
      LEND_TRYV(Operation::add(batch, Operation::work(end, i), Tag{}...));
    }
    return Operation::add(batch, Operation::work(end, together - 1));
  }
  typename On::Scope scope;
};
template <class On>
using Batched = BatchedWith<On>;
template <class On>
using Unheld = BatchedWith<On, NoHandle>;

/// Each channel has a Kind of its own.
template <template <class> class Kind, class Operation>
bool repeat(std::span<LoopBack> ends, std::uint64_t count) {
  std::vector<std::optional<Kind<typename Operation::On>>> kinds(ends.size());
  for (std::size_t at = 0; at < ends.size(); ++at) kinds[at].emplace(ends[at]);
  for (std::uint64_t i = 0; i < count; ++i)
    for (std::size_t at = 0; at < ends.size(); ++at)
      if (!kinds[at]->step(ends[at], i, Operation{})) return false;
  return true;
}

// In a file of its own, too, for the same reason.
extern template bool repeat<Unheld, SendAlone>(std::span<LoopBack>, std::uint64_t);
extern template bool repeat<Unheld, ReceiveAlone>(std::span<LoopBack>, std::uint64_t);
extern template bool repeat<Unheld, WriteAlone>(std::span<LoopBack>, std::uint64_t);
extern template bool repeat<Unheld, ReadAlone>(std::span<LoopBack>, std::uint64_t);
extern template bool repeat<Unheld, AtomicAlone>(std::span<LoopBack>, std::uint64_t);
extern template bool repeat<Unheld, SendAndReceive>(std::span<LoopBack>, std::uint64_t);

template <class Operation>
constexpr Way unsafe_way() {
  if constexpr (requires { typename Operation::To; })
    return nullptr;
  else
    return &repeat<Unsafe, Operation>;
}

template <class Operation>
constexpr Way unheld_way() {
  if constexpr (std::is_same_v<typename Operation::On, Reliable>)
    return &repeat<Unheld, Operation>;
  else
    return nullptr;
}

template <class Operation>
constexpr Row row(std::string_view name) {
  return {name,
          {&repeat<Raw, Operation>, &repeat<ById, Operation>, unsafe_way<Operation>(),
           &repeat<Scoped, Operation>, &repeat<Blocking, Operation>, &repeat<Rounds, Operation>,
           &repeat<Chained, Operation>, &repeat<Batched, Operation>, unheld_way<Operation>()}};
}

}  // namespace lend::bench
