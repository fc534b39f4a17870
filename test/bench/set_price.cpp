// SPDX-License-Identifier: MIT OR Apache-2.0
// What a message costs that comes by a wait set and its receive pool: polled, looked at, its
// receive posted again. By raw verbs with one completion queue and one shared receive queue, and by
// lend, on a device that does nothing. set_price.py counts instructions with it. Messages come one
// by one, or several before each poll. Usage: set_price IDLE_CHANNELS MESSAGES_A_POLL POLLS
#include "null_device.hpp"
#include "number.hpp"

#include <lend/lend.hpp>
#include <lend/transport/message_pool.hpp>
#include <lend/transport/send_receive.hpp>

#include <infiniband/verbs.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <vector>

namespace {

using namespace lend;

constexpr std::size_t message = 8;    // bytes
constexpr std::uint32_t pieces = 16;  // and messages a poll, at most

/// A set with a pool, and channels of it that are connected to themselves.
struct Served {
  ProtectionDomain domain;
  MemoryRegion memory;
  WaitSet set;
  ReceivePool pool;
  std::vector<Channel> channels;

  [[nodiscard]] Result<void> add() {
    LEND_TRY(prepared, channel_builder()
                           .protection_domain(domain)
                           .send_depth(16)
                           .wait_set(set, channels.size())
                           .receive_pool(pool)
                           .build());
    auto const itself = prepared.endpoint();
    LEND_TRY(channel, std::move(prepared).handshake(itself));
    channels.push_back(std::move(channel));
    return success();
  }
};

/// A set with a MessagePool, and transports of it whose peers are never heard.
struct ServedTransports {
  ProtectionDomain domain;
  WaitSet set;
  MessagePool pool;
  PreparedSendReceive peer;
  std::vector<SendReceive> transports{};

  [[nodiscard]] static Result<ServedTransports> make(ProtectionDomain const& domain) {
    LEND_TRY(set, WaitSet::create(domain.context()));
    LEND_TRY(pool, MessagePool::create(
                       set, domain, {.message_bytes_max = 64, .transports_max = 2, .shared = 64}));
    LEND_TRY(peer, SendReceive::prepare(domain, {.message_bytes_max = 64}));
    return ServedTransports{domain, std::move(set), std::move(pool), std::move(peer)};
  }
  /// Its queue pair's number.
  [[nodiscard]] Result<std::uint32_t> add() {
    LEND_TRY(prepared, SendReceive::prepare(domain, {.keep_alive = std::chrono::nanoseconds{0},
                                                     .wait_set = &set,
                                                     .tag = transports.size(),
                                                     .pool = &pool}));
    std::uint32_t const number = prepared.endpoint().queue_pair_number.value();
    LEND_TRY(made, std::move(prepared).handshake(peer.endpoint(), peer.terms()));
    transports.push_back(std::move(made));
    return number;
  }
};

/// Messages without bytes, whose words are the zeros of fresh memory.
extern "C" [[gnu::noinline]] bool lend_bench_transports(ServedTransports& served, std::uint32_t to,
                                                        std::uint64_t polls) {
  std::array<Ready, 4> room;
  for (std::uint64_t i = 0; i < polls; ++i) {
    bench::null_arrival(to, message);
    auto const ready = served.set.poll(room);
    if (!ready.has_value() || ready.assume_value().size() != 1) return false;
    auto& transport = served.transports[ready.assume_value()[0].tag];
    if (!transport.poll().has_value()) return false;
    auto const taken = transport.try_receive();
    if (!taken.has_value() || !taken.assume_value()) return false;
  }
  return true;
}

/// set_price.py finds the runs by their names.
extern "C" [[gnu::noinline]] bool lend_bench_set(Served& served, std::uint32_t to,
                                                 std::uint64_t at_once, std::uint64_t polls) {
  std::array<Ready, 4> room;
  for (std::uint64_t i = 0; i < polls; ++i) {
    for (std::uint64_t one = 0; one < at_once; ++one) bench::null_arrival(to, message);
    auto const ready = served.set.poll(room);
    if (!ready.has_value() || ready.assume_value().size() != 1) return false;
    for (std::uint64_t one = 0; one < at_once; ++one) {
      auto const taken = served.pool.next();
      if (!taken.has_value() || taken->tag() != 0 || taken->bytes().size() != message) return false;
    }
  }
  return true;
}

/// The same by verbs.
struct Bare {
  ibv_cq* completions;
  ibv_srq* receives;
  std::uint64_t address;
  std::uint32_t key;

  [[nodiscard]] bool post(std::uint64_t piece) const {
    ibv_sge element{address + piece * message, message, key};
    ibv_recv_wr request;
    request.wr_id = piece;
    request.next = nullptr;
    request.sg_list = &element;
    request.num_sge = 1;
    ibv_recv_wr* refused;
    return ibv_post_srq_recv(receives, &request, &refused) == 0;
  }
};

extern "C" [[gnu::noinline]] bool lend_bench_raw(Bare const& bare, std::uint32_t to,
                                                 std::uint64_t at_once, std::uint64_t polls) {
  ibv_wc completions[pieces];
  for (std::uint64_t i = 0; i < polls; ++i) {
    for (std::uint64_t one = 0; one < at_once; ++one) bench::null_arrival(to, message);
    int const taken = ibv_poll_cq(bare.completions, static_cast<int>(at_once), completions);
    if (taken != static_cast<int>(at_once)) return false;
    for (int one = 0; one < taken; ++one) {
      ibv_wc const& completion = completions[one];
      if (completion.status != IBV_WC_SUCCESS || completion.qp_num != to ||
          completion.byte_len != message || !bare.post(completion.wr_id))
        return false;
    }
  }
  return true;
}

Result<void> run(std::uint64_t idle, std::uint64_t at_once, std::uint64_t polls) {
  LEND_TRY(context, open_device(DeviceChoice::soft()));
  LEND_TRY(domain, context.allocate_protection_domain());
  LEND_TRY(memory, domain.allocate(pieces * message));
  LEND_TRY(set, WaitSet::create(context));
  bench::make_null(*context.native());  // before the pool posts, whose receives are then counted
  LEND_TRY(pool, ReceivePool::create(set, memory.chunks(message)));
  Served served{std::move(domain), std::move(memory), std::move(set), std::move(pool), {}};
  for (std::uint64_t i = 0; i < 1 + idle; ++i) {
    LEND_TRYV(served.add());
  }
  std::uint32_t const to = served.channels.front().endpoint().queue_pair_number.value();
  if (!lend_bench_set(served, to, at_once, polls)) return Errc::system_failed;

  LEND_TRY(completions, CompletionQueue::create(context, 2 * pieces));
  LEND_TRY(receives, ReceiveQueue::create(served.domain, pieces));
  Bare const bare{completions.native(), receives.native(), 0, 0};
  bench::forget_null_receives();
  for (std::uint64_t piece = 0; piece < pieces; ++piece)
    if (!bare.post(piece)) return Errc::system_failed;
  return lend_bench_raw(bare, to, at_once, polls) ? success() : Result<void>{Errc::system_failed};
}

Result<void> run_transports(std::uint64_t polls) {
  LEND_TRY(context, open_device(DeviceChoice::soft()));
  LEND_TRY(domain, context.allocate_protection_domain());
  bench::make_null(*context.native());
  bench::forget_null_receives();
  LEND_TRY(served, ServedTransports::make(domain));
  LEND_TRY(to, served.add());
  LEND_TRYV(without_value(served.add()));
  if (!lend_bench_transports(served, to, polls)) return Errc::system_failed;
  return success();
}

}  // namespace

int main(int count, char** words) {
  std::uint64_t idle = 0, at_once = 0, polls = 0;
  if (count != 4 || !bench::parse_number(words[1], idle) ||
      !bench::parse_number(words[2], at_once) || !bench::parse_number(words[3], polls) ||
      at_once > pieces) {
    std::fputs(
        "set_price IDLE_CHANNELS MESSAGES_A_POLL POLLS\n"
        "0 messages a poll: one, by transports in a MessagePool\n",
        stderr);
    return 2;
  }
  auto const done = at_once == 0 ? run_transports(polls) : run(idle, at_once, polls);
  if (!done) {
    std::fprintf(stderr, "set_price: %s\n", done.error().message().c_str());
    return 1;
  }
  return 0;
}
