// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a completion queue that cannot be polled costs no loan: bytes stay lent until the work is
// over for certain, and every way out of a scope ends and tells. Method: a planned queue error.
#include <lend/soft/faults.hpp>

#include <optional>
#include <stdexcept>

#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

/// Two ends, of which the first one's completion queue fails from its first send on.
struct Unpollable {
  TwoEnds ends = two_ends();
  MemoryRegion memory = must(ends.domain.allocate(64));

  Unpollable() { must(inject_faults(ends.context, FaultPlan{}.completion_queue_fails(1))); }

  /// A receive that nobody answers, and a send that breaks the queue.
  PendingWork work(PollingScope& scope) {
    static_cast<void>(must(scope.post_receive(memory.scatter(0, 8))));
    return must(scope.post_send(memory.gather(32, 8)));
  }
  void check_ended(std::span<Error const> failures) const {
    CHECK(failures.size() == 2);
    CHECK(memory.loans() == 0);
    REQUIRE(ends.a.first_cause() != nullptr);
    CHECK(*ends.a.first_cause() == Errc::system_failed);
  }
};

}  // namespace

TEST_CASE("a handle that cannot be polled keeps its work, and bytes stay on loan", "[soft]") {
  Unpollable it;
  PollingScope scope{it.ends.a};
  auto sent = it.work(scope);

  for (int i = 0; i < 3; ++i) {
    CHECK(error_of(sent.poll()) == Errc::system_failed);
    CHECK(error_of(sent.wait(within(10s))) == Errc::system_failed);
    CHECK(it.memory.loans() == 2);
    CHECK(error_of(it.memory.mutable_bytes(0, 8)) == Errc::already_borrowed);
  }
  CHECK(it.ends.a.first_cause() == nullptr);

  auto const error = error_of(scope.finish());
  CHECK(error == Errc::system_failed);
  it.check_ended(error.drained());
  CHECK(error_of(sent.poll()) == Errc::stale_handle);
}

TEST_CASE("a scope whose queue fails ends in every way out, and tells", "[soft]") {
  Unpollable it;
  auto& channel = it.ends.a;

  SECTION("a value") {
    bool const manual = GENERATE(false, true);
    auto const body = [&](PollingScope& scope) -> Result<int> {
      static_cast<void>(it.work(scope));
      return 5;
    };
    auto const error = error_of(manual ? channel.manual_scope(body) : channel.scope(body));
    CHECK(error == Errc::system_failed);
    it.check_ended(error.drained());
  }
  SECTION("an error") {
    auto const error = error_of(channel.scope([&](PollingScope& scope) -> Result<int> {
      static_cast<void>(it.work(scope));
      return Errc::not_found;
    }));
    CHECK(error == Errc::not_found);
    it.check_ended(error.drained());
  }
  SECTION("the destructor") {
    {
      PollingScope scope{channel};
      static_cast<void>(it.work(scope));
    }
    it.check_ended(channel.last_failures());
  }
  SECTION("an exception") {
    auto const leave = [&] {
      PollingScope scope{channel};
      static_cast<void>(must(scope.post_send(it.memory.gather(32, 8))));
      throw std::runtime_error{"oops"};
    };
    CHECK_THROWS(leave());
    CHECK(channel.last_failures().size() == 1);
    CHECK(it.memory.loans() == 0);
  }
  SECTION("a post that waits for room") {
    auto ends = two_ends(options_with_depth(1));
    auto memory = must(ends.domain.allocate(64));
    must(inject_faults(ends.context, FaultPlan{}.completion_queue_fails(1)));
    PollingScope scope{ends.a};
    static_cast<void>(must(scope.post_send(memory.gather(0, 8))));
    CHECK(error_of(scope.post_send(memory.gather(8, 8), within(10s))) == Errc::system_failed);
    CHECK(error_of(scope.finish()) == Errc::system_failed);
  }
  SECTION("the channel, destroyed first") {
    std::optional<Channel> doomed{std::move(channel)};
    PollingScope scope{*doomed};
    static_cast<void>(it.work(scope));
    doomed.reset();
    auto const error = error_of(scope.finish());
    CHECK(error == Errc::stale_handle);
    CHECK(error.drained().size() == 2);
    CHECK(it.memory.loans() == 0);
  }
}
