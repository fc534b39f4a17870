// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: one secret connects two sides, another keeps them apart, and where lend cannot keep one it
// refuses it. Method: threads; linked once more with what a lend without libsodium has.
#include <lend/launch/desk.hpp>
#include <lend/network/connect.hpp>

#include <optional>

#include "network/raw_peers.hpp"
#include "network/station.hpp"
#include "support/peer_process.hpp"

using namespace lend;
using namespace lend::test;

TEST_CASE("two threads with one secret connect", "[network]") {
  Station station;
  if (!has_secrets() || lacks(station.context, &DeviceCapabilities::endpoints)) return;
  auto listener = must(Listener::open("127.0.0.1:0", {.secret = right_secret}));
  std::optional<Result<Channel>> far;
  std::thread connecting{[&] {
    far =
        connect(listener.address(), station.prepared(), within(patience), {.secret = right_secret});
  }};

  auto near = listener.accept(station.prepared(), within(patience));
  connecting.join();

  CHECK(must(std::move(near)).peer() == must(std::move(*far)).endpoint());
}

TEST_CASE("where lend cannot seal a secret, either side refuses it", "[network]") {
  if (has_secrets()) return;
  Station station;
  auto const near = error_of(Listener::open("127.0.0.1:0", {.secret = right_secret}));
  auto const far = error_of(
      connect("127.0.0.1:9", station.prepared(), within(patience), {.secret = right_secret}));

  CHECK(near == Errc::unsupported);
  CHECK_THAT(near.message(), Catch::Contains("libsodium"));
  CHECK(far == Errc::unsupported);
}

TEST_CASE("another secret keeps a peer out, and both sides say so", "[network]") {
  if (!has_secrets()) return;
  Station station;
  auto listener = must(Listener::open("127.0.0.1:0", {.secret = right_secret}));
  std::optional<Error> far;
  std::thread connecting{[&] {
    far = error_of(connect(listener.address(), station.prepared(), within(patience),
                           {.secret = wrong_secret}));
  }};

  std::string complaint;
  while (complaint.find("another secret") == std::string::npos) {
    auto const near = error_of(listener.accept(station.prepared(), within(20ms)));
    REQUIRE(near == Errc::timed_out);
    complaint = near.message();
  }
  connecting.join();

  CHECK(*far == Errc::incompatible_peer);
  CHECK_THAT(far->message(), Catch::Contains("another secret"));
}

TEST_CASE("a secret that is short enough to guess is refused by either side, with how to make one",
          "[network]") {
  if (!has_secrets()) return;
  Station station;
  ExchangeOptions const shortest{.secret = std::string(16, 'x')};
  ExchangeOptions const too_short{.secret = std::string(15, 'x')};

  static_cast<void>(must(Listener::open("127.0.0.1:0", shortest)));
  for (auto const& error :
       {error_of(Listener::open("127.0.0.1:0", too_short)),
        error_of(connect("127.0.0.1:9", station.prepared(), within(1s), too_short)),
        error_of(Desk::open("127.0.0.1:0", {.secret = too_short.secret}))}) {
    CHECK(error == Errc::invalid_argument);
    CHECK_THAT(error.message(), Catch::Contains("has 15 bytes; 16 are the fewest") &&
                                    Catch::Contains("head -c 32 /dev/urandom | base64"));
  }
}

TEST_CASE("a secret that is too long is refused before anything is sent", "[network]") {
  Station station;
  ExchangeOptions const long_secret{.secret = std::string(257, 'x')};
  auto const expected = has_secrets() ? Errc::invalid_argument : Errc::unsupported;

  CHECK(error_of(Listener::open("127.0.0.1:0", long_secret)) == expected);
  CHECK(error_of(connect("127.0.0.1:9", station.prepared(), within(1s), long_secret)) == expected);
}
