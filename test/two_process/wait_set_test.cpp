// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: of many clients in other processes, those that die break their own channel in the server's
// set, and the others are served on. Method: one of two peers is killed while the server sends to
// both.
#include "support/peer_process.hpp"

#include <array>
#include <optional>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

int receive_until_killed(Wire const& wire) {
  auto end = one_end(wire);
  auto memory = must(end.domain.allocate(64));
  for (;;) must(end.channel.receive(memory.scatter(), within(60s)));
  return 0;
}

}  // namespace

TEST_CASE("a killed peer breaks its own channel of a set, and no other", "[two_process]") {
  PeerProcess dying{receive_until_killed}, living{receive_until_killed};
  Context const context = open_test_device();
  if (lacks(context, &DeviceCapabilities::waits_for_receives)) return;
  auto const domain = must(context.allocate_protection_domain());
  auto set = must(WaitSet::create(context));
  ChannelOptions options;
  options.wait_set = &set;
  options.queue_pair.ack_timeout = 10ms;
  options.queue_pair.ack_retries = 3;
  std::array<Channel, 2> channels{
      connected_over(dying.wire(), context,
                     must(prepare_channel(domain, (options.tag = 0, options)))),
      connected_over(living.wire(), context,
                     must(prepare_channel(domain, (options.tag = 1, options))))};
  auto memory = must(domain.allocate(128));
  std::array<Ready, 4> room{};
  std::array<int, 2> sent{};
  bool is_broken = false;
  PollingScope to_dying{channels[0]}, to_living{channels[1]};
  std::array<PollingScope*, 2> const scopes{&to_dying, &to_living};
  std::array<std::optional<PendingWork>, 2> pending;
  auto const send = [&](std::size_t to) {
    auto posted = scopes[to]->post_send(memory.gather(64 * to, 64), within(10s));
    if (posted.has_value()) pending[to].emplace(std::move(posted).value());
  };
  send(0);
  send(1);
  while (!is_broken || sent[1] < 2000) {
    for (Ready const& ready : must(set.wait(room, within(30s)))) {
      if (ready.what == Ready::What::broken) {
        REQUIRE(ready.tag == 0);
        is_broken = true;
        continue;
      }
      if (!must(pending[ready.tag]->poll()).has_value()) continue;
      if (++sent[ready.tag] == 500 && ready.tag == 0) dying.kill();
      send(ready.tag);
    }
  }
  CHECK(sent[0] >= 500);
  REQUIRE(channels[0].first_cause() != nullptr);
  CHECK(channels[1].first_cause() == nullptr);
  CHECK(to_dying.finish().has_error());
  must(to_living.finish());
  CHECK(memory.loans() == 0);
  living.kill();
}
