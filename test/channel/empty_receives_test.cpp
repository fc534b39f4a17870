// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: receives without bytes that are posted together are taken each by its own completion, and
// of a chain that the device takes only in part, those it took come back and the others are gone.
// Method: the fake provider, which completes and refuses as the test says.
#include "support/catch.hpp"
#include "verbs/fake_provider.hpp"

#include <flow/empty_receives.hpp>
#include <lend/lend.hpp>
#include <verbs/queue/adoption.hpp>

#include <algorithm>

using namespace lend;
using namespace lend::test;
using channel::ChannelState;
using channel::ScopeRecord;
using flow::EmptyReceives;

namespace {

constexpr std::uint32_t empty_depth = 8;

Channel channel_of_empty() {
  Fake::get().reset({});
  auto const domain = open_fake().value().allocate_protection_domain().value();
  auto prepared = channel_builder()
                      .protection_domain(domain)
                      .send_depth(empty_depth)
                      .receive_depth(empty_depth)
                      .build();
  auto queue_pair = verbs::QueuePairAccess::connected(prepared.value().take_queue_pair(), nullptr);
  return std::move(prepared).value().adopt(std::move(queue_pair)).value();
}

std::uint64_t id_of_empty(std::size_t i) {
  return Fake::get().posted.at(i).request.wr_id;
}

void complete_empty(std::size_t i, ibv_wc_status status = IBV_WC_SUCCESS) {
  auto entry = completion_of(Fake::get().posted.at(i), status);
  entry.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
  Fake::get().completions.push_back(entry);
}

}  // namespace

TEST_CASE("empty receives of one call are one chain, and have a result each", "[channel]") {
  ScopeRecord scope;
  auto channel = channel_of_empty();
  auto& state = ChannelState::of(channel);
  state.scopes.append(scope.as_open);
  EmptyReceives receives;
  // The second is shorter: nothing behind its end is posted.
  for (std::uint32_t const count : {empty_depth, 3u}) {
    Fake::get().posted.clear();
    auto const calls = Fake::get().post_calls;
    auto const posted = receives.post(state, scope, count);
    CHECK(posted.size() == count);
    CHECK(Fake::get().post_calls == calls + 1);
    REQUIRE(Fake::get().posted.size() == count);
    CHECK(scope.outstanding == count);
    for (std::size_t i = 0; i < count; ++i) {
      CHECK(Fake::get().posted[i].request.num_sge == 0);
      complete_empty(i);
    }
    while (scope.outstanding > 0) CHECK(state.poll().value() > 0);
    for (std::size_t i = 0; i < count; ++i) {
      auto* const slot = state.in_flight.slots.find({id_of_empty(i)});
      REQUIRE(slot != nullptr);
      CHECK((slot->finished && !slot->failed));
      state.in_flight.slots.collect(*slot);
    }
  }
}

TEST_CASE("a channel whose device takes some of the empty receives is broken, and gets those back",
          "[channel]") {
  bool const is_clear = GENERATE(true, false);
  CAPTURE(is_clear);
  ScopeRecord scope;
  auto channel = channel_of_empty();
  auto& state = ChannelState::of(channel);
  state.scopes.append(scope.as_open);
  EmptyReceives receives;
  Fake::get().refuse_after = 2;
  Fake::get().post_result = EIO;
  Fake::get().refuses_once = true;
  if (!is_clear) Fake::get().silent_after = 0;
  std::uint32_t const taken = is_clear ? 2 : 4;  // or perhaps: all may be
  CHECK(receives.post(state, scope, 4).size() == taken);
  CHECK(scope.outstanding == taken);
  REQUIRE(channel.first_cause() != nullptr);
  CHECK(*channel.first_cause() == Errc::system_failed);
  for (std::uint32_t i = 0; i < taken; ++i) complete_empty(i, IBV_WC_WR_FLUSH_ERR);
  CHECK(state.poll().value() == taken);
  CHECK(scope.outstanding == 0);
  // Nothing is posted to a broken channel.
  CHECK(receives.post(state, scope, 1).empty());
}
