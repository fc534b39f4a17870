// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: bytes that are lent to the peer are on loan until it returns them, they are recalled, or
// the connection ends, and not a moment longer; what the peer does wrong costs its channel only.
// Method: `a` lends, `b` uses what it was lent.
#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/seed.hpp"
#include "support/two_ends.hpp"

#include <lend/soft/faults.hpp>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

struct Lender {
  explicit Lender(ChannelOptions const& options = {})
      : ends{two_ends(options)},
        memory{must(ends.domain.allocate(256))},
        own{must(ends.domain.allocate(256))} {
    if (!lacks_loans()) put(own, 0, "from the peer");
  }
  [[nodiscard]] bool lacks_loans() const {
    return lacks(ends.context, &DeviceCapabilities::peer_loans);
  }
  /// By the peer.
  void write(RemoteRegion const& to, std::size_t length = 13) {
    must(ends.b.write({own.gather(0, length), to.slice(0, length)}, within(10s)));
  }
  Error failure_of_write(RemoteRegion const& to) {
    return error_of(ends.b.write({own.gather(0, 8), to.slice(0, 8)}, within(10s)));
  }

  TwoEnds ends;
  MemoryRegion memory;
  MemoryRegion own;  // the peer's
};

}  // namespace

TEST_CASE("bytes lent to be written are the peer's until it returns them", "[channel]") {
  Lender lender;
  if (lender.lacks_loans()) return;
  PollingScope scope{lender.ends.a};
  auto loan = must(scope.post_lend(lender.memory.scatter(16, 64)));
  auto reply = must(scope.post_receive(lender.memory.scatter(128, 8)));
  CHECK(loan.remote().size() == 64);
  CHECK(loan.remote().access() == RemoteAccess::write);

  lender.write(loan.remote());
  CHECK_FALSE(must(loan.is_over()));
  CHECK(error_of(lender.memory.bytes(16, 64)) == Errc::already_borrowed);
  CHECK(error_of(scope.post_send(lender.memory.gather(70, 16))) == Errc::already_borrowed);
  must(lender.memory.mutable_bytes(80, 8));  // beside them

  must(lender.ends.b.send(Send{lender.own.gather(0, 4)}.returning(loan.remote())));
  auto const done = must(reply.wait(within(10s)));
  CHECK(done.returned == loan.remote().key());
  CHECK(done.bytes == 4);
  CHECK_FALSE(done.immediate.has_value());
  CHECK(must(loan.is_over()));
  CHECK(text_at(lender.memory, 16, 13) == "from the peer");
  must(loan.recall());
  must(scope.finish());
  CHECK(lender.memory.loans() == 0);
}

TEST_CASE("bytes lent to be read are shared", "[channel]") {
  Lender lender;
  if (lender.lacks_loans()) return;
  put(lender.memory, 0, "lent bytes");
  PollingScope scope{lender.ends.a};
  auto loan = must(scope.post_lend(lender.memory.gather(0, 10)));

  must(lender.ends.b.read({lender.own.scatter(0, 10), loan.remote()}, within(10s)));
  CHECK(text_at(lender.own, 0, 10) == "lent bytes");
  must(lender.memory.bytes(0, 10));
  CHECK(error_of(lender.memory.mutable_bytes(0, 1)) == Errc::already_borrowed);
  CHECK(error_of(lender.ends.b.write({lender.own.gather(0, 10), loan.remote()})) ==
        Errc::invalid_argument);  // before it is posted: it is to be read
  must(loan.recall(within(10s)));
  must(lender.memory.mutable_bytes(0, 1));
  must(scope.finish());
}

TEST_CASE("a peer that writes what it may only read loses its connection, and changes nothing",
          "[channel]") {
  Lender lender;
  if (lender.lacks_loans()) return;
  put(lender.memory, 0, "lent bytes");
  PollingScope scope{lender.ends.a};
  auto loan = must(scope.post_lend(lender.memory.gather(0, 10)));
  auto const& remote = loan.remote();
  RemoteRegion const lie{remote.address(), remote.size(), remote.key()};

  auto const refused = error_of(lender.ends.b.write({lender.own.gather(0, 10), lie}));
  REQUIRE(refused.work() != nullptr);
  CHECK(refused.work()->status == WorkStatus::remote_access);
  CHECK(text_at(lender.memory, 0, 10) == "lent bytes");
  scope.drain_within(100ms);
  static_cast<void>(scope.finish());
  must(lender.memory.mutable_bytes(0, 10));
}

TEST_CASE("a loan that was recalled is closed to the peer, and its key is dead", "[channel]") {
  Lender lender;
  if (lender.lacks_loans()) return;
  PollingScope scope{lender.ends.a};
  auto first = must(scope.post_lend(lender.memory.scatter(0, 64)));
  lender.write(first.remote());
  must(first.recall(within(10s)));
  CHECK(must(first.is_over()));
  put(lender.memory, 0, "mine again");
  // The window is used again, with another key.
  auto second = must(scope.post_lend(lender.memory.scatter(64, 64)));
  CHECK(second.remote().key() != first.remote().key());
  lender.write(second.remote());

  CHECK(lender.failure_of_write(first.remote()).work()->status == WorkStatus::remote_access);
  CHECK(text_at(lender.memory, 0, 10) == "mine again");
}

TEST_CASE("a peer that returns a loan twice breaks that channel only", "[channel]") {
  Lender lender;
  if (lender.lacks_loans()) return;
  auto [other_a, other_b] = connected(lender.ends.domain, {}, {});
  PollingScope other{other_a};
  auto beside = must(other.post_lend(lender.memory.scatter(128, 64)));
  {
    PollingScope scope{lender.ends.a};
    auto loan = must(scope.post_lend(lender.memory.scatter(0, 64)));
    auto reply = must(scope.post_receive(Receive::only_immediate()));
    auto more = must(scope.post_receive(Receive::only_immediate()));
    auto const remote = GENERATE(true, false) ? loan.remote() : beside.remote();
    bool const is_own = remote == loan.remote();
    must(lender.ends.b.send(Send::only_returning(remote)));
    if (is_own) {
      CHECK(must(reply.wait(within(10s))).returned == remote.key());
      must(lender.ends.b.send(Send::only_returning(remote)));
    }
    auto const failed = error_of((is_own ? more : reply).wait(within(10s)));
    REQUIRE(failed.work() != nullptr);
    CHECK(failed.work()->status == WorkStatus::remote_invalid_request);
    CHECK(must(loan.is_over()) == is_own);
    static_cast<void>(scope.finish());
    REQUIRE(lender.ends.a.first_cause() != nullptr);
  }
  CHECK(lender.memory.loans() == 1);
  must(other_b.write({lender.own.gather(0, 8), beside.remote().slice(0, 8)}, within(10s)));
  CHECK_FALSE(must(beside.is_over()));
  must(other.finish());
  CHECK(lender.memory.loans() == 0);
}

TEST_CASE("the end of a scope recalls what it has lent, and no more", "[channel]") {
  Lender lender;
  if (lender.lacks_loans()) return;
  PollingScope outer{lender.ends.a};
  auto kept = must(outer.post_lend(lender.memory.scatter(0, 32)));
  RemoteRegion dead;
  SECTION("by finish()") {
    PollingScope scope{lender.ends.a};
    dead = must(scope.post_lend(lender.memory.scatter(64, 32))).remote();
    must(scope.finish());
  }
  SECTION("by its destructor") {
    PollingScope scope{lender.ends.a};
    dead = must(scope.post_lend(lender.memory.scatter(64, 32))).remote();
  }
  SECTION("by an exception") {
    try {
      PollingScope scope{lender.ends.a};
      dead = must(scope.post_lend(lender.memory.scatter(64, 32))).remote();
      throw std::runtime_error{"away"};
    } catch (std::runtime_error const&) {
    }
  }
  CHECK(lender.memory.loans() == 1);
  must(lender.memory.mutable_bytes(64, 32));
  lender.write(kept.remote());
  must(outer.finish());
  CHECK(lender.memory.loans() == 0);
  CHECK(lender.failure_of_write(dead).work()->status == WorkStatus::remote_access);
}

TEST_CASE("on a broken channel a loan ends with the connection", "[channel]") {
  Lender lender;
  if (lender.lacks_loans()) return;
  bool const by_recall = GENERATE(true, false);
  PollingScope scope{lender.ends.a};
  auto loan = must(scope.post_lend(lender.memory.scatter(0, 64)));
  auto const failed = error_of(lender.ends.a.write({lender.own.gather(0, 8), nobody(8)}));
  CHECK(failed == Errc::work_failed);
  CHECK(error_of(scope.post_lend(lender.memory.scatter(64, 8))) == Errc::channel_broken);
  CHECK_FALSE(must(loan.is_over()));
  CHECK(lender.memory.loans() == 1);

  if (by_recall) {
    must(loan.recall(within(10s)));
    CHECK(lender.memory.loans() == 0);
  }
  static_cast<void>(scope.finish());
  CHECK(must(loan.is_over()));
  CHECK(lender.memory.loans() == 0);
}

TEST_CASE("a channel that is prepared again, or destroyed, has ended its loans", "[channel]") {
  Lender lender;
  if (lender.lacks_loans()) return;
  auto channel = std::optional<Channel>{std::move(lender.ends.a)};
  PollingScope scope{*channel};
  auto loan = must(scope.post_lend(lender.memory.scatter(0, 64)));
  SECTION("prepared again") {
    auto const prepared = must(std::move(*channel).prepare_again());
    CHECK(lender.memory.loans() == 0);
  }
  SECTION("destroyed") {
    channel.reset();
    CHECK(lender.memory.loans() == 0);
  }
  CHECK(error_of(loan.is_over()) == Errc::stale_handle);
  CHECK(error_of(loan.recall()) == Errc::stale_handle);
}

TEST_CASE("bytes that cannot be lent are refused, and nothing is posted", "[channel]") {
  Lender lender;
  if (lender.lacks_loans()) return;
  auto const other_domain = must(lender.ends.context.allocate_protection_domain());
  auto foreign = must(other_domain.allocate(64));
  PollingScope scope{lender.ends.a};

  CHECK(error_of(scope.post_lend(lender.memory.scatter(250, 7))) == Errc::invalid_argument);
  CHECK(error_of(scope.post_lend(lender.memory.scatter(0, 0))) == Errc::invalid_argument);
  CHECK(error_of(scope.post_lend(foreign.gather(0, 8))) == Errc::invalid_argument);
  CHECK(error_of(scope.post_lend(GatherElement{})) == Errc::invalid_argument);
  auto const held = must(scope.post_receive(lender.memory.scatter(0, 8)));
  CHECK(error_of(scope.post_lend(lender.memory.gather(4, 8))) == Errc::already_borrowed);
  CHECK(lender.memory.loans() == 1);
  must(lender.ends.b.send(lender.own.gather(0, 8)));
  must(scope.finish());
  CHECK(error_of(scope.post_lend(lender.memory.gather(0, 8))) == Errc::stale_handle);
}

TEST_CASE("a recall that was given up goes on, and its end is told", "[channel]") {
  Lender lender;
  if (lender.ends.context.kind() != DeviceKind::soft)
    return skip(lender.ends.context, "takes no faults");
  PollingScope scope{lender.ends.a};
  auto loan = must(scope.post_lend(lender.memory.scatter(0, 64)));
  CHECK_FALSE(must(loan.is_over()));
  must(inject_faults(lender.ends.context, FaultPlan{}.delay(1, 5ms)));
  CHECK(error_of(loan.recall(within(0ms))) == Errc::timed_out);
  CHECK(lender.memory.loans() == 1);

  auto const patience = within(10s);
  while (!must(loan.is_over())) REQUIRE_FALSE(patience.has_passed());
  CHECK(lender.memory.loans() == 0);
  must(scope.finish());
}

TEST_CASE("a device that cannot hold a peer to a loan says so, and nothing is lent", "[channel]") {
  Lender lender;
  if (lender.ends.context.capabilities().peer_loans)
    return skip(lender.ends.context, "holds a peer to a loan");
  PollingScope scope{lender.ends.a};
  auto const refused = error_of(scope.post_lend(lender.memory.scatter(0, 8)));
  CHECK(refused == Errc::unsupported);
  CHECK(lender.memory.loans() == 0);
  must(scope.finish());
}

TEST_CASE("a message that returns has no immediate", "[channel]") {
  Lender lender;
  if (lender.lacks_loans()) return;
  auto const work = Send::only_returning(nobody(8)).with_immediate(5);
  CHECK(error_of(lender.ends.b.send(work)) == Errc::invalid_argument);
}

TEST_CASE("more loans than there is room for wait for it, and each is its own", "[channel]") {
  Lender lender{options_with_depth(4)};
  if (lender.lacks_loans()) return;
  PollingScope scope{lender.ends.a};
  std::vector<PeerLoan> loans;
  for (std::size_t i = 0; i < 16; ++i)
    loans.push_back(must(scope.post_lend(lender.memory.scatter(i * 16, 16), within(10s))));
  for (std::size_t i = 0; i < 16; ++i) {
    put(lender.own, 0, std::string(16, static_cast<char>('a' + i)));
    lender.write(loans[i].remote(), 16);
  }
  CHECK(lender.memory.loans() == 16);
  for (std::size_t i = 0; i < 16; i += 2) must(loans[i].recall(within(10s)));
  CHECK(lender.memory.loans() == 8);
  CHECK(text_at(lender.memory, 32, 16) == std::string(16, 'c'));
  CHECK_FALSE(must(loans[1].is_over()));
  must(scope.finish());
  CHECK(text_at(lender.memory, 16, 16) == std::string(16, 'b'));
}

TEST_CASE("a loan that comes back through a pool is over", "[channel]") {
  Lender lender;
  if (lender.lacks_loans()) return;
  auto set = must(WaitSet::create(lender.ends.context));
  auto pieces = must(lender.ends.domain.allocate(256));
  auto pool = must(ReceivePool::create(set, pieces.chunks(64)));
  auto one = must(channel_builder()
                      .protection_domain(lender.ends.domain)
                      .wait_set(set, 1)
                      .receive_pool(pool)
                      .build());
  auto two = must(prepare_channel(lender.ends.domain, {}));
  auto const endpoint = one.endpoint();
  Channel a = must(std::move(one).handshake(two.endpoint()));
  Channel b = must(std::move(two).handshake(endpoint));
  PollingScope scope{a};
  auto loan = must(scope.post_lend(lender.memory.scatter(0, 64)));
  must(b.send(Send{lender.own.gather(0, 4)}.returning(loan.remote()), within(10s)));
  while (!must(loan.is_over())) continue;
  CHECK(pool.next().has_value());
  must(scope.finish());
}

TEST_CASE("no order of lending, returning, recalling and leaving loses a byte", "[channel]") {
  if (lacks(open_test_device(), &DeviceCapabilities::peer_loans)) return;
  auto const seed = GENERATE(from_range(seeds(20)));
  CAPTURE(seed);
  std::mt19937_64 random{seed};
  constexpr std::size_t places = 8, length = 16;
  Lender lender{options_with_depth(3)};
  // What is lent, by place: its loan, and in which of two scopes.
  struct Lent {
    PeerLoan loan;
    bool is_inner;
  };
  std::array<std::optional<Lent>, places> lent;
  auto const count = [&] {
    return std::ranges::count_if(lent, [](auto const& place) { return place.has_value(); });
  };
  PollingScope outer{lender.ends.a};
  for (int round = 0; round < 60; ++round) {
    std::optional<PollingScope> inner{std::in_place, lender.ends.a};
    for (auto steps = random() % 30; steps > 0; --steps) {
      auto const at = random() % places;
      auto& place = lent[at];
      auto const bytes = lender.memory.scatter(at * length, length);
      if (!place) {
        bool const is_inner = random() % 2 == 0;
        auto& scope = is_inner ? *inner : outer;
        place.emplace(Lent{must(scope.post_lend(bytes, within(10s))), is_inner});
        lender.write(place->loan.remote(), length);
      } else if (random() % 3 == 0) {
        must(place->loan.recall(within(10s)));
        place.reset();
      } else if (random() % 2 == 0) {
        auto arrival = must(outer.post_receive(Receive::only_immediate(), within(10s)));
        must(lender.ends.b.send(Send::only_returning(place->loan.remote()), within(10s)));
        CHECK(must(arrival.wait(within(10s))).returned == place->loan.remote().key());
        CHECK(must(place->loan.is_over()));
        place.reset();
      } else {
        CHECK(error_of(outer.post_lend(bytes)) == Errc::already_borrowed);
        lender.write(place->loan.remote(), length);
      }
      REQUIRE(lender.memory.loans() == static_cast<std::size_t>(count()));
    }
    if (random() % 2 == 0) must(inner->finish());
    inner.reset();
    for (auto& place : lent)
      if (place && place->is_inner) place.reset();
    REQUIRE(lender.memory.loans() == static_cast<std::size_t>(count()));
  }
  must(outer.finish());
  CHECK(lender.memory.loans() == 0);
}
