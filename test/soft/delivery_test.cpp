// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what is sent, written and read arrives as it was, however both sides cut it.
// Method: all operations over every kind of memory, in one context (copies), and between two
// (mappings for allocated memory, cross-memory attach for private).
#include <lend/soft/faults.hpp>
#include <soft/device/answers.hpp>
#include <soft/objects/context.hpp>
#include <soft/segment/bounce.hpp>
#include "soft/support.hpp"
#include "support/seed.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <random>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t length_max = 200'000;
constexpr std::size_t lengths[] = {0,  1,  7,  8,   31,   32,   33,   63,     64,
                                   65, 96, 97, 200, 4095, 4096, 4097, 65'536, 199'999};

/// A connected pair with a buffer at each end, of all kinds.
struct Stage {
  explicit Stage(Terms const& terms = {})
      : link{GENERATE(Reach::one_context, Reach::two_contexts), terms, Terms{}, {.pieces = 7}},
        from{link.a.domain.get(), length_max, all_access, any_kind()},
        to{link.b.domain.get(), length_max, all_access, any_kind()} {
    for (std::size_t i = 0; i < length_max; ++i)
      *from.at(i) = static_cast<std::byte>(i * 7 % 251 + i / 4096);
  }
  static Where any_kind() { return GENERATE(Where::private_memory, Where::allocated); }

  Link link;
  End& a = link.a;
  End& b = link.b;
  Memory from;
  Memory to;
};

/// `length` bytes from offset 0 in up to seven pieces, some empty.
std::vector<ibv_sge> cut(Memory const& memory, std::size_t length, std::mt19937_64& random) {
  auto const count = 1 + random() % 7;
  std::vector<std::size_t> cuts{0, length};
  for (std::size_t i = 1; i < count; ++i) cuts.push_back(random() % (length + 1));
  std::sort(cuts.begin(), cuts.end());
  std::vector<ibv_sge> pieces;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i)
    pieces.push_back(memory.piece(cuts[i], cuts[i + 1] - cuts[i]));
  return pieces;
}

void check_success(HeldQueue const& queue, ibv_wc_opcode opcode, std::uint64_t id) {
  auto const end = await_one(queue);
  CHECK(end.status == IBV_WC_SUCCESS);
  CHECK(end.opcode == opcode);
  CHECK(end.wr_id == id);
  CHECK(end.wc_flags == 0);
}

}  // namespace

TEST_CASE("every length arrives by send, write and read, in any pieces", "[soft]") {
  Stage stage;
  for (auto const seed : seeds(3)) {
    INFO("LEND_TEST_SEED=" << seed);
    std::mt19937_64 random{seed};
    for (auto const length : lengths) {
      INFO("length " << length);
      auto const source = cut(stage.from, length, random);
      auto const target = cut(stage.to, length, random);
      auto const same = [&] {
        auto const is_same = std::memcmp(stage.from.at(0), stage.to.at(0), length) == 0 &&
                             *stage.to.at(length) == std::byte{0};
        std::memset(stage.to.at(0), 0, length_max);
        return is_same;
      };
      std::memset(stage.to.at(0), 0, length_max);

      REQUIRE(post_receive(stage.b, 1, target) == 0);
      REQUIRE(post(stage.a, {.id = 2, .pieces = source}) == 0);
      check_success(stage.a.sends, IBV_WC_SEND, 2);
      auto const received = await_one(stage.b.receives);
      CHECK(received.status == IBV_WC_SUCCESS);
      CHECK(received.opcode == IBV_WC_RECV);
      CHECK(received.byte_len == length);
      CHECK(received.qp_num == stage.b.qp->qp_num);
      CHECK(same());

      REQUIRE(post(stage.a, {.opcode = IBV_WR_RDMA_WRITE,
                             .id = 3,
                             .pieces = source,
                             .remote_address = stage.to.address(),
                             .remote_key = stage.to.key()}) == 0);
      check_success(stage.a.sends, IBV_WC_RDMA_WRITE, 3);
      CHECK(same());

      REQUIRE(post(stage.b, {.opcode = IBV_WR_RDMA_READ,
                             .id = 4,
                             .pieces = target,
                             .remote_address = stage.from.address(),
                             .remote_key = stage.from.key()}) == 0);
      check_success(stage.b.sends, IBV_WC_RDMA_READ, 4);
      CHECK(same());
    }
  }
}

TEST_CASE("an immediate comes with a send and with a write, in network order", "[soft]") {
  Stage stage;
  auto const length = GENERATE(0u, 5u, 5000u);
  REQUIRE(post_receive(stage.b, 1, {stage.to.piece(0, 5000)}) == 0);
  REQUIRE(post_receive(stage.b, 2, {stage.to.piece(15'000, 1)}) == 0);

  REQUIRE(post(stage.a, {.opcode = IBV_WR_SEND_WITH_IMM,
                         .pieces = {stage.from.piece(0, length)},
                         .immediate = htonl(0x01020304)}) == 0);
  REQUIRE(post(stage.a, {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                         .pieces = {stage.from.piece(0, length)},
                         .remote_address = stage.to.address(6000),
                         .remote_key = stage.to.key(),
                         .immediate = htonl(0xfffefdfc)}) == 0);

  auto const ends = await(stage.b.receives, 2);
  CHECK(ends[0].status == IBV_WC_SUCCESS);
  CHECK(ends[0].opcode == IBV_WC_RECV);
  CHECK(ends[0].wc_flags == IBV_WC_WITH_IMM);
  CHECK(ntohl(ends[0].imm_data) == 0x01020304);
  CHECK(ends[0].byte_len == length);
  CHECK(ends[1].wr_id == 2);
  CHECK(ends[1].status == IBV_WC_SUCCESS);
  CHECK(ends[1].opcode == IBV_WC_RECV_RDMA_WITH_IMM);
  CHECK(ends[1].wc_flags == IBV_WC_WITH_IMM);
  CHECK(ntohl(ends[1].imm_data) == 0xfffefdfc);
  CHECK(ends[1].byte_len == length);
  CHECK(stage.to.read(0, length) == stage.from.read(0, length));
  CHECK(stage.to.read(6000, length) == stage.from.read(0, length));
  CHECK(*stage.to.at(15'000) == std::byte{0});
}

TEST_CASE("zero-length one-sided work looks at no key", "[soft]") {
  Stage stage;
  for (auto const opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    REQUIRE(post(stage.a, {.opcode = opcode, .remote_address = 1, .remote_key = 0xabcdef}) == 0);
    REQUIRE(post(stage.a, {.opcode = opcode, .pieces = {{1, 0, 0xabcdef}}}) == 0);
  }
  for (auto const& end : await(stage.a.sends, 4)) CHECK(end.status == IBV_WC_SUCCESS);
  CHECK(state_of(stage.b.qp.get()) == IBV_QPS_RTS);
}

TEST_CASE("inline bytes are those of the moment of posting, with any key", "[soft]") {
  Terms terms;
  terms.rnr_retries = 7;
  Stage stage{terms};
  auto const is_late = GENERATE(false, true);
  std::string text = "first second third";
  auto const at = [&](std::size_t offset) {
    return reinterpret_cast<std::uint64_t>(text.data() + offset);
  };
  if (!is_late) REQUIRE(post_receive(stage.b, 1, {stage.to.piece(0, 64)}) == 0);

  REQUIRE(post(stage.a, {.pieces = {{at(6), 7, 0}, {at(13), 0, 0}, {at(0), 6, 0}},
                         .flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED}) == 0);
  text.assign(text.size(), '-');

  if (is_late) REQUIRE(post_receive(stage.b, 1, {stage.to.piece(0, 64)}) == 0);
  check_success(stage.a.sends, IBV_WC_SEND, 1);
  CHECK(await_one(stage.b.receives).byte_len == 13);
  CHECK(stage.to.read(0, 13) == "second first ");
}

TEST_CASE(
    "inline bytes of every length, to the most that is granted, are those of the moment of posting",
    "[soft]") {
  Terms terms;
  terms.rnr_retries = 7;
  Stage stage{terms};
  auto const is_late = GENERATE(false, true);
  ibv_qp_attr attributes{};
  ibv_qp_init_attr made{};
  REQUIRE(ibv().query_qp(stage.a.qp.get(), &attributes, IBV_QP_CAP, &made) == 0);
  REQUIRE(made.cap.max_inline_data == 256);
  // Around what travels in a completion, and the most.
  for (std::uint32_t const length : {31u, 32u, 33u, 255u, 256u}) {
    CAPTURE(length, is_late);
    std::string text(length, ' ');
    for (std::uint32_t i = 0; i < length; ++i) text[i] = static_cast<char>('!' + (i + length) % 90);
    auto const sent = text;
    auto const at = [&](std::size_t offset) {
      return reinterpret_cast<std::uint64_t>(text.data() + offset);
    };
    auto const receive = [&] {
      REQUIRE(post_receive(stage.b, length, {stage.to.piece(0, 5), stage.to.piece(5, 300)}) == 0);
    };
    if (!is_late) receive();

    REQUIRE(post(stage.a, {.id = length,
                           .pieces = {{at(0), 1, 0}, {at(1), length - 1, 0}},
                           .flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED}) == 0);
    text.assign(text.size(), '-');

    if (is_late) receive();
    check_success(stage.a.sends, IBV_WC_SEND, length);
    CHECK(await_one(stage.b.receives).byte_len == length);
    CHECK(stage.to.read(0, length) == sent);
  }
}

TEST_CASE("more than a page that is not inline is read when the receiver is ready", "[soft]") {
  Terms terms;
  terms.rnr_retries = 7;
  Stage stage{terms};
  // Shorter ones may be copied as they are posted.
  REQUIRE(post(stage.a, {.pieces = {stage.from.piece(0, 3), stage.from.piece(3, 4096)}}) == 0);
  stage.from.write(0, "latest");

  REQUIRE(post_receive(stage.b, 1, {stage.to.piece(0, 4100)}) == 0);

  check_success(stage.a.sends, IBV_WC_SEND, 1);
  CHECK(await_one(stage.b.receives).status == IBV_WC_SUCCESS);
  CHECK(stage.to.read(0, 6) == "latest");
}

TEST_CASE("both ends send at once and thousands of times, in order", "[soft]") {
  Stage stage;
  for (std::uint64_t id = 0; id < 3000; ++id) {
    for (auto* end : {&stage.a, &stage.b}) REQUIRE(post_receive(*end, id) == 0);
    for (auto* end : {&stage.a, &stage.b})
      REQUIRE(post(*end, {.opcode = IBV_WR_SEND_WITH_IMM,
                          .id = id,
                          .immediate = static_cast<std::uint32_t>(id)}) == 0);
    for (auto* end : {&stage.a, &stage.b}) {
      auto const sent = poll(end->sends);
      auto const received = poll(end->receives);
      REQUIRE(sent.size() == 1);
      REQUIRE(received.size() == 1);
      REQUIRE(sent[0].wr_id == id);
      REQUIRE(received[0].wr_id == id);
      REQUIRE(received[0].imm_data == id);
    }
  }
}

TEST_CASE("a queue pair may be its own peer, and one queue may take both kinds", "[soft]") {
  auto const context = open_context();
  auto const domain = make_domain(context.get());
  auto const queue = make_queue(context.get());
  End self{context.get()};
  self.qp = make_queue_pair(domain.get(), queue.get(), queue.get());
  Memory const memory{domain.get(), 64};
  memory.write(0, "to myself");
  bring_to(self.qp.get(), IBV_QPS_RTS, self.qp->qp_num);
  REQUIRE(post_receive(self, 1, {memory.piece(32, 32)}) == 0);

  REQUIRE(post(self, {.id = 2, .pieces = {memory.piece(0, 9)}}) == 0);

  auto const ends = await(queue, 2);
  CHECK(ends[0].status == IBV_WC_SUCCESS);
  CHECK(ends[1].status == IBV_WC_SUCCESS);
  CHECK(ends[0].wr_id + ends[1].wr_id == 3);
  CHECK(memory.read(32, 9) == "to myself");
  self.qp.reset();
}

TEST_CASE("a message of few bytes is in place when its receive is polled, and a longer one at once",
          "[soft]") {
  auto const reach = GENERATE(Reach::one_context, Reach::two_contexts);
  auto const where = GENERATE(Where::private_memory, Where::allocated);
  Link link{reach, Terms{}};
  constexpr std::uint32_t most = 1 << 16;
  Memory const near{link.a.domain.get(), 2 * most};
  Memory const far{link.b.domain.get(), most, all_access, where};
  auto const length =
      GENERATE(1u, 32u, 33u, 96u, 97u, soft::eager_bytes_max, soft::eager_bytes_max + 1);
  // What peers cannot map they do not write below some size.
  bool const is_reached = reach == Reach::one_context || where == Where::allocated;
  bool const is_later = length <= (is_reached ? 32u : soft::eager_bytes_max);
  near.write(0, std::string(length, 'x'));
  REQUIRE(post_receive(link.b, 1, {far.piece(0, length)}) == 0);
  REQUIRE(post(link.a, {.pieces = {near.piece(0, length)}}) == 0);
  REQUIRE(post(link.a, {.opcode = IBV_WR_RDMA_READ,
                        .pieces = {near.piece(most, length)},
                        .remote_address = far.address(),
                        .remote_key = far.key()}) == 0);

  CHECK(await(link.a.sends, 2)[1].status == IBV_WC_SUCCESS);
  CHECK(near.read(most, length) == std::string(length, is_later ? '\0' : 'x'));
  CHECK(await_one(link.b.receives).byte_len == length);
  CHECK(far.read(0, length) == std::string(length, 'x'));
}

TEST_CASE("messages to private memory come whole and in order, however many wait to be polled",
          "[soft]") {
  Link link{Reach::two_contexts, Terms{}, Terms{}, {.sends = 32, .receives = 32}};
  constexpr std::uint32_t most = soft::eager_bytes_max;
  Memory const from{link.a.domain.get(), 2 * most};
  Memory const to{link.b.domain.get(), 32 * most};
  for (std::size_t i = 0; i < 2 * most; ++i) *from.at(i) = static_cast<std::byte>(i * 7 % 251);
  for (auto const seed : seeds(3)) {
    INFO("LEND_TEST_SEED=" << seed);
    std::mt19937_64 random{seed};
    for (int round = 0; round < 50; ++round) {
      std::uint32_t lengths[32];
      auto const count = random() % 32 + 1;  // some more than the ring has room for
      for (std::size_t i = 0; i < count; ++i) {
        lengths[i] = static_cast<std::uint32_t>(random() % (random() % 2 == 0 ? 200 : most + 1));
        auto const half = lengths[i] / 2;
        REQUIRE(post_receive(link.b, i,
                             {to.piece(i * most, half), to.piece(i * most + half, most - half)}) ==
                0);
        REQUIRE(post(link.a, {.id = i,
                              .pieces = {from.piece(i, lengths[i] - half),
                                         from.piece(i + lengths[i] - half, half)}}) == 0);
      }
      CHECK(await(link.a.sends, count).back().status == IBV_WC_SUCCESS);
      auto const ends = await(link.b.receives, count);
      for (std::size_t i = 0; i < count; ++i) {
        CHECK(ends[i].wr_id == i);
        CHECK(ends[i].byte_len == lengths[i]);
        CHECK(to.read(i * most, lengths[i]) == from.read(i, lengths[i]));
      }
    }
  }
}

TEST_CASE("a device that breaks all its queue pairs answers no peer, and can still be taken apart",
          "[soft]") {
  Link link{Reach::two_contexts, Terms{}};
  Memory const near{link.a.domain.get(), 64};
  Memory const far{link.b.domain.get(), 64};
  REQUIRE(post_receive(link.b, 1, {far.piece(0, 64)}) == 0);

  CHECK(soft::break_all(link.second.get()) == 0);

  REQUIRE(post(link.a, {.opcode = IBV_WR_RDMA_WRITE,
                        .pieces = {near.piece(0, 8)},
                        .remote_address = far.address(),
                        .remote_key = far.key()}) == 0);
  CHECK(await_one(link.a.sends).status == IBV_WC_RETRY_EXC_ERR);
  CHECK(await_one(link.b.receives).status == IBV_WC_WR_FLUSH_ERR);
}

TEST_CASE("a fenced send carries what the read before it brought", "[soft]") {
  // Without the fence nothing is promised.
  Link link{Reach::two_contexts, Terms{}};
  Memory const near{link.a.domain.get(), 64};
  Memory const far{link.b.domain.get(), 64};
  near.write(0, "before");
  far.write(0, "behind");
  REQUIRE(post_receive(link.b, 1, {far.piece(32, 6)}) == 0);
  // The read is held up, so that the send could pass it.
  soft::Context::of(link.first.get()).faults.plan(FaultPlan{}.delay(1, 5ms).faults());
  REQUIRE(post(link.a, {.opcode = IBV_WR_RDMA_READ,
                        .pieces = {near.piece(0, 6)},
                        .remote_address = far.address(),
                        .remote_key = far.key()}) == 0);

  REQUIRE(post(link.a, {.id = 2,
                        .pieces = {near.piece(0, 6)},
                        .flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE}) == 0);

  CHECK(poll(link.b.receives).empty());
  auto const ends = await(link.a.sends, 2);
  CHECK(ends[0].opcode == IBV_WC_RDMA_READ);
  CHECK(ends[1].wr_id == 2);
  CHECK(await_one(link.b.receives).status == IBV_WC_SUCCESS);
  CHECK(far.read(32, 6) == "behind");
}
