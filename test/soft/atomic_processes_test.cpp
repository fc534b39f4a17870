// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: no atomic operation of several processes on one word is lost, whatever memory it is in.
// Method: three processes add to it at once; in mapped memory its owner adds by std::atomic too.
#include <atomic>

#include "raw_ends.hpp"
#include "rendezvous.hpp"
#include "support/peer_process.hpp"

using namespace lend;
using namespace lend::test;

namespace {

constexpr std::uint64_t additions = 3000;
constexpr std::size_t adders = 3;

struct AddersWord {
  std::uint32_t numbers[adders];
  Remote word;
};

int add_often(Wire const& wire, std::size_t which) {
  RawDevice const device;
  RawMemory const result{device, 8};
  RawQueue const queue{device};
  RawPair const link{device, queue};
  auto const number = link.number();
  AddersWord told{};
  if (!wire.put(std::as_bytes(std::span{&number, 1}))) return 1;
  if (!wire.take(std::as_writable_bytes(std::span{&told, 1}))) return 2;
  if (link.connect(told.numbers[which]) != 0 || !wire.say() || !wire.hear()) return 3;
  std::uint64_t latest = 0;
  for (std::uint64_t i = 0; i < additions; ++i) {
    if (link.fetch_and_add(i, result.piece(0, 8), told.word, 1) != 0) return 4;
    ibv_wc end{};
    while (queue.poll(1, &end) == 0) ::sched_yield();
    if (end.status != IBV_WC_SUCCESS) return 5;
    std::uint64_t before = 0;
    std::memcpy(&before, result.at(), sizeof before);
    if (i > 0 && before <= latest) return 6;
    latest = before;
  }
  return wire.say() && wire.hear() ? 0 : 7;
}

}  // namespace

TEST_CASE("additions of several processes to one word are all there", "[two_process]") {
  auto const home = GENERATE(Where::allocated, Where::private_memory);
  Rendezvous const rendezvous;
  std::vector<std::unique_ptr<PeerProcess>> peers;
  for (std::size_t i = 0; i < adders; ++i)
    peers.push_back(
        std::make_unique<PeerProcess>([i](Wire const& wire) { return add_often(wire, i); }));
  {
    RawDevice const device;
    RawMemory const word{device, 64, home};
    RawQueue const queue{device};
    std::vector<std::unique_ptr<RawPair>> links;
    AddersWord told{};
    told.word = word.remote();
    for (std::size_t i = 0; i < adders; ++i) {
      links.push_back(std::make_unique<RawPair>(device, queue));
      told.numbers[i] = links[i]->number();
    }
    for (std::size_t i = 0; i < adders; ++i) {
      std::uint32_t number = 0;
      REQUIRE(peers[i]->wire().take(std::as_writable_bytes(std::span{&number, 1})));
      REQUIRE(links[i]->connect(number) == 0);
      REQUIRE(peers[i]->wire().put(std::as_bytes(std::span{&told, 1})));
    }
    for (auto const& peer : peers) REQUIRE(peer->wire().hear());
    for (auto const& peer : peers) REQUIRE(peer->wire().say());
    auto& here = *reinterpret_cast<std::atomic<std::uint64_t>*>(word.at());
    std::uint64_t own = 0;
    if (home == Where::allocated)
      for (; own < additions; ++own) here.fetch_add(1);
    for (auto const& peer : peers) REQUIRE(peer->wire().hear());
    CHECK(here.load() == adders * additions + own);
    for (auto const& peer : peers) REQUIRE(peer->wire().say());
    for (auto const& peer : peers) CHECK(peer->exit_status() == 0);
  }
}
