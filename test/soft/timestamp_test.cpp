// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a completion of a timed queue has the moment when it came to be, by the device's clock,
// whatever happens to the queue before it is polled. Method: raw verbs between two contexts, the
// clock read before and after each message, and polls much later.
// Source: ibv_create_cq_ex(3), ibv_query_rt_values_ex(3), ibv_query_device_ex(3).
#include <soft/segment/completion_layout.hpp>

#include <map>

#include "soft/support.hpp"

using namespace lend;
using namespace lend::test;

namespace {

std::uint64_t clock_of(ibv_context* context) {
  ibv_values_ex values{};
  values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  // Through the public inline call, as a program makes it.
  REQUIRE(ibv_query_rt_values_ex(context, &values) == 0);
  CHECK(values.raw_clock.tv_sec == 0);
  return static_cast<std::uint64_t>(values.raw_clock.tv_nsec);
}

HeldQueue make_timed(ibv_context* context, std::uint32_t entries,
                     ibv_comp_channel* channel = nullptr) {
  ibv_cq_init_attr_ex wanted{};
  wanted.cqe = entries;
  wanted.channel = channel;
  wanted.wc_flags = std::uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
  HeldQueue queue{ibv_cq_ex_to_cq(ibv_create_cq_ex(context, &wanted))};
  REQUIRE(queue);
  return queue;
}

struct Read {
  std::uint64_t id;
  ibv_wc_status status;
  std::uint64_t at;
};

/// All that is there.
std::vector<Read> read_all(HeldQueue const& queue) {
  auto* const reader = reinterpret_cast<ibv_cq_ex*>(queue.get());
  std::vector<Read> all;
  ibv_poll_cq_attr none{};
  int error = ibv_start_poll(reader, &none);
  if (error == ENOENT) return all;
  for (; error == 0; error = ibv_next_poll(reader))
    all.push_back({reader->wr_id, reader->status, ibv_wc_read_completion_ts(reader)});
  CHECK(error == ENOENT);
  ibv_end_poll(reader);
  return all;
}

struct Interval {
  std::uint64_t from;
  std::uint64_t to;
};

/// Messages from one context to another, each of which completes at once in two timed queues.
struct Timed {
  explicit Timed(std::uint32_t entries = 64, bool has_events = false)
      : near{open_context()},
        far{open_context()},
        near_domain{make_domain(near.get())},
        far_domain{make_domain(far.get())},
        channel{has_events ? make_channel(far.get()) : nullptr},
        sends{make_timed(near.get(), entries)},
        receives{make_timed(far.get(), entries, channel.get())} {}

  struct Pair {
    HeldQueuePair a;
    HeldQueuePair b;
  };
  Pair make_pair() const {
    Depths const depths{.sends = 64, .receives = 64};
    Pair made{make_queue_pair(near_domain.get(), sends.get(), sends.get(), depths),
              make_queue_pair(far_domain.get(), receives.get(), receives.get(), depths)};
    bring_to(made.a.get(), IBV_QPS_RTS, made.b->qp_num);
    bring_to(made.b.get(), IBV_QPS_RTS, made.a->qp_num);
    return made;
  }
  /// A send and a receive of that id.
  void pass(Pair const& pair, std::uint64_t id, std::vector<ibv_sge> from = {},
            std::vector<ibv_sge> to = {}) {
    ibv_recv_wr receive{id, nullptr, to.data(), static_cast<int>(to.size())};
    ibv_recv_wr* bad_receive = nullptr;
    REQUIRE(ibv_post_recv(pair.b.get(), &receive, &bad_receive) == 0);
    ibv_send_wr send{};
    send.wr_id = id;
    send.sg_list = from.data();
    send.num_sge = static_cast<int>(from.size());
    send.opcode = IBV_WR_SEND;
    send.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    auto const before = clock_of(near.get());
    REQUIRE(ibv_post_send(pair.a.get(), &send, &bad) == 0);
    passed[id] = {before, clock_of(near.get())};
  }
  /// That those ids come, in order, each with a time when it was passed.
  void check(HeldQueue const& queue, std::vector<std::uint64_t> const& ids) const {
    std::vector<std::uint64_t> read;
    for (auto const& end : read_all(queue)) {
      CAPTURE(end.id);
      read.push_back(end.id);
      CHECK(end.status == IBV_WC_SUCCESS);
      CHECK(end.at >= passed.at(end.id).from);
      CHECK(end.at <= passed.at(end.id).to);
    }
    CHECK(read == ids);
  }

  HeldContext near;
  HeldContext far;
  HeldDomain near_domain;
  HeldDomain far_domain;
  HeldChannel channel;
  HeldQueue sends;
  HeldQueue receives;
  std::map<std::uint64_t, Interval> passed;
};

}  // namespace

TEST_CASE("a completion has the time when it came to be, not when it was polled", "[soft]") {
  Timed timed{4};
  auto const pair = timed.make_pair();
  for (std::uint64_t round = 0; round < 10; round += 3) {  // around the ring
    for (std::uint64_t id = round; id < round + 3; ++id) timed.pass(pair, id);
    timed.check(timed.sends, {round, round + 1, round + 2});
    timed.check(timed.receives, {round, round + 1, round + 2});
  }
  CHECK(read_all(timed.sends).empty());
}

TEST_CASE("the clock goes on, in the units that the device says", "[soft]") {
  auto const context = open_context();
  ibv_device_attr_ex attributes{};
  REQUIRE(ibv_query_device_ex(context.get(), nullptr, &attributes) == 0);
  CHECK(attributes.completion_timestamp_mask == UINT64_MAX);
  REQUIRE(attributes.hca_core_clock != 0);
  auto const host = std::chrono::steady_clock::now();
  auto const first = clock_of(context.get());
  std::this_thread::sleep_for(std::chrono::milliseconds{20});
  auto const milliseconds = (clock_of(context.get()) - first) / attributes.hca_core_clock;
  auto const passed = std::chrono::steady_clock::now() - host;
  CHECK(milliseconds >= 20);
  CHECK(std::chrono::milliseconds{milliseconds} <= passed);

  ibv_values_ex none{};
  CHECK(ibv_query_rt_values_ex(context.get(), &none) == EOPNOTSUPP);
}

TEST_CASE("a timed queue that grows, or drops what a reset leaves, keeps each time", "[soft]") {
  Timed timed{8};
  auto const pair = timed.make_pair();
  auto const reset = timed.make_pair();
  timed.pass(pair, 0);
  timed.pass(reset, 1);
  timed.pass(pair, 2);
  timed.pass(reset, 3);
  SECTION("grows") {
    REQUIRE(ibv().resize_cq(timed.sends.get(), 64) == 0);
    REQUIRE(ibv().resize_cq(timed.receives.get(), 64) == 0);
    for (std::uint64_t id = 4; id < 40; ++id) timed.pass(pair, id);
    std::vector<std::uint64_t> ids(40);
    for (std::uint64_t id = 0; id < 40; ++id) ids[id] = id;
    timed.check(timed.sends, ids);
    timed.check(timed.receives, ids);
  }
  SECTION("drops") {
    for (auto* const qp : {reset.a.get(), reset.b.get()})
      REQUIRE(move(qp, IBV_QPS_RESET, {}, IBV_QP_STATE) == 0);
    timed.pass(pair, 4);
    timed.check(timed.sends, {0, 2, 4});
    timed.check(timed.receives, {0, 2, 4});
  }
}

TEST_CASE("a timed queue that is armed and told goes on to have times", "[soft]") {
  Timed timed{16, true};
  auto const pair = timed.make_pair();
  for (std::uint64_t id = 0; id < 6; ++id) {
    if (id % 2 == 0) REQUIRE(ibv_req_notify_cq(timed.receives.get(), 0) == 0);
    timed.pass(pair, id);
    ibv_cq* told = nullptr;
    void* mark = nullptr;
    if (id % 2 == 1) continue;
    REQUIRE(ibv().get_cq_event(timed.channel.get(), &told, &mark) == 0);
    CHECK(told == timed.receives.get());
    ibv().ack_cq_events(told, 1);
  }
  timed.check(timed.receives, {0, 1, 2, 3, 4, 5});
}

TEST_CASE("a time takes no room of the bytes that a completion carries", "[soft]") {
  Timed timed{4};
  auto const pair = timed.make_pair();
  constexpr std::uint32_t most = soft::SharedCompletion::inline_max;
  Memory const from{timed.near_domain.get(), most};
  Memory const to{timed.far_domain.get(), 4 * most};
  std::string text;
  for (std::uint32_t i = 0; i < most; ++i) text += static_cast<char>('a' + i % 23);
  from.write(0, text);
  for (std::uint64_t id = 0; id < 4; ++id)
    timed.pass(pair, id, {from.piece(0, most)}, {to.piece(id * most, most)});
  timed.check(timed.receives, {0, 1, 2, 3});
  for (std::uint64_t id = 0; id < 4; ++id) CHECK(to.read(id * most, most) == text);
}

TEST_CASE("work that fails or is flushed in a timed queue is told, too", "[soft]") {
  Timed timed;
  auto const pair = timed.make_pair();
  ibv_recv_wr receive{};
  receive.wr_id = 9;
  ibv_recv_wr* bad = nullptr;
  REQUIRE(ibv_post_recv(pair.b.get(), &receive, &bad) == 0);
  REQUIRE(move(pair.b.get(), IBV_QPS_ERR, {}, IBV_QP_STATE) == 0);
  auto const ends = read_all(timed.receives);
  REQUIRE(ends.size() == 1);
  CHECK(ends[0].id == 9);
  CHECK(ends[0].status == IBV_WC_WR_FLUSH_ERR);
  // Polls that ask for no time have none.
  CHECK(poll(timed.sends).empty());
}
