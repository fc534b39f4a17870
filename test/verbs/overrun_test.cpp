// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a completion queue that overruns breaks its channel, with the event as first cause, and no
// other. Method: raw writes on a channel's queue pair. test/soft/overrun_test.cpp has the soft one.
#include "support/two_ends.hpp"

#include <infiniband/verbs.h>
#include <poll.h>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

/// Writes no bytes past lend until the completion queue has more completions than it has room for,
/// and the device has said so.
void overrun(ibv_qp& queue_pair) {
  Deadline const deadline = within(20s);
  for (int written = 0; written < queue_pair.send_cq->cqe + 2;) {
    ibv_send_wr write{}, *refused = nullptr;
    write.opcode = IBV_WR_RDMA_WRITE;
    write.send_flags = IBV_SEND_SIGNALED;
    int const result = ibv_post_send(&queue_pair, &write, &refused);
    written += result == 0 ? 1 : 0;  // the send queue is full at times
    if (deadline.has_passed()) FAIL("the queue takes no more work: " << result);
  }
  pollfd event{queue_pair.context->async_fd, POLLIN, 0};
  REQUIRE(::poll(&event, 1, 20'000) == 1);
}

}  // namespace

TEST_CASE("a completion queue that overruns breaks its channels, and no others", "[verbs]") {
  ChannelOptions options = options_with_depth(8);
  options.wait = Wait::event;
  auto ends = two_ends(options);
  if (ends.context.kind() == DeviceKind::soft)
    return skip(ends.context, "a request keeps its place until its completion is polled");
  if (lacks(ends.context, &DeviceCapabilities::endpoints)) return;
  auto [bystander, peer] = connected(ends.domain, options, options);
  auto memory = must(ends.domain.allocate(64));
  PollingScope scope{ends.a}, other{bystander};
  auto receiving = must(scope.post_receive(memory.scatter(0, 8)));
  auto undisturbed = must(other.post_receive(memory.scatter(8, 8)));
  overrun(*ends.a.native());

  auto const error = error_of(receiving.wait(within(20s)));
  CAPTURE(error.message());
  REQUIRE(ends.a.first_cause() != nullptr);
  CHECK(*ends.a.first_cause() == Errc::device_event);
  CHECK(ends.a.first_cause()->message().find("IBV_EVENT_CQ_ERR") != std::string::npos);
  static_cast<void>(scope.finish());

  must(peer.send(memory.gather(16, 8), within(10s)));
  CHECK(must(undisturbed.wait(within(10s))).bytes == 8);
  must(other.finish());
  CHECK(bystander.first_cause() == nullptr);
}
