// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: bytes of a posted collective come back only once no device can write to them. Method: one
// rank of two, over the fake provider; the test sends what the other rank would.
#include <lend/group.hpp>

#include "support/two_ends.hpp"
#include "verbs/fake_provider.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t own_bytes = 20'000;

/// As a device writes, to memory on loan.
[[gnu::no_sanitize_address]] void place_message(Posted const& at, Posted const& from) {
  auto* const target = reinterpret_cast<std::byte volatile*>(at.elements.at(0).addr);
  auto const* const source = reinterpret_cast<std::byte const*>(from.elements.at(0).addr);
  for (std::size_t i = 0; i < 32; ++i) target[i] = source[i];
}

Context opened() {
  FakeDevice device;
  device.has_channels = true;
  device.queue_pair_step = 1;
  Fake::get().reset(device);
  return must(open_fake());
}

/// Rank 0, whose link goes to itself.
struct LoneRank {
  Context context = opened();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  std::optional<MemoryRegion> own = must(domain.allocate(own_bytes));
  std::optional<MemoryRegion> all = must(domain.allocate(2 * own_bytes));
  Group group = made();

  Group made() const {
    GroupOptions options;
    options.wait = Wait::spin;
    options.keep_alive = 0ns;
    auto prepared = must(PreparedGroup::prepare(domain, 0, 2, options));
    auto card = prepared.cards()[1];
    card.mailbox = {};  // messages are sent, of which the fake provider has a completion
    std::vector<RankCard> const cards(2, card);
    return must(std::move(prepared).handshake(cards));
  }

  /// The other rank's message is as this one's, which it has sent.
  void hear_the_other() const {
    auto& posted = Fake::get().posted;
    auto const sent = std::ranges::find_if(posted, [](auto const& each) {
      return !each.is_receive && each.request.opcode == IBV_WR_SEND;
    });
    REQUIRE(sent != posted.end());
    REQUIRE(posted.front().is_receive);
    place_message(posted.front(), *sent);
    complete(posted.front(), IBV_WC_SUCCESS, 32);
    posted.pop_front();
  }

  /// Whether the last request reads to part 1 of `all`.
  [[nodiscard]] bool reads_to_all() const {
    Posted const& last = Fake::get().posted.back();
    auto const place = reinterpret_cast<std::uintptr_t>(all->native()->addr) + own_bytes;
    return last.request.opcode == IBV_WR_RDMA_READ && last.elements.at(0).addr == place;
  }
};

/// The error of a scope whose collective reads, until the scope gives up.
Error error_of_reading(LoneRank& rank) {
  GroupScope scope{rank.group};
  scope.drain_within(0s);
  auto pending = must(scope.post_allgather(rank.own->gather(), rank.all->scatter()));
  rank.hear_the_other();
  CHECK_FALSE(must(pending.poll()));
  CHECK(rank.reads_to_all());
  return error_of(scope.finish());
}

}  // namespace

TEST_CASE("what a device keeps of a posted collective stays on loan for good", "[group]") {
  auto& fake = Fake::get();
  {
    LoneRank rank;
    fake.fail_after(0, EIO);                        // the transition to the error state
    fake.fail_destruction = fake.destructions + 1;  // the queue pair's

    auto const error = error_of_reading(rank);

    CHECK(error == Errc::system_failed);
    CHECK_THAT(error.message(), Catch::Contains("they stay on loan for good"));
    CHECK(*rank.group.first_cause() == Errc::system_failed);
    CHECK(rank.own->loans() == 0);
    CHECK(rank.all->loans() == 1);
    CHECK(error_of(rank.all->mutable_bytes()) == Errc::already_borrowed);
    rank.all.reset();
  }
  CHECK(fake.live("storage") >= 1);  // leaked rather than used for something else
  CHECK(fake.violations.empty());
}

TEST_CASE("what is read for a posted collective ends before its bytes come back", "[group]") {
  auto& fake = Fake::get();
  LoneRank rank;
  fake.at_error = [&fake] {
    for (Posted const& each : fake.posted) complete(each, IBV_WC_WR_FLUSH_ERR);
    fake.posted.clear();
  };
  CHECK(error_of_reading(rank) == Errc::timed_out);
  CHECK(fake.live("queue pair") == 0);
  CHECK(rank.own->loans() + rank.all->loans() == 0);
}
