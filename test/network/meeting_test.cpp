// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: two programs tell each other a note before they connect, and each may refuse. Method: a
// forked process on loopback.
#include <lend/network/meeting.hpp>

#include <string>
#include <string_view>

#include "support/peer_process.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

constexpr auto long_enough = 60s;

std::span<std::byte const> bytes_in(std::string_view text) {
  return std::as_bytes(std::span{text});
}

}  // namespace

TEST_CASE("a note is met, and one too long is refused", "[network]") {
  PeerProcess peer{[](Wire const& wire) {
    auto const domain = must(open_test_device().allocate_protection_domain());
    auto prepared = must(channel_builder().protection_domain(domain).build());
    std::string const note(note_bytes_max, 'c');
    auto met =
        must(meet(wire.take_text(), prepared.endpoint(), bytes_in(note), within(long_enough)));
    if (met.note().size() != 3) return 1;
    auto const refused = std::move(met).settle(success(), within(long_enough));
    if (refused || refused.error() != Errc::incompatible_peer) return 2;
    return refused.error().message().find("I do not like c") == std::string::npos ? 3 : 0;
  }};
  auto const context = open_test_device();
  if (lacks(context, &DeviceCapabilities::endpoints)) return;
  auto const domain = must(context.allocate_protection_domain());
  auto prepared = must(channel_builder().protection_domain(domain).build());
  auto listener = must(Listener::open("127.0.0.1:0"));
  std::string const too_long(note_bytes_max + 1, 'x');
  CHECK(error_of(listener.meet(prepared.endpoint(), bytes_in(too_long), within(long_enough))) ==
        Errc::invalid_argument);
  REQUIRE(peer.wire().put_text(listener.address()));

  auto met = must(listener.meet(prepared.endpoint(), bytes_in("abc"), within(long_enough)));

  CHECK(met.note().size() == note_bytes_max);
  CHECK(met.note()[0] == std::byte{'c'});
  Error const dislike{Errc::incompatible_peer, "I do not like c"};
  CHECK(error_of(std::move(met).settle(dislike, within(long_enough))) == Errc::incompatible_peer);
  CHECK(error_of(std::move(met).settle(success(), within(long_enough))) == Errc::stale_handle);
  CHECK(peer.exit_status() == 0);
}
