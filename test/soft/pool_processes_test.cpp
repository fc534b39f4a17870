// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: several processes send into one shared receive queue, one is killed at any moment, and yet
// every receive ends once and the others go on. Method: a timer kills one sender at a random
// microsecond; afterwards its queue pair is failed and the queue emptied by a loop-back; the seed
// is printed and taken back from LEND_TEST_SEED.
#include <chrono>
#include <ctime>
#include <memory>
#include <set>

#include "raw_ends.hpp"
#include "rendezvous.hpp"
#include "support/peer_process.hpp"

using namespace lend;
using namespace lend::test;

namespace {

constexpr std::uint32_t senders = 3;  // the first is killed
constexpr std::uint32_t messages = 300;
constexpr std::uint32_t pool_depth = 64;
constexpr std::size_t message_bytes = 256;
constexpr std::uint64_t is_receive = std::uint64_t{1} << 32;

int send_many(Wire const& wire, std::uint32_t which, unsigned span) {
  RawDevice const device;
  RawMemory const memory{device, message_bytes};
  RawQueue const queue{device};
  RawPair const link{device, queue, 16};
  auto const mine = link.number();
  std::uint32_t theirs = 0;
  if (!wire.put(std::as_bytes(std::span{&mine, 1}))) return 1;
  if (!wire.take(std::as_writable_bytes(std::span{&theirs, 1}))) return 2;
  if (link.connect(theirs) != 0 || !wire.say() || !wire.hear()) return 3;
  if (which == 0) {
    sigevent how{};
    how.sigev_notify = SIGEV_SIGNAL;
    how.sigev_signo = SIGKILL;
    timer_t timer{};
    itimerspec when{};
    when.it_value.tv_nsec = span * 1000 + 1;
    if (::timer_create(CLOCK_MONOTONIC, &how, &timer) != 0) return 4;
    if (::timer_settime(timer, 0, &when, nullptr) != 0) return 4;
  }
  std::uint32_t posted = 0;
  for (std::uint32_t done = 0; done < messages || which == 0;) {
    auto const length = posted % 2 == 0 ? 8 : message_bytes;  // in the completion, and beside it
    if ((posted < messages || which == 0) && link.send(posted, memory.piece(0, length)) == 0)
      ++posted;
    ibv_wc end{};
    if (queue.poll(1, &end) == 0) continue;
    if (end.status != IBV_WC_SUCCESS) return 5;
    ++done;
  }
  return wire.hear() ? 0 : 6;
}

/// The owner: keeps the shared queue full and counts what comes out of it.
struct Owner {
  RawDevice device;
  RawMemory memory{device, message_bytes};
  RawQueue queue{device, 1024};
  ibv_srq* pool = nullptr;
  std::set<std::uint64_t> outstanding;
  std::uint64_t next = is_receive;
  std::uint32_t received = 0;
  std::uint32_t flushed = 0;

  Owner() {
    ibv_srq_init_attr asked{};
    asked.attr = {pool_depth, 1, 0};
    pool = ibv().create_srq(device.domain(), &asked);
    REQUIRE(pool != nullptr);
  }
  ~Owner() { CHECK(ibv().destroy_srq(pool) == 0); }
  Owner(Owner const&) = delete;
  Owner& operator=(Owner const&) = delete;

  bool post() {
    if (post_receive(::ibv_post_srq_recv, pool, next, memory.piece(0, message_bytes)) != 0)
      return false;
    REQUIRE(outstanding.insert(next++).second);
    return true;
  }
  /// Takes one completion of a receive; each is of one that is outstanding.
  bool poll(std::uint32_t of = 0) {
    ibv_wc end{};
    if (queue.poll(1, &end) == 0) return false;
    if (end.wr_id < is_receive) return true;  // of the loop-back's sends
    REQUIRE(outstanding.erase(end.wr_id) == 1);
    if (end.status == IBV_WC_WR_FLUSH_ERR)
      ++flushed;
    else
      REQUIRE(end.status == IBV_WC_SUCCESS);
    if (end.status == IBV_WC_SUCCESS && end.qp_num != of) ++received;
    return true;
  }
};

void survive_senders(unsigned seed) {
  std::mt19937 random{seed};
  auto const span = static_cast<unsigned>(random() % 3000);
  std::vector<std::unique_ptr<PeerProcess>> peers;
  for (std::uint32_t i = 0; i < senders; ++i)
    peers.push_back(
        std::make_unique<PeerProcess>([=](Wire const& wire) { return send_many(wire, i, span); }));
  Owner owner;
  std::vector<std::unique_ptr<RawPair>> links;
  for (auto const& peer : peers) {
    links.push_back(std::make_unique<RawPair>(owner.device, owner.queue, 16, owner.pool));
    auto const mine = links.back()->number();
    std::uint32_t theirs = 0;
    REQUIRE(peer->wire().take(std::as_writable_bytes(std::span{&theirs, 1})));
    REQUIRE(peer->wire().put(std::as_bytes(std::span{&mine, 1})));
    REQUIRE(links.back()->connect(theirs) == 0);
    REQUIRE(peer->wire().hear());
  }
  for (auto const& peer : peers) REQUIRE(peer->wire().say());

  auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds{20};
  auto const victim = links[0]->number();
  while (owner.received < (senders - 1) * messages && std::chrono::steady_clock::now() < limit) {
    owner.post();
    owner.poll(victim);
  }
  REQUIRE(owner.received == (senders - 1) * messages);
  CHECK(peers[0]->exit_status() == 128 + SIGKILL);
  REQUIRE(links[0]->fail() == 0);
  while (owner.poll(victim)) {
  }
  CHECK(owner.flushed <= 1);

  // What is left was taken by nobody: a loop-back finds all of it.
  while (owner.post()) {
  }
  CHECK(owner.outstanding.size() == pool_depth);
  RawPair const loop{owner.device, owner.queue, pool_depth, owner.pool};
  REQUIRE(loop.connect(loop.number()) == 0);
  for (std::uint32_t i = 0; i < pool_depth; ++i)
    REQUIRE(loop.send(i, owner.memory.piece(0, 8)) == 0);
  while (!owner.outstanding.empty() && std::chrono::steady_clock::now() < limit) owner.poll(victim);
  CHECK(owner.outstanding.empty());
  for (std::uint32_t i = 1; i < senders; ++i) {
    REQUIRE(peers[i]->wire().say());
    CHECK(peers[i]->exit_status() == 0);
  }
}

}  // namespace

TEST_CASE("a sender killed in the middle of a shared receive queue loses no receive of it",
          "[two_process]") {
  auto const first_seed = seed_of_this_run();
  Rendezvous const rendezvous;
  constexpr unsigned rounds = 40;
  for (unsigned round = 0; round < rounds; ++round) {
    CAPTURE(first_seed, round);
    survive_senders(first_seed + round);
  }
}
