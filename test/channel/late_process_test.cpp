// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a process that gets no CPU for longer than an abort may take does not blame the device: it
// takes what came meanwhile, and keeps the queue pair. Method: the fake provider, an empty poll of
// which takes so long.
#include "channel/fake_end.hpp"
#include "support/catch.hpp"

#include <lend/lend.hpp>

#include <chrono>
#include <thread>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

void complete_all(ibv_wc_status status) {
  for (; !Fake::get().posted.empty(); Fake::get().posted.pop_front())
    complete(Fake::get().posted.front(), status);
}

/// The next empty poll takes longer than an abort; what it just missed is there then.
void be_late() {
  Fake::get().at_empty_poll = [] {
    std::this_thread::sleep_for(2100ms);
    complete_all(IBV_WC_WR_FLUSH_ERR);
  };
}

}  // namespace

TEST_CASE("what came back while the process was stopped is not taken by force", "[channel]") {
  bool const waits = GENERATE(true, false);
  auto [memory, channel] = fake_end({}, {});
  PollingScope scope{channel};
  auto work = scope.post_receive(memory.scatter(0, 8)).value();
  if (waits) {
    Fake::get().at_error = be_late;
    scope.drain_within(0ns);
    CHECK(scope.finish().has_error());
  } else {
    auto other = scope.post_send(memory.gather(8, 8)).value();
    complete(Fake::get().posted.back(), IBV_WC_RETRY_EXC_ERR);
    Fake::get().posted.pop_back();
    CHECK(other.poll().has_error());
    CHECK(!work.poll().value().has_value());  // the abort begins
    be_late();
    CHECK(work.poll().has_error());
  }
  CHECK(memory.loans() == 0);
  CHECK_FALSE(Fake::get().called.contains("ibv_destroy_qp"));
}
