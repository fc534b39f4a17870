// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: an exchange whose rows keep their handles goes on as at first, however its runs end.
// Method: two ranks as threads; one sends by hand what does not fit.
#include "group/ranks.hpp"
#include "group/scope_ranks.hpp"

#include <lend/group.hpp>

#include <cstdint>
#include <thread>

using namespace lend;
using namespace lend::test;

namespace exchanges_again {

constexpr std::size_t long_row = 1024, short_row = 8;  // values
constexpr int runs = 600;                              // more than a look at the links takes

/// On each of two ranks, which are each other's peers.
template <class Body>
void on_two(Body const& body) {
  ScopeRanks ranks{2};
  on_each_with_values(ranks, 4 * long_row, [&](Group& group, Values& values) {
    auto peers = taken(Peers::connect_all(group, within(patience)));
    body(group, peers, values, 1 - group.rank());
  });
}

}  // namespace exchanges_again

TEST_CASE("runs of an exchange end by poll(), wait_any() and wait() in turns", "[group]") {
  exchanges_again::on_two([](Group&, Peers& peers, Values& values, std::uint32_t other) {
    using namespace exchanges_again;
    constexpr std::size_t lent_to = long_row, written_to = 2 * long_row;
    Exchange exchange{peers};
    exchange.receive(other, values.scatter(lent_to, long_row))
        .receive(other, values.scatter(written_to, short_row))
        .send(other, values.gather(0, long_row))
        .send(other, values.gather(short_row, short_row));
    for (int run = 0; run < runs; ++run) {
      expect(exchange.start(within(patience)));
      if (run % 3 == 0) {
        while (!taken(exchange.poll())) std::this_thread::yield();
      } else if (run % 3 == 1) {
        while (taken(exchange.wait_any(within(patience)))) {
        }
        expect(exchange.wait(within(patience)));
      } else {
        expect(exchange.wait());
      }
      expect(are(values, lent_to, other, 0, long_row), "a lent row is not the peer's");
      expect(are(values, written_to, other, short_row, short_row), "a written row is not");
      expect(values.mutable_values().has_value(), "bytes are still on loan");
    }
    expect(exchange.finish());
  });
}

TEST_CASE("an exchange goes on after a run in which a row was too short", "[group]") {
  if (lacks(open_test_device(), &DeviceCapabilities::waits_for_receives)) return;
  exchanges_again::on_two([](Group& group, Peers& peers, Values& values, std::uint32_t other) {
    using namespace exchanges_again;
    Exchange exchange{peers};
    exchange.receive(other, values.scatter(long_row, long_row))
        .send(other, values.gather(0, long_row));
    expect(exchange.run(within(patience)));
    if (group.rank() == 1) {
      PeerScope scope{peers};
      auto arrival = taken(scope.post_receive(other, values.scatter(2 * long_row, long_row)));
      static_cast<void>(taken(scope.post_send(other, values.gather(0, long_row - 1))));
      expect(arrival.wait(within(patience)).has_value(), "the row did not come");
      expect(scope.finish());
    } else {
      auto const run = exchange.run(within(patience));
      expect(run.has_error() && run.error() == Errc::disagreement, "a short row is taken");
    }
    for (int run = 0; run < 3; ++run) expect(exchange.run(within(patience)));
    expect(are(values, long_row, other, 0, long_row), "the row is not the peer's");
    expect(exchange.finish());
  });
}
