// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what a caller gets wrong is named, nothing is posted, nothing stays on loan, and the
// channel goes on working. Method: each wrong call, then a right one on the same channel.
#include <vector>

#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

void check_still_works(TwoEnds& ends, MemoryRegion& memory) {
  CHECK(memory.loans() == 0);
  PollingScope scope{ends.b};
  auto arrival = must(scope.post_receive(memory.scatter(32, 8)));
  must(ends.a.send(memory.gather(0, 8)));
  CHECK(must(arrival.wait(within(5s))).bytes == 8);
  must(scope.finish());
}

bool says(Error const& error, std::string_view words) {
  return error.message().find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("a range out of bounds is refused with the range and the size", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  constexpr auto huge = std::numeric_limits<std::size_t>::max();

  for (auto const& [offset, length] :
       {std::pair<std::size_t, std::size_t>{60, 5}, {65, 1}, {huge, 2}, {2, huge}, {huge, huge}}) {
    auto const error = error_of(ends.a.send(memory.gather(offset, length)));
    CHECK(error == Errc::invalid_argument);
    CHECK(says(error, "64"));
    CHECK(error_of(ends.a.receive(memory.scatter(offset, length))) == Errc::invalid_argument);
    // The first element is lent by then.
    CHECK(error_of(ends.a.send({memory.gather(0, 8), memory.gather(offset, length)})) ==
          Errc::invalid_argument);
    CHECK(memory.loans() == 0);
    CHECK(error_of(memory.bytes(offset, length)) == Errc::invalid_argument);
  }
  check_still_works(ends, memory);
}

TEST_CASE("an empty list is refused", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));

  CHECK(error_of(ends.a.send(GatherList{})) == Errc::invalid_argument);
  CHECK(error_of(ends.a.receive(ScatterList{})) == Errc::invalid_argument);
  CHECK(error_of(ends.a.read({ScatterList{}, nobody(0)})) == Errc::invalid_argument);
  CHECK(error_of(ends.a.send(GatherElement{})) == Errc::invalid_argument);
  check_still_works(ends, memory);
}

TEST_CASE("a list of more elements than the channel has is refused", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  std::vector<GatherElement> const many(5, memory.gather(0, 1));

  auto const error = error_of(ends.a.send(GatherList{std::span{many}}));

  CHECK(error == Errc::invalid_argument);
  CHECK(says(error, "5"));
  check_still_works(ends, memory);
}

TEST_CASE("memory of another protection domain is refused before it is posted", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  auto const other_domain = must(ends.context.allocate_protection_domain());
  auto foreign = must(other_domain.allocate(64));

  CHECK(error_of(ends.a.send(foreign.gather(0, 8))) == Errc::invalid_argument);
  CHECK(error_of(ends.a.receive(foreign.scatter(0, 8))) == Errc::invalid_argument);
  // The first element is lent by then.
  CHECK(error_of(ends.a.send({memory.gather(0, 8), foreign.gather(0, 8)})) ==
        Errc::invalid_argument);
  CHECK(memory.loans() == 0);
  CHECK(error_of(ends.a.receive({memory.scatter(0, 8), foreign.scatter(0, 8)})) ==
        Errc::invalid_argument);
  CHECK(foreign.loans() == 0);
  check_still_works(ends, memory);
}

TEST_CASE("a write of another length than its target is refused before it is posted", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));

  // All elements are lent by then.
  CHECK(error_of(ends.a.write({memory.gather(0, 8), nobody(9)})) == Errc::invalid_argument);
  CHECK(memory.loans() == 0);
  CHECK(error_of(ends.a.read({memory.scatter(0, 9), nobody(8)})) == Errc::invalid_argument);
  CHECK(memory.loans() == 0);
  CHECK(error_of(ends.a.write({memory.gather(0, 8), nobody(8).slice(1, 8)})) ==
        Errc::invalid_argument);
  check_still_works(ends, memory);
}

TEST_CASE("a list that conflicts with itself is refused, and its first loan comes back",
          "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));

  CHECK(error_of(ends.a.receive({memory.scatter(0, 8), memory.scatter(7, 8)})) ==
        Errc::already_borrowed);
  check_still_works(ends, memory);
}

TEST_CASE("a request that a batch refuses behind a lent element leaves nothing on loan",
          "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  {
    PollingScope scope{ends.a};
    Batch batch = scope.batch();
    CHECK(error_of(batch.add_send({memory.gather(0, 8), memory.gather(60, 5)})) ==
          Errc::invalid_argument);
    CHECK(memory.loans() == 0);
    CHECK(error_of(batch.add_write({memory.gather(0, 8), nobody(9)})) == Errc::invalid_argument);
    CHECK(memory.loans() == 0);
    CHECK(error_of(batch.add_receive({memory.scatter(0, 8), memory.scatter(7, 8)})) ==
          Errc::already_borrowed);
    CHECK(memory.loans() == 0);
    must(scope.finish());
  }
  check_still_works(ends, memory);
}

TEST_CASE("depths out of range do not make a channel", "[channel]") {
  auto const context = open_test_device();
  auto const domain = must(context.allocate_protection_domain());
  auto const too_deep = static_cast<std::uint32_t>(context.limits().work_requests_max) + 1;

  for (std::uint32_t const depth : {0u, too_deep, 0xffff'ffffu}) {
    auto const send =
        error_of(channel_builder().protection_domain(domain).send_depth(depth).build());
    CHECK(send == Errc::invalid_argument);
    CHECK(says(send, "send_depth"));
    CHECK(says(send, std::to_string(depth)));
    auto const receive =
        error_of(channel_builder().protection_domain(domain).receive_depth(depth).build());
    CHECK(receive == Errc::invalid_argument);
    CHECK(says(receive, "receive_depth"));
  }
  CHECK(error_of(channel_builder().protection_domain(domain).elements(0).build()) ==
        Errc::invalid_argument);
  CHECK(error_of(channel_builder().protection_domain(domain).elements(1000).build()) ==
        Errc::invalid_argument);
}

TEST_CASE("a prepared channel can be used once", "[channel]") {
  auto const context = open_test_device();
  if (lacks(context, &DeviceCapabilities::endpoints)) return;
  auto const domain = must(context.allocate_protection_domain());
  auto prepared = must(channel_builder().protection_domain(domain).build());
  Endpoint const self = prepared.endpoint();

  auto channel = must(std::move(prepared).handshake(self));

  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  CHECK(error_of(std::move(prepared).handshake(self)) == Errc::stale_handle);
}
