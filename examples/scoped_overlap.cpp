// SPDX-License-Identifier: MIT OR Apache-2.0
// Many messages under way at once, and what happens to a program that lends the same bytes twice.
#include <lend/lend.hpp>

#include <array>
#include <iostream>
#include <optional>

constexpr std::size_t messages = 12, lanes = 4, lane_bytes = 1024;

/// One message under way.
struct Lane {
  lend::PendingWork departure, arrival;
};

static lend::Result<void> overlap() {
  LEND_TRY(device, lend::open_device());
  LEND_TRY(domain, device.allocate_protection_domain());
  LEND_TRY(source, domain.allocate(lanes * lane_bytes));
  LEND_TRY(target, domain.allocate(lanes * lane_bytes));
  LEND_TRY(prepared, lend::channel_builder().protection_domain(domain).build());
  lend::Endpoint const itself = prepared.endpoint();
  LEND_TRY(channel, std::move(prepared).handshake(itself));

  return channel.scope([&](lend::PollingScope& scope) -> lend::Result<void> {
    std::array<std::optional<Lane>, lanes> under_way;
    auto const from = source.chunks(lane_bytes), to = target.chunks(lane_bytes);
    for (std::size_t i = 0; i < messages + lanes; ++i) {
      std::size_t const at = i % lanes;
      if (auto& lane = under_way[at]) {  // message i - lanes is here: wait for that one alone
        LEND_TRYV(lane->departure.wait());
        LEND_TRY(done, lane->arrival.wait());
        LEND_TRY(bytes, to[at].bytes(0, done.bytes));
        std::cout << "message " << int(bytes.front()) << " arrived, " << scope.outstanding()
                  << " requests still under way\n";
      }
      if (i >= messages) continue;  // the last lanes only wait
      LEND_TRY(draft, from[at].mutable_bytes());
      draft.front() = std::byte(i);
      LEND_TRY(arrival, scope.post_receive(to[at].scatter()));
      LEND_TRY(departure, scope.post_send(from[at].gather()));
      under_way[at] = Lane{std::move(departure), std::move(arrival)};
    }

    // A receive borrows its bytes exclusively. A send of them would race with it, so the ledger
    // refuses the send. Nothing was posted, and the scope remains usable.
    LEND_TRY(arrival, scope.post_receive(target.scatter(0, 512)));
    auto const refused = scope.post_send(target.gather(256, 512));
    if (refused) return lend::Error{lend::Errc::unsupported, "the ledger let an overlap pass"};
    std::cout << "refused, rightly: " << refused.error().message() << '\n';

    LEND_TRYV(scope.post_send(target.gather(512, 512)));  // other bytes: no conflict
    LEND_TRYV(arrival.wait());                            // ends the receive's loan
    LEND_TRYV(scope.post_receive(target.scatter(1024, 512)));
    LEND_TRYV(scope.post_send(target.gather(256, 512)));  // now allowed
    return lend::success();  // the scope waits for the last two requests
  });
}

int main() {
  auto const done = overlap();
  if (!done) std::cerr << "scoped_overlap: " << done.error().describe() << '\n';
  return done ? 0 : 1;
}
