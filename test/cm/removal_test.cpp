// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a wait ends as peer_lost when the device is removed under it. Method: the command in
// LEND_TEST_REMOVE removes the device; only in a guest that is thrown away.
#include "cm_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

TEST_CASE("a receive ends as peer_lost when its device is removed", "[cm]") {
  char const* const command = std::getenv("LEND_TEST_REMOVE");
  REQUIRE(command != nullptr);
  auto ends = cm_ends();
  auto listener = must(CmListener::open(test_address(0)));
  auto memory = must(ends.host.domain.allocate(64));
  auto receiving = meanwhile([&] { return ends.b.receive(memory.scatter(), within(60s)); });

  // The removal ends after this process, since librdmacm keeps each device open until then.
  REQUIRE(std::system((std::string{command} + " &").c_str()) == 0);
  auto const error = error_of(receiving.get());

  CAPTURE(error.message());
  CHECK(error == Errc::peer_lost);  // of both ends here, either may be told first
  CHECK(memory.loans() == 0);
  CHECK(error_of(listener.next(within(60s))) == Errc::peer_lost);
}
