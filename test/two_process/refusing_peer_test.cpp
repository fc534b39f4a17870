// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: whose work a peer refuses learns whether that peer has ended: a process that is killed
// loses its memory before its queue pairs, so that its device refuses first. Method: the ranks are
// processes, of which one ends an exposure, is written to, and is then killed or not.
#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "two_process/group_ranks.hpp"

using namespace std::chrono_literals;

namespace lend::test::eight_ranks {

TEST_CASE("a peer that refuses work is lost if it ends then, and else this rank has failed",
          "[two_process][every_kernel]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  bool does_end = true;
  SECTION("it ends") {}
  SECTION("it lives") {
    does_end = false;
  }
  std::vector<std::unique_ptr<PeerProcess>> ranks;
  for (std::uint32_t rank = 0; rank < size; ++rank)
    ranks.push_back(std::make_unique<PeerProcess>([rank, does_end](Wire const& wire) {
      ProtectionDomain const domain = must(open_test_device().allocate_protection_domain());
      Group group = join(wire, rank, domain);
      std::array const sides{(rank + size - 1) % size, (rank + 1) % size};
      auto peers = must(Peers::connect(group, sides, within(call_limit)));
      auto own = must(domain.allocate<std::uint64_t>(8));
      auto exposed = must(domain.allocate(64));
      auto exposure = std::make_optional(must(exposed.unsafe_expose(RemoteAccess::all)));
      auto const key = exposure->remote().encode();
      std::array<std::byte, size * std::tuple_size_v<decltype(key)>> keys{};
      must(group.allgather(key, keys, within(call_limit)));
      if (rank == victim) exposure.reset();
      must(group.barrier(within(call_limit)));
      // What breaks the group must not meet a rank that is still in this call.
      REQUIRE(wire.say());
      if (rank == victim || rank + 1 == victim) REQUIRE(wire.hear());
      if (rank == victim) {
        if (does_end) {
          std::this_thread::sleep_for(50ms);
          ::raise(SIGKILL);
        }
        REQUIRE(error_of(group.barrier(within(call_limit))) == Errc::channel_broken);
        REQUIRE(!group.lost_rank());
        return 0;
      }
      if (rank + 1 != victim) {
        auto const why = error_of(group.barrier(within(call_limit)));
        REQUIRE(why == (does_end ? Errc::peer_lost : Errc::channel_broken));
        REQUIRE(group.lost_rank() == (does_end ? std::optional{victim} : std::nullopt));
        return 0;
      }
      std::array<std::byte, std::tuple_size_v<decltype(key)>> theirs{};
      std::memcpy(theirs.data(), &keys[victim * theirs.size()], theirs.size());
      PeerScope scope{peers};
      auto to = must(scope.on(victim));
      auto written = must(to->post_write({own.gather(0, 8), must(RemoteRegion::decode(theirs))}));
      auto const why = error_of(written.wait(within(call_limit)));
      static_cast<void>(scope.finish());
      CAPTURE(why.message());
      REQUIRE(own.region().loans() == 0);
      REQUIRE(group.lost_rank() == (does_end ? std::optional{victim} : std::nullopt));
      if (does_end)
        REQUIRE(why == Errc::peer_lost);
      else
        REQUIRE((why.work() != nullptr && why.work()->status == WorkStatus::remote_access));
      return 0;
    }));
  pass_on(ranks);
  for (auto const& rank : ranks) REQUIRE(rank->wire().hear());
  for (auto const rank : {victim, victim - 1}) REQUIRE(ranks[rank]->wire().say());
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    CAPTURE(rank, does_end);
    CHECK(ranks[rank]->exit_status() == (does_end && rank == victim ? 128 + SIGKILL : 0));
  }
}

}  // namespace lend::test::eight_ranks
