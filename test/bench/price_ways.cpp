// SPDX-License-Identifier: MIT OR Apache-2.0
// The same operation by each layer, so that only the layer differs. One thread.
#include "price_ways.hpp"

#include <lend/channel/unsafe.hpp>
#include <verbs/region_state.hpp>

#include <optional>
#include <type_traits>
#include <vector>

namespace lend::bench {

Result<LoopBack> loop_back(ProtectionDomain const& domain, ChannelOptions const& options) {
  LEND_TRY(memory, domain.unsafe_allocate_exposed(4096, RemoteAccess::all));
  LEND_TRY(remote, memory.remote());
  LEND_TRY(prepared, prepare_channel(domain, options));
  auto const itself = prepared.endpoint();
  LEND_TRY(queue_pair, prepared.take_queue_pair().connect(itself));
  ibv_qp* const raw = queue_pair.native();
  LEND_TRY(channel, std::move(prepared).adopt(std::move(queue_pair)));
  verbs::RegionState const& state = *memory.gather().region;
  auto const address = reinterpret_cast<std::uint64_t>(state.address);
  auto const key = state.local_key;
  LEND_TRY(completions,
           CompletionQueue::create(domain.context(), 2 * QueuePairOptions{}.send_depth));
  LEND_TRY(bare, PreparedQueuePair::create(domain, completions, QueuePairOptions{}));
  auto const bare_itself = bare.endpoint();
  LEND_TRY(by_id, std::move(bare).connect(bare_itself));
  return LoopBack{std::move(memory), std::move(channel),     remote,          raw, key,
                  address,           std::move(completions), std::move(by_id)};
}

namespace {

constexpr std::size_t message = 8;  // bytes, at 0; the peer's at 64, received at 128

struct SendAlone {
  static constexpr ibv_wr_opcode opcode = IBV_WR_SEND;
  static Send work(LoopBack& end, std::size_t = 0) { return {end.memory.gather(0, message)}; }
  static auto post_by_id(QueuePair& to, std::uint64_t id, Send const& work) {
    return to.unsafe_post_send(id, work);
  }
  static auto post_unsafe(Channel& to, Send const& work) { return unsafe_post_send(to, work); }
  static auto post(PollingScope& to, Send const& work) { return to.post_send(work); }
  static auto add(Batch& to, Send const& work) { return to.add_send(work); }
  static bool run(Channel& on, Send const& work) { return on.send(work).has_value(); }
};
struct WriteAlone {
  static constexpr ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
  static Write work(LoopBack& end, std::size_t = 0) {
    return {end.memory.gather(0, message), end.remote.slice(64, message)};
  }
  static auto post_by_id(QueuePair& to, std::uint64_t id, Write const& work) {
    return to.unsafe_post_write(id, work);
  }
  static auto post_unsafe(Channel& to, Write const& work) { return unsafe_post_write(to, work); }
  static auto post(PollingScope& to, Write const& work) { return to.post_write(work); }
  static auto add(Batch& to, Write const& work) { return to.add_write(work); }
  static bool run(Channel& on, Write const& work) { return on.write(work).has_value(); }
};
struct ReadAlone {
  static constexpr ibv_wr_opcode opcode = IBV_WR_RDMA_READ;
  static Read work(LoopBack& end, std::size_t lane = 0) {
    return {end.memory.scatter(1024 + lane * message, message), end.remote.slice(64, message)};
  }
  static auto post_by_id(QueuePair& to, std::uint64_t id, Read const& work) {
    return to.unsafe_post_read(id, work);
  }
  static auto post_unsafe(Channel& to, Read const& work) { return unsafe_post_read(to, work); }
  static auto post(PollingScope& to, Read const& work) { return to.post_read(work); }
  static auto add(Batch& to, Read const& work) { return to.add_read(work); }
  static bool run(Channel& on, Read const& work) { return on.read(work).has_value(); }
};
struct AtomicAlone {
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
  static auto add(Batch& to, Atomic const& work) { return to.add_atomic(work); }
  static bool run(Channel& on, Atomic const& work) { return on.atomic(work).has_value(); }
};
struct ReceiveAlone {
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
  static auto add(Batch& to, Receive const& work) { return to.add_receive(work); }
  static bool run(Channel& on, Receive const& work) { return on.receive(work).has_value(); }
};
struct SendAndReceive {};

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
}

// As a program has it in the function that posts.
[[gnu::always_inline]] inline bool is_done(Result<PendingWork>&& posted) {
  return posted.has_value() && posted.assume_value().wait().has_value();
}

// ---- each way: one step ----

bool raw_wait(LoopBack& end, std::uint64_t id) {
  ibv_wc completion;
  int taken = 0;
  while (taken == 0) taken = ibv_poll_cq(end.queue_pair->send_cq, 1, &completion);
  return taken == 1 && completion.status == IBV_WC_SUCCESS && completion.wr_id == id;
}

bool raw_post(LoopBack& end, std::uint64_t id, ReceiveAlone) {
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
  return ibv_post_send(end.queue_pair, &request, &refused) == 0;
}

struct Raw {
  explicit Raw(Channel&) {}
  template <class Operation>
  bool step(LoopBack& end, std::uint64_t id, Operation operation) {
    return raw_post(end, id, operation) && raw_wait(end, id);
  }
  bool step(LoopBack& end, std::uint64_t id, SendAndReceive) {
    return raw_post(end, id, ReceiveAlone{}) && raw_post(end, ~id, SendAlone{}) &&
           raw_wait(end, ~id) && raw_wait(end, id);
  }
};

/// A queue pair and its queue, without a channel.
struct ById {
  explicit ById(Channel&) {}
  template <class Operation>
  bool step(LoopBack& end, std::uint64_t id, Operation) {
    return Operation::post_by_id(end.by_id, id, Operation::work(end)).has_value() && wait(end, id);
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

struct Unsafe {
  explicit Unsafe(Channel&) {}
  template <class Operation>
  bool step(LoopBack& end, std::uint64_t, Operation) {
    return is_done(Operation::post_unsafe(end.channel, Operation::work(end)));
  }
  bool step(LoopBack& end, std::uint64_t, SendAndReceive) {
    auto receive = unsafe_post_receive(end.channel, ReceiveAlone::work(end));
    return step(end, 0, SendAlone{}) && is_done(std::move(receive));
  }
};

struct Scoped {
  explicit Scoped(Channel& channel) : scope{channel} {}
  template <class Operation>
  bool step(LoopBack& end, std::uint64_t, Operation) {
    return is_done(Operation::post(scope, Operation::work(end)));
  }
  bool step(LoopBack& end, std::uint64_t, SendAndReceive) {
    auto receive = scope.post_receive(ReceiveAlone::work(end));
    return step(end, 0, SendAlone{}) && is_done(std::move(receive));
  }
  PollingScope scope;
};

struct Blocking {
  explicit Blocking(Channel&) {}
  template <class Operation>
  bool step(LoopBack& end, std::uint64_t, Operation) {
    return Operation::run(end.channel, Operation::work(end));
  }
  // Both cannot block on one thread: the receive is posted ahead.
  bool step(LoopBack& end, std::uint64_t, SendAndReceive) {
    auto receive = unsafe_post_receive(end.channel, ReceiveAlone::work(end));
    return step(end, 0, SendAlone{}) && is_done(std::move(receive));
  }
};

/// A scope for each operation, whose handle nobody asks.
struct Rounds {
  explicit Rounds(Channel&) {}
  template <class Operation>
  bool step(LoopBack& end, std::uint64_t, Operation) {
    PollingScope scope{end.channel};
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

// ---- sixteen at a time; one step in sixteen does them all ----

/// By verbs: one chain, of whose sends the last is signaled.
struct Chained {
  explicit Chained(Channel&) {}
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
    return ibv_post_send(end.queue_pair, requests, &refused) == 0;
  }
  static bool wait(LoopBack& end, std::size_t count) {
    ibv_wc completions[together];
    while (count > 0) {
      int const taken = ibv_poll_cq(end.queue_pair->send_cq, together, completions);
      for (int i = 0; i < taken; ++i)
        if (completions[i].status != IBV_WC_SUCCESS) return false;
      if (taken < 0) return false;
      count -= static_cast<std::size_t>(taken);
    }
    return true;
  }
};

struct Batched {
  explicit Batched(Channel& channel) : scope{channel} {}
  template <class Operation>
  bool step(LoopBack& end, std::uint64_t id, Operation operation) {
    if (id % together != 0) return true;
    auto batch = scope.batch();
    auto last = add(batch, end, operation);
    return batch.post().has_value() && is_done(std::move(last));
  }
  bool step(LoopBack& end, std::uint64_t id, SendAndReceive) {
    if (id % together != 0) return true;
    auto batch = scope.batch();
    auto received = add(batch, end, ReceiveAlone{});
    auto sent = add(batch, end, SendAlone{});
    return batch.post().has_value() && is_done(std::move(sent)) && is_done(std::move(received));
  }

 private:
  /// The handle of the last; the others are dropped.
  template <class Operation>
  static Result<PendingWork> add(Batch& batch, LoopBack& end, Operation) {
    for (std::size_t i = 0; i + 1 < together; ++i) {
      LEND_TRYV(Operation::add(batch, Operation::work(end, i)));
    }
    return Operation::add(batch, Operation::work(end, together - 1));
  }
  PollingScope scope;
};

/// Each channel has a Kind of its own.
template <class Kind, class Operation>
bool repeat(std::span<LoopBack> ends, std::uint64_t count) {
  std::vector<std::optional<Kind>> kinds(ends.size());
  for (std::size_t at = 0; at < ends.size(); ++at) kinds[at].emplace(ends[at].channel);
  for (std::uint64_t i = 0; i < count; ++i)
    for (std::size_t at = 0; at < ends.size(); ++at)
      if (!kinds[at]->step(ends[at], i, Operation{})) return false;
  return true;
}

template <class Operation>
constexpr Row row(std::string_view name) {
  return {name,
          {&repeat<Raw, Operation>, &repeat<ById, Operation>, &repeat<Unsafe, Operation>,
           &repeat<Scoped, Operation>, &repeat<Blocking, Operation>, &repeat<Rounds, Operation>,
           &repeat<Chained, Operation>, &repeat<Batched, Operation>}};
}

constexpr std::array alone{row<SendAlone>("send"), row<ReceiveAlone>("receive"),
                           row<WriteAlone>("write"), row<ReadAlone>("read"),
                           row<AtomicAlone>("atomic")};
constexpr std::array looped{row<SendAndReceive>("send + receive"), row<WriteAlone>("write"),
                            row<ReadAlone>("read"), row<AtomicAlone>("atomic")};

}  // namespace

std::span<Row const> rows_alone() noexcept {
  return alone;
}
std::span<Row const> rows_looped() noexcept {
  return looped;
}

}  // namespace lend::bench
