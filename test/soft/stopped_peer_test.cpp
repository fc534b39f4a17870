// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a peer that is stopped in the middle of a request holds up no call for long. What it may
// still write stays where it is, all else of the device goes on, and once it goes on or dies the
// same calls succeed. Method: a child is walked into its request instruction by instruction, and
// left stopped there.
#include <soft/objects/domain.hpp>

#include <chrono>
#include <cstring>
#include <string>

#include "raw_ends.hpp"
#include "rendezvous.hpp"
#include "stopping.hpp"

namespace lend::test::stopped_peer {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::size_t size = 4096;
constexpr auto soon = 20s;  // far beyond the 2 s that a call may take, on a loaded machine

struct Told {
  std::uint32_t number;
  Remote remote;
};

/// The next completion, or status -1 when none comes soon.
int await_status(RawQueue const& queue, std::uint64_t* id = nullptr) {
  auto const end = Clock::now() + soon;
  while (Clock::now() < end) {
    ibv_wc wc{};
    if (queue.poll(1, &wc) != 1) continue;
    if (id != nullptr) *id = wc.wr_id;
    return wc.status;
  }
  return -1;
}

/// Sends or writes once, and is stopped meanwhile; then once more. Both statuses go to the parent.
int be_stopped(Wire const& wire, bool writes) {
  if (!let_parent_trace()) return 1;
  RawDevice const device;
  RawMemory const memory{device, size};
  std::memset(memory.at(), 'x', size);
  RawQueue const queue{device};
  RawPair const pair{device, queue};
  Told theirs{};
  if (!tell(wire, Told{pair.number(), memory.remote()}) || !hear(wire, theirs)) return 2;
  if (pair.connect(theirs.number) != 0 || !wire.say() || !wire.hear()) return 3;
  auto& attributes = static_cast<soft::QueuePair*>(pair.get())->attributes;
  attributes.timeout = 10;  // 4.2 ms
  attributes.retry_cnt = 3;
  breakpoint();
  for (std::uint64_t id = 1; id < 3; ++id) {
    auto const piece = memory.piece(0, size);
    auto const error = writes ? pair.write(id, piece, theirs.remote) : pair.send(id, piece);
    if (error != 0) return 4;
    if (!tell(wire, await_status(queue))) return 5;
    if (!wire.hear()) return 6;
  }
  return 0;
}

/// This process's side: a connection to the child, and another beside it.
struct Side {
  explicit Side(bool writes)
      : peer{[writes](Wire const& wire) { return be_stopped(wire, writes); }} {
    Told theirs{};
    REQUIRE(hear(peer.wire(), theirs));
    REQUIRE(link.connect(theirs.number) == 0);
    REQUIRE(loop.connect(loop.number()) == 0);
    std::memset(memory.at(), 0, size);
    std::memset(beside.at(), 7, size);
    if (!writes)
      for (std::uint64_t id = 1; id < 3; ++id)
        REQUIRE(link.receive(id, memory.piece(0, size)) == 0);
    REQUIRE(tell(peer.wire(), Told{link.number(), memory.remote()}));
    REQUIRE(peer.wire().hear());
    REQUIRE(peer.wire().say());
  }
  void stop(At at) const {
    stop_in_request(peer, *static_cast<soft::QueuePair*>(link.get()), at, {memory.at(), size});
  }
  /// Posting, polling, registering, making and destroying on the rest of the device.
  void use_the_rest() const {
    REQUIRE(loop.write(9, beside.piece(0, 64), beside.remote(64)) == 0);
    CHECK(await_status(queue_beside) == IBV_WC_SUCCESS);
    CHECK(::ibv_req_notify_cq(queue.get(), 0) == 0);
    RawMemory const more{device, size};
    RawQueue const another{device};
    RawPair const brief{device, another};
    CHECK(brief.connect(brief.number()) == 0);
  }
  [[nodiscard]] bool are_whole(char letter) const {
    for (std::size_t i = 0; i < size; ++i)
      if (memory.at()[i] != static_cast<std::byte>(letter)) return false;
    return true;
  }

  Rendezvous rendezvous;
  PeerProcess peer;
  RawDevice device;
  RawMemory memory{device, size};
  RawMemory beside{device, size};
  RawChannel channel{device};
  RawQueue queue{device, 64, &channel};
  RawQueue queue_beside{device};
  RawPair link{device, queue};
  RawPair loop{device, queue_beside};
};

void check_refusal(int answer, pid_t holder) {
  CHECK(answer == EBUSY);
  CHECK(std::string{ibv().last_reason()}.find("process " + std::to_string(holder)) == 0);
}

}  // namespace

TEST_CASE("a peer that is stopped in the middle of a message holds up no call for long", "[soft]") {
  auto const at = GENERATE(At::queue_pair, At::copy, At::completion);
  bool const goes_on = at != At::copy || GENERATE(true, false);
  CAPTURE(static_cast<int>(at), goes_on);
  Side side{false};
  side.stop(at);
  auto const pid = side.peer.pid();
  ibv_wc wc{};

  // Breaking the connection waits for nothing; its receives end when the peer is out of it.
  auto began = Clock::now();
  CHECK(side.link.fail() == 0);
  CHECK(side.link.send(3, side.memory.piece(0, 8)) == 0);
  std::uint64_t id = 0;
  CHECK(await_status(side.queue, &id) == IBV_WC_WR_FLUSH_ERR);
  CHECK(id == 3);
  for (int i = 0; i < 100; ++i) REQUIRE(side.queue.poll(1, &wc) == 0);
  side.use_the_rest();
  // What would give back what the peer is at waits for a while.
  check_refusal(ibv().destroy_qp(side.link.get()), pid);
  ibv_qp_attr reset{};
  reset.qp_state = IBV_QPS_RESET;
  check_refusal(ibv().modify_qp(side.link.get(), &reset, IBV_QP_STATE), pid);
  check_refusal(ibv().dereg_mr(side.memory.region()), pid);
  if (at == At::completion) check_refusal(ibv().resize_cq(side.queue.get(), 128), pid);
  CHECK(Clock::now() - began < 4 * soon);
  side.use_the_rest();

  int const signal = goes_on ? SIGCONT : SIGKILL;
  REQUIRE(::kill(pid, signal) == 0);
  if (goes_on) {
    int status = 0;
    REQUIRE(hear(side.peer.wire(), status));
    // It had come in before ERR, or it finds it.
    CHECK(status == (at == At::queue_pair ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS));
    CHECK(await_status(side.queue, &id) ==
          (at == At::queue_pair ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS));
    CHECK(side.are_whole(at == At::queue_pair ? 0 : 'x'));
  } else {
    CHECK(await_status(side.queue, &id) == IBV_WC_WR_FLUSH_ERR);
  }
  CHECK(id == 1);
  CHECK(await_status(side.queue, &id) == IBV_WC_WR_FLUSH_ERR);
  CHECK(id == 2);
  // The destructors check that everything can be destroyed now.
}

TEST_CASE("what a stopped peer writes stays registered, and nothing else waits for it", "[soft]") {
  bool const goes_on = GENERATE(true, false);
  CAPTURE(goes_on);
  Side side{true};
  side.stop(At::copy);
  auto const pid = side.peer.pid();
  auto* const region = side.memory.region();
  auto const key = region->rkey;

  check_refusal(ibv().dereg_mr(region), pid);
  // Changed it is not, and valid again.
  CHECK(soft::rereg_mr(region, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                       IBV_ACCESS_LOCAL_WRITE) == IBV_REREG_MR_ERR_CMD);
  CHECK(region->rkey == key);
  side.use_the_rest();  // it registers and deregisters

  REQUIRE(::kill(pid, goes_on ? SIGCONT : SIGKILL) == 0);
  if (!goes_on) return;
  int status = 0;
  REQUIRE(hear(side.peer.wire(), status));
  CHECK(status == IBV_WC_SUCCESS);
  CHECK(side.are_whole('x'));
  REQUIRE(side.peer.wire().say());
  REQUIRE(hear(side.peer.wire(), status));
  CHECK(status == IBV_WC_SUCCESS);
  REQUIRE(side.peer.wire().say());
  CHECK(side.peer.exit_status() == 0);
}

TEST_CASE("receives of a connection that breaks by itself while its peer is stopped are flushed",
          "[soft]") {
  bool const goes_on = GENERATE(true, false);
  CAPTURE(goes_on);
  Side side{false};
  auto& attributes = static_cast<soft::QueuePair*>(side.link.get())->attributes;
  attributes.rnr_retry = 1;
  side.stop(At::queue_pair);
  // The peer has posted no receive: after one retry this breaks the connection.
  REQUIRE(side.link.send(3, side.memory.piece(0, 8)) == 0);
  std::uint64_t id = 0;
  CHECK(await_status(side.queue, &id) == IBV_WC_RNR_RETRY_EXC_ERR);
  CHECK(id == 3);

  REQUIRE(::kill(side.peer.pid(), goes_on ? SIGCONT : SIGKILL) == 0);
  for (std::uint64_t receive = 1; receive < 3; ++receive) {
    CHECK(await_status(side.queue, &id) == IBV_WC_WR_FLUSH_ERR);
    CHECK(id == receive);
  }
}

}  // namespace lend::test::stopped_peer
