// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a completion queue that overruns breaks the channels of that queue, with the event as first
// cause, and no others. Method: a raw queue pair that fills the queue of a channel.
#include "soft/support.hpp"
#include "support/two_ends.hpp"

#include <channel/state/channel_state.hpp>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

TEST_CASE("a soft completion queue that overruns breaks its channels, and no others", "[soft]") {
  ChannelOptions options = options_with_depth(8);
  options.wait = Wait::event;
  auto ends = two_ends(options);
  auto [bystander, peer] = connected(ends.domain, options, options);
  auto memory = must(ends.domain.allocate(64));
  PollingScope scope{ends.a}, other{bystander};
  auto receiving = must(scope.post_receive(memory.scatter(0, 8)));
  auto undisturbed = must(other.post_receive(memory.scatter(8, 8)));

  ibv_cq& queue = channel::ChannelState::of(ends.a).progress.raw();
  auto const room = static_cast<std::uint32_t>(queue.cqe) + 1;
  auto const filler = make_queue_pair(ends.domain.native(), &queue, &queue,
                                      {.sends = room, .receives = room, .pieces = 1});
  bring_to(filler.get(), IBV_QPS_RTS, filler->qp_num);
  for (std::uint32_t i = 0; i < room; ++i) {
    ibv_recv_wr receive{};
    ibv_recv_wr* refused = nullptr;
    REQUIRE(ibv_post_recv(filler.get(), &receive, &refused) == 0);
    ibv_send_wr send{};
    send.opcode = IBV_WR_SEND;
    ibv_send_wr* not_sent = nullptr;
    REQUIRE(ibv_post_send(filler.get(), &send, &not_sent) == 0);
  }

  auto const error = error_of(receiving.wait(within(20s)));
  REQUIRE(ends.a.first_cause() != nullptr);
  CHECK(*ends.a.first_cause() == Errc::device_event);
  CHECK(ends.a.first_cause()->message().find("IBV_EVENT_CQ_ERR") != std::string::npos);
  static_cast<void>(scope.finish());
  CHECK(memory.loans() == 1);

  must(peer.send(memory.gather(16, 8), within(10s)));
  CHECK(must(undisturbed.wait(within(10s))).bytes == 8);
  must(other.finish());
  CHECK(bystander.first_cause() == nullptr);
}
