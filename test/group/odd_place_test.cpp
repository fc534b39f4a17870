// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what a rank says wrongly of its long values, or never ends to read, costs the others no
// memory. Method: rank 0 of two; the test is the other one, by a channel of its own and the locks
// of its device.
#include "group/scope_ranks.hpp"

#include <group/link/message_head.hpp>
#include <group/link/rank_status.hpp>
#include <group/schedule/long_schedule.hpp>
#include <soft/objects/context.hpp>
#include <soft/objects/queue_pair.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;
using group::MessageHead;
using group::ShownPlace;

namespace {

/// What rank 0 tells of its first piece.
struct Told {
  MessageHead head{};
  ShownPlace place{};
};

/// Rank 0, in an allgather of parts of so many bytes.
struct RankToTell {
  explicit RankToTell(std::size_t bytes)
      : own{must(domain.allocate(bytes))}, all{must(domain.allocate(2 * bytes))} {
    scope.drain_within(patience);
    pending.emplace(must(scope.post_allgather(own.gather(), all.scatter())));
    auto const message = must(peer->receive(words.scatter(), within(patience)));
    REQUIRE(message.bytes == sizeof told);
    std::memcpy(&told, must(words.bytes()).data(), sizeof told);
    shown_key = static_cast<std::uint32_t>(told.place.key);
  }

  Group made() {
    GroupOptions options;
    options.connection.ack_timeout = 1s;  // a read that is held up outlasts a busy machine
    auto prepared = must(PreparedGroup::prepare(domain, 0, 2, options));
    auto other = must(channel_builder().protection_domain(elsewhere).build());
    std::array cards{RankCard{}, prepared.cards()[1]};
    cards[1].endpoint = other.endpoint();
    cards[1].record = must(room.remote());
    cards[1].mailbox = {};
    peer.emplace(must(std::move(other).handshake(prepared.cards()[1].endpoint)));
    return must(std::move(prepared).handshake(cards));
  }
  /// Where the other rank has its part, indeed.
  [[nodiscard]] ShownPlace place() const {
    auto const part = must(room.remote());
    return {part.address(), part.key()};
  }
  /// The first bytes of a message with told.head.
  void tell(ShownPlace const& where, std::size_t values = sizeof(ShownPlace)) {
    told.head.length = static_cast<std::uint32_t>(values);
    told.place = where;
    std::memcpy(must(words.mutable_bytes()).data(), &told, sizeof told);
    must(peer->send({words.gather(0, sizeof told.head + values)}, within(patience)));
  }

  Context context = open_test_device(), theirs = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain()),
                   elsewhere = must(theirs.allocate_protection_domain());
  MemoryRegion words = must(elsewhere.unsafe_allocate_exposed(64, RemoteAccess::write)),
               room = must(elsewhere.unsafe_allocate_exposed(
                   sizeof(group::RankStatus) + group::long_buffer_count * group::long_buffer_bytes,
                   RemoteAccess::read));
  std::optional<Channel> peer;
  Group group = made();
  MemoryRegion own, all;
  Told told{};
  std::uint32_t shown_key = 0;
  GroupScope scope{group};
  std::optional<PendingCollective> pending;
};

/// A process in the middle of a request by this key, whichever queue pair of `at` it is for.
class Stopped {
 public:
  Stopped(Context const& by, Context const& at, std::uint32_t key) {
    for (auto& entry : soft::Context::of(at.native()).queue_pairs)
      if (auto* const qp = entry.load(); qp != nullptr) {
        qp->shared->rx.lock(soft::Context::of(by.native()).claimant);
        qp->shared->remote_key.store(key);
        at_.push_back(qp->shared);
      }
  }
  Stopped(Stopped const&) = delete;
  Stopped& operator=(Stopped const&) = delete;
  ~Stopped() {
    for (auto* const qp : at_) {
      qp->remote_key.store(0);
      qp->rx.unlock();
    }
  }

 private:
  std::vector<soft::SharedQueuePair*> at_;
};

}  // namespace

TEST_CASE("a rank that says wrongly where its values are ends the group", "[group]") {
  if (open_test_device().kind() != DeviceKind::soft) return skip(open_test_device(), "shows parts");
  std::size_t values = sizeof(ShownPlace);
  RankToTell rank{group::long_buffer_bytes + 8};
  auto place = rank.place();
  SECTION("by a key of other memory") {
    place.key = rank.shown_key;
  }
  SECTION("by the key of memory that is not to be read") {
    place.key = must(rank.words.remote()).key();
  }
  SECTION("by a key of more than 32 bits") {
    place.key += std::uint64_t{1} << 32;
  }
  SECTION("by no key") {
    place.key = 0;
  }
  SECTION("by half of it") {
    values = sizeof place.address;
  }
  SECTION("once a later piece of them was read elsewhere") {
    rank.told.head.piece = 1;
    rank.tell({}, 0);
    CHECK_FALSE(must(rank.pending->poll()));
    rank.told.head.piece = 0;
  }
  rank.tell(place, values);

  auto const error = error_of(rank.scope.finish());
  CAPTURE(error.describe());
  CHECK((error == Errc::disagreement || error == Errc::peer_lost));
  CHECK(rank.own.loans() + rank.all.loans() == 0);
}

TEST_CASE("a rank that says where its values are while one is read elsewhere ends the group",
          "[group]") {
  if (open_test_device().kind() != DeviceKind::soft) return skip(open_test_device(), "shows parts");
  RankToTell rank{group::long_buffer_bytes + 8};
  must(inject_faults(rank.context, FaultPlan{}.drop(1'000'000)));  // reads by requests
  std::optional<Stopped> holder{std::in_place, rank.context, rank.theirs, 0};
  rank.told.head.piece = 1;
  rank.tell({}, 0);
  CHECK_FALSE(must(rank.pending->poll()));
  rank.told.head.piece = 0;
  rank.tell(rank.place());
  Result<bool> over = false;
  for (int polls = 0; over && polls < 1'000; ++polls) over = rank.pending->poll();
  holder.reset();

  CHECK(error_of(over) == Errc::disagreement);
  CHECK(error_of(rank.scope.finish()) == Errc::disagreement);
  CHECK(rank.own.loans() + rank.all.loans() == 0);
}

TEST_CASE("what a stopped rank may be reading stays on loan for good", "[group]") {
  if (open_test_device().kind() != DeviceKind::soft) return skip(open_test_device(), "shows parts");
  RankToTell rank{20'000};
  rank.tell(rank.place());
  rank.told.head.round = 1;
  rank.tell({}, 0);
  Stopped const reader{rank.theirs, rank.context, rank.shown_key};

  auto const error = error_of(rank.scope.finish());
  CAPTURE(error.describe());
  CHECK(error == Errc::system_failed);
  CHECK(rank.own.loans() == 1);
  CHECK(rank.all.loans() == 0);
  CHECK(error_of(rank.own.mutable_bytes()) == Errc::already_borrowed);
}
