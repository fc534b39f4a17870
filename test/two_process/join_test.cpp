// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: processes join a group although one of them is killed meanwhile, whenever that is, and
// started again; if it had been connected already, the others learn that it is lost. Method: ranks
// are processes at the test's own desk, which kills one after a random number of events.
#include <lend/group.hpp>

#include "support/peer_process.hpp"
#include "support/seed.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t rank_count = 4, lost_rank = 2;
constexpr auto patience = 60s;

/// Joins and meets the others, and says so, or why not. Waits until it is to go.
int join(Wire const& wire, Seat const& seat) {
  Context const context = open_test_device();
  ProtectionDomain const domain = must(context.allocate_protection_domain());
  GroupOptions options;
  options.keep_alive = 50ms;
  auto group = Group::join(domain, seat, within(patience), options);
  auto const met = group ? group.value().barrier(within(patience)) : Result<void>{group.error()};
  wire.put_text(met ? "met" : met.error().message());
  static_cast<void>(wire.hear());
  return 0;
}

std::unique_ptr<PeerProcess> start(Desk const& desk, std::uint32_t rank) {
  Seat const seat{.rank = rank, .size = rank_count, .desk = desk.address(), .desk_is_served = true};
  return std::make_unique<PeerProcess>([seat](Wire const& wire) { return join(wire, seat); });
}

/// Serves so many events. True: all may go, and the meeting is over.
bool serve(Desk& desk, std::uint64_t events) {
  auto const deadline = within(patience);
  while (events-- > 0) {
    if (must(desk.poll())) return true;
    pollfd polled{desk.descriptor(), POLLIN, 0};
    if (::poll(&polled, 1, 1'000) == 0 && deadline.has_passed()) FAIL("the ranks do not meet");
  }
  return false;
}

}  // namespace

TEST_CASE("processes join although one is killed and started again, whenever that is",
          "[two_process]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  int replaced = 0, unhurt = 0;
  for (auto const seed : seeds(24)) {
    CAPTURE(seed);
    std::mt19937_64 random{seed};
    auto desk = must(Desk::open("unix:@lend-processes-" + std::to_string(::getpid())));
    must(desk.begin(rank_count, within(patience)));
    std::vector<std::unique_ptr<PeerProcess>> ranks;
    for (std::uint32_t rank = 0; rank < rank_count; ++rank) ranks.push_back(start(desk, rank));

    bool const all_met = serve(desk, random() % 16);
    ranks[lost_rank]->kill();
    CHECK(ranks[lost_rank]->exit_status() == 128 + SIGKILL);
    ranks[lost_rank] = start(desk, lost_rank);
    if (!all_met) REQUIRE(serve(desk, UINT64_MAX));

    std::vector<std::string> said;
    for (auto const rank : {0u, 1u, 3u}) said.push_back(ranks[rank]->wire().take_text());
    CAPTURE(said);
    bool const is_lost =
        std::ranges::any_of(said, [](auto& text) { return text.starts_with("rank 2 is lost"); });
    for (auto const& text : said) CHECK((text == "met" || text.starts_with("rank 2 is lost")));
    if (!is_lost && !all_met) {
      CHECK(ranks[lost_rank]->wire().take_text() == "met");
      ++replaced;
    }
    unhurt += all_met;
  }
  CAPTURE(unhurt);
  CHECK(replaced > 0);
}
