// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: no addition of several processes to one word is lost or done twice, and each learns a value
// that no other learns. Method: forked peers add by batches and one by one; the word's owner
// compares the sum and what all of them say they found.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "support/peer_process.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t adders = 3;
constexpr std::size_t additions = 960;  // of each
constexpr std::size_t together = 16;

using Found = std::array<std::uint64_t, additions>;

int add_often(Wire const& wire) {
  auto end = one_end(wire);
  if (!end.context.capabilities().atomics) return 0;
  std::array<std::byte, RemoteRegion::encoded_size> told{};
  if (!wire.take(told)) return 1;
  auto const word = must(RemoteRegion::decode(told)).word(0);
  auto memory = must(end.domain.allocate(sizeof(Found)));
  auto const add_one = [&](std::size_t i) {
    return Atomic::fetch_add(memory.scatter(i * 8, 8), word, 1);
  };
  if (!wire.say() || !wire.hear()) return 2;  // all begin at once
  for (std::size_t i = 0; i < additions / 2; ++i) must(end.channel.atomic(add_one(i), within(20s)));
  must(end.channel.scope([&](PollingScope& scope) -> Result<void> {
    for (std::size_t i = additions / 2; i < additions; i += together) {
      auto batch = scope.batch();
      for (std::size_t j = i; j < i + together; ++j) {
        LEND_TRYV(batch.add_atomic(add_one(j)));
      }
      LEND_TRYV(batch.post(within(20s)));
    }
    return success();
  }));
  return wire.put(must(memory.bytes())) && wire.hear() ? 0 : 3;
}

}  // namespace

TEST_CASE("additions of several processes to one word are all there, each done once",
          "[two_process]") {
  bool const owned = GENERATE(true, false);
  CAPTURE(owned);
  std::vector<std::unique_ptr<PeerProcess>> peers;
  for (std::size_t i = 0; i < adders; ++i)
    peers.push_back(std::make_unique<PeerProcess>(&add_often));
  auto const context = open_test_device();
  if (!context.capabilities().atomics) return skip(context, "this device has no atomic operations");
  auto const domain = must(context.allocate_protection_domain());
  std::vector<std::byte> own(owned ? 0 : sizeof(std::uint64_t));
  auto const memory =
      owned ? must(domain.unsafe_allocate_exposed(sizeof(std::uint64_t), RemoteAccess::atomic))
            : must(domain.unsafe_register_exposed(own, RemoteAccess::atomic));
  std::vector<Channel> channels;
  for (auto const& peer : peers) {
    channels.push_back(
        connected_over(peer->wire(), context, must(prepare_channel(domain, ChannelOptions{}))));
    REQUIRE(peer->wire().put(must(memory.remote()).encode()));
  }
  for (auto const& peer : peers) REQUIRE(peer->wire().hear());
  for (auto const& peer : peers) REQUIRE(peer->wire().say());

  std::vector<std::uint64_t> found;
  for (auto const& peer : peers) {
    Found one{};
    REQUIRE(hear(peer->wire(), one));
    CHECK(std::is_sorted(one.begin(), one.end()));
    found.insert(found.end(), one.begin(), one.end());
  }
  for (auto const& peer : peers) REQUIRE(peer->wire().say());

  std::uint64_t sum = 0;
  std::memcpy(&sum, must(memory.bytes()).data(), sizeof sum);
  CHECK(sum == adders * additions);
  std::sort(found.begin(), found.end());
  for (std::uint64_t i = 0; i < found.size(); ++i) REQUIRE(found[i] == i);
  for (auto const& peer : peers) CHECK(peer->exit_status() == 0);
}
