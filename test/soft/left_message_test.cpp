// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a message to private memory that its sender may not write waits for room, or for its
// receiver to copy it; it arrives once, whole and in order, or fails with its sender or receiver.
// Method: two processes of which one or each may not use cross-memory attach.
#include <array>

#include "cross_memory.hpp"

using namespace lend;
using namespace lend::test;

namespace {

constexpr std::size_t long_length = 3 << 20;

}  // namespace

TEST_CASE("short messages wait for room where no process may copy, and all come in order",
          "[two_process]") {
  if (is_skipped()) return;
  constexpr std::uint64_t messages = 60;
  auto const length = GENERATE(std::size_t{5000}, std::size_t{soft::eager_bytes_max});
  auto const sleeps = GENERATE(false, true);
  Rendezvous const rendezvous;
  auto const send = [=](Wire const& wire) {
    Side const side{Where::private_memory, 2 * messages + length};
    side.meet(wire);
    for (std::size_t i = 0; i < messages + length; ++i)
      side.memory.at()[i] = static_cast<std::byte>(i);
    for (std::uint64_t i = 0; i < messages; ++i)
      REQUIRE(side.link.send(i, side.memory.piece(i, length)) == 0);
    REQUIRE(wire.say());
    for (std::uint64_t i = 0; i < messages; ++i) {
      auto const end = sleeps ? side.next_asleep() : next_of(side.queue);
      REQUIRE(end.status == IBV_WC_SUCCESS);
      REQUIRE(end.wr_id == i);
    }
  };
  auto const receive = [=](Wire const& wire) {
    Side const side{Where::private_memory, messages * length};
    // Posted before they are connected, too.
    REQUIRE(test::move(side.link.get(), IBV_QPS_INIT, attributes_for(0), init_mask) == 0);
    for (std::uint64_t i = 0; i < messages; ++i)
      REQUIRE(side.link.receive(i, side.memory.piece(i * length, length)) == 0);
    side.meet(wire);
    REQUIRE(wire.hear());  // all are sent, and more than there is room for wait
    for (std::uint64_t i = 0; i < messages; ++i) {
      auto const end = sleeps ? side.next_asleep() : next_of(side.queue);
      REQUIRE(end.status == IBV_WC_SUCCESS);
      REQUIRE(end.wr_id == i);
      for (std::size_t j = 0; j < length; ++j)
        REQUIRE(side.memory.at(i * length)[j] == static_cast<std::byte>(i + j));
    }
  };
  CHECK(run_both(Lacks::all, send, Lacks::all, receive) == 0);
}

TEST_CASE("a message that is left to its receiver goes with its sender, and fails with it",
          "[two_process]") {
  if (is_skipped()) return;
  bool const sender_dies = GENERATE(false, true);  // or its receiver
  Rendezvous const rendezvous;
  auto const send = [=](Wire const& wire) {
    Side const side{Where::private_memory, long_length};
    side.meet(wire);
    REQUIRE(wire.hear());
    REQUIRE(side.link.send(1, side.memory.piece(0, long_length)) == 0);
    if (sender_dies) ::_exit(wire.say() ? 0 : 1);
    REQUIRE(wire.say());
    REQUIRE(next_of(side.queue).status == IBV_WC_RETRY_EXC_ERR);
  };
  auto const receive = [=](Wire const& wire) {
    Side const side{Where::private_memory, long_length};
    side.meet(wire);
    REQUIRE(side.link.receive(1, side.memory.piece(0, long_length)) == 0);
    REQUIRE(wire.say());
    REQUIRE(wire.hear());
    if (!sender_dies) ::_exit(0);
    REQUIRE_FALSE(wire.hear());  // it is gone, or its memory is
    ibv_wc end{};
    for (int i = 0; i < 1000; ++i) REQUIRE(side.queue.poll(1, &end) == 0);
    REQUIRE(side.link.fail() == 0);
    REQUIRE(next_of(side.queue).status == IBV_WC_WR_FLUSH_ERR);
  };
  CHECK((sender_dies ? run_both(Lacks::nothing, receive, Lacks::all, send)
                     : run_both(Lacks::all, send, Lacks::nothing, receive)) == 0);
}

TEST_CASE("a message that is left to its receiver fails where no thread could try it again",
          "[two_process]") {
  if (is_skipped()) return;
  Rendezvous const rendezvous;
  auto const send = [](Wire const& wire) {
    Side const side{Where::private_memory, long_length};
    side.meet(wire);
    REQUIRE(wire.hear());
    REQUIRE(::ibv_req_notify_cq(side.queue.get(), 0) == 0);
    REQUIRE(forbid({SYS_clone, SYS_clone3}));
    REQUIRE(side.link.send(1, side.memory.piece(0, long_length)) == 0);
    REQUIRE(next_of(side.queue).status == IBV_WC_RETRY_EXC_ERR);
    REQUIRE(wire.say());
  };
  auto const receive = [](Wire const& wire) {
    Side const side{Where::private_memory, long_length};
    side.meet(wire);
    REQUIRE(side.link.receive(1, side.memory.piece(0, long_length)) == 0);
    REQUIRE(wire.say());
    REQUIRE(wire.hear());
    ibv_wc end{};
    REQUIRE(side.queue.poll(1, &end) == 0);
  };
  CHECK(run_both(Lacks::all, send, Lacks::nothing, receive) == 0);
}

TEST_CASE("a message that is left to its receiver fails when that connects to another peer",
          "[two_process]") {
  if (is_skipped()) return;
  Rendezvous const rendezvous;
  auto const send = [](Wire const& wire) {
    Side const side{Where::private_memory, long_length};
    side.meet(wire);
    REQUIRE(wire.hear());
    REQUIRE(side.link.send(1, side.memory.piece(0, long_length)) == 0);
    REQUIRE(wire.say());
    REQUIRE(side.next_asleep().status == IBV_WC_RETRY_EXC_ERR);
    REQUIRE(wire.say());
  };
  auto const receive = [](Wire const& wire) {
    Side const side{Where::private_memory, long_length};
    side.meet(wire);
    REQUIRE(side.link.receive(1, side.memory.piece(0, long_length)) == 0);
    REQUIRE(wire.say());
    REQUIRE(wire.hear());
    // Between two looks of the sender, which finds it ready as before.
    REQUIRE(test::move(side.link.get(), IBV_QPS_RESET, {}, IBV_QP_STATE) == 0);
    REQUIRE(side.link.connect(side.link.number()) == 0);
    REQUIRE(wire.hear());
  };
  CHECK(run_both(Lacks::all, send, Lacks::nothing, receive) == 0);
}

TEST_CASE("a message that is left to its receiver may be of many pieces and return a window",
          "[two_process]") {
  if (is_skipped()) return;
  Rendezvous const rendezvous;
  constexpr std::size_t length = 100'001;
  auto const send = [](Wire const& wire) {
    Side const side{Where::private_memory, length};
    RawMemory const other{side.device, length};
    side.meet(wire);
    Remote window;
    REQUIRE(hear(wire, window));
    fill(side.memory.at(), length, 1);
    fill(other.at(), length, 2);
    std::array<ibv_sge, 2> pieces{};
    auto const named = [](Piece const& piece) {
      return ibv_sge{reinterpret_cast<std::uint64_t>(piece.at), piece.length, piece.key};
    };
    pieces = {named(side.memory.piece(0, length)), named(other.piece(0, length))};
    ibv_send_wr work{};
    work.wr_id = 1;
    work.sg_list = pieces.data();
    work.num_sge = 2;
    work.opcode = IBV_WR_SEND_WITH_IMM;
    work.imm_data = 17;
    ibv_send_wr* bad = nullptr;
    REQUIRE(::ibv_post_send(side.link.get(), &work, &bad) == 0);
    REQUIRE(next_of(side.queue).status == IBV_WC_SUCCESS);
    REQUIRE(side.link.give_back(2, side.memory.piece(0, length), window.key) == 0);
    REQUIRE(next_of(side.queue).status == IBV_WC_SUCCESS);
    // Its receiver can only fail it, and its sender hears that.
    REQUIRE(side.link.give_back(3, side.memory.piece(0, length), window.key) == 0);
    REQUIRE(next_of(side.queue).status != IBV_WC_WR_FLUSH_ERR);
  };
  auto const receive = [](Wire const& wire) {
    Side const side{Where::private_memory, 2 * length};
    RawWindow window{side.device};
    side.meet(wire);
    auto const key = window.next_key();
    REQUIRE(window.bind(side.link, 1, side.memory, 0, length) == 0);
    REQUIRE(next_of(side.queue).status == IBV_WC_SUCCESS);
    for (std::uint64_t id = 2; id < 5; ++id)
      REQUIRE(side.link.receive(id, side.memory.piece(0, 2 * length)) == 0);
    REQUIRE(tell(wire, Remote{0, key}));
    auto const first = next_of(side.queue);
    REQUIRE(first.status == IBV_WC_SUCCESS);
    REQUIRE(first.byte_len == 2 * length);
    REQUIRE(first.wc_flags == IBV_WC_WITH_IMM);
    REQUIRE(first.imm_data == 17);
    REQUIRE(holds(side.memory.at(), length, 1));
    REQUIRE(holds(side.memory.at(length), length, 2));
    auto const second = next_of(side.queue);
    REQUIRE(second.status == IBV_WC_SUCCESS);
    REQUIRE(second.wc_flags == IBV_WC_WITH_INV);
    REQUIRE(second.invalidated_rkey == key);
    REQUIRE(next_of(side.queue).status != IBV_WC_SUCCESS);
  };
  CHECK(run_both(Lacks::all, send, Lacks::nothing, receive) == 0);
}

TEST_CASE("unreliable messages and datagrams to private memory need no process that may copy",
          "[two_process]") {
  if (is_skipped()) return;
  auto const lacks = GENERATE(Lacks::nothing, Lacks::all);
  auto const type = GENERATE(IBV_QPT_UC, IBV_QPT_UD);
  Rendezvous const rendezvous;
  constexpr std::array<std::size_t, 4> lengths{8, 64, 1000, 4096};
  auto const make = [=](Side const& side) {
    ibv_qp_init_attr asked{};
    asked.send_cq = asked.recv_cq = side.queue.get();
    asked.qp_type = type;
    asked.sq_sig_all = 1;
    asked.cap = {8, 8, 1, 1, 0};
    return HeldQueuePair{ibv().create_qp(side.device.domain(), &asked)};
  };
  auto const send = [=](Wire const& wire) {
    Side const side{Where::private_memory, 4096};
    auto const pair = make(side);
    std::uint32_t theirs = 0;
    REQUIRE((tell(wire, pair->qp_num) && hear(wire, theirs)));
    bring_to(pair.get(), IBV_QPS_RTS, theirs);
    auto const address = make_address(side.device.domain());
    REQUIRE(wire.hear());
    for (auto const length : lengths) {
      fill(side.memory.at(), length, static_cast<unsigned>(length));
      ibv_send_wr work{};
      if (type == IBV_QPT_UD) work.wr.ud = {address.get(), theirs, 0};
      REQUIRE(post_send(pair.get(), IBV_WR_SEND, 1, side.memory.piece(0, length), work) == 0);
      REQUIRE(next_of(side.queue).status == IBV_WC_SUCCESS);
    }
    REQUIRE(wire.hear());
  };
  auto const receive = [=](Wire const& wire) {
    constexpr std::size_t room = 4136;
    Side const side{Where::private_memory, lengths.size() * room};
    auto const pair = make(side);
    std::uint32_t theirs = 0;
    REQUIRE((tell(wire, pair->qp_num) && hear(wire, theirs)));
    bring_to(pair.get(), IBV_QPS_RTS, theirs);
    for (std::size_t i = 0; i < lengths.size(); ++i)
      REQUIRE(post_receive(::ibv_post_recv, pair.get(), i, side.memory.piece(i * room, room)) == 0);
    REQUIRE(wire.say());
    std::size_t const header = type == IBV_QPT_UD ? 40 : 0;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      auto const end = next_of(side.queue);
      REQUIRE(end.status == IBV_WC_SUCCESS);
      REQUIRE(end.byte_len == lengths[i] + header);
      REQUIRE(
          holds(side.memory.at(i * room + header), lengths[i], static_cast<unsigned>(lengths[i])));
      if (type == IBV_QPT_UD) REQUIRE(end.src_qp == theirs);
    }
    REQUIRE(wire.say());
  };
  CHECK(run_both(lacks, send, Lacks::nothing, receive) == 0);
}
