// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: ranks whose device no endpoints connect are a group by a connector, whatever else comes to
// their addresses, or each learns which rank it could not reach. Method: ranks as threads, and
// connections of the test's own.
#include "group/ranks.hpp"
#include "support/peer_process.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <memory>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

bool needs_no_connector() {
  auto const device = open_test_device();
  if (!device.capabilities().endpoints) return false;
  skip(device, "connects groups by endpoints");
  return true;
}

/// Ranks, and what each has for the others.
struct Prepared {
  explicit Prepared(std::uint32_t size, GroupConnector const* connector = group_connector()) {
    GroupOptions options;
    options.connector = connector;
    for (std::uint32_t rank = 0; rank < size; ++rank)
      ranks.push_back(must(PreparedGroup::prepare(
          must(open_test_device().allocate_protection_domain()), rank, size, options)));
    theirs.resize(size);
    for (std::uint32_t to = 0; to < size; ++to)
      for (auto const& from : ranks) theirs[to].push_back(from.cards()[to]);
  }
  std::future<Result<Group>> connect(std::uint32_t rank, Deadline deadline) {
    return std::async(std::launch::async, [this, rank, deadline] {
      return std::move(ranks[rank]).handshake(theirs[rank], deadline);
    });
  }
  std::vector<PreparedGroup> ranks{};
  std::vector<std::vector<RankCard>> theirs{};
};

/// group_connector(), but the first link that it makes comes to nothing.
class FailsOnce final : public GroupConnector {
 public:
  Result<std::unique_ptr<Links>> open(std::string const& host) const override {
    LEND_TRY(links, group_connector()->open(host));
    return std::make_unique<Wrapped>(std::move(links), has_failed_);
  }
  bool has_failed() const { return has_failed_; }
  /// Not at once, but the next one from now on.
  void spare_those_before() const { has_failed_ = true; }
  void fail_next() const { has_failed_ = false; }

 private:
  class Wrapped final : public Links {
   public:
    Wrapped(std::unique_ptr<Links> links, std::atomic<bool>& has_failed)
        : links_{std::move(links)}, has_failed_{has_failed} {}
    std::uint16_t port() const noexcept override { return links_->port(); }
    void accept(std::uint32_t rank, LinkAddress::Key const& key, PreparedQueuePair queue_pair,
                Deadline deadline) override {
      links_->accept(rank, key, std::move(queue_pair), deadline);
    }
    Result<void> connect(std::uint32_t rank, LinkAddress const& to, PreparedQueuePair queue_pair,
                         Deadline deadline) override {
      return links_->connect(rank, to, std::move(queue_pair), deadline);
    }
    int descriptor() const noexcept override { return links_->descriptor(); }
    Result<std::optional<Made>> next() override {
      LEND_TRY(made, links_->next());
      if (made && !has_failed_.exchange(true)) made->queue_pair = Error{Errc::denied, "a reset"};
      return std::move(made);
    }

   private:
    std::unique_ptr<Links> links_;
    std::atomic<bool>& has_failed_;
  };

  mutable std::atomic<bool> has_failed_{false};
};

}  // namespace

TEST_CASE("a rank whose device needs a connector says which one it is", "[group]") {
  if (needs_no_connector()) return;
  ProtectionDomain const domain = must(open_test_device().allocate_protection_domain());
  auto const error = error_of(PreparedGroup::prepare(domain, 0, 2));
  CHECK(error == Errc::unsupported);
  CHECK_THAT(error.message(), Catch::Contains("connected by rdma_cm only") &&
                                  Catch::Contains("cm_group_connector()"));
  must(PreparedGroup::prepare(domain, 0, 1));
}

TEST_CASE("who does not show the key of a link is rejected, and the ranks are a group", "[group]") {
  if (needs_no_connector()) return;
  Prepared group{2};
  auto stranger = group.theirs[1][0].address;
  stranger.key[0] ^= std::byte{1};
  auto rejected = std::async(std::launch::async, [&] {
    auto domain = must(open_test_device().allocate_protection_domain());
    auto prepared = must(channel_builder().protection_domain(domain).build());
    return reach_by_cm(stranger, prepared.take_queue_pair());
  });
  auto lower = group.connect(0, within(patience));
  auto const error = error_of(rejected.get());
  auto higher = group.connect(1, within(patience));

  CHECK(error == Errc::denied);
  CHECK(says(error, "this rank does not await it"));
  std::vector<Group> ranks;
  ranks.push_back(must(lower.get()));
  ranks.push_back(must(higher.get()));
  on_each(ranks, [](Group& each) { expect(each.barrier(within(patience))); });
}

TEST_CASE("a rank that does not connect, or is not reached, is named at the deadline", "[group]") {
  if (needs_no_connector()) return;
  Error waiting, connecting;
  // Until the time is enough to be refused once, which an emulated device of a busy machine delays.
  for (auto const time : {3s, 12s, 48s}) {
    Prepared group{3};
    group.theirs[2][1].address.port = 1;  // nobody listens there
    auto first = group.connect(0, within(time)), last = group.connect(2, within(time));
    waiting = error_of(first.get());
    connecting = error_of(last.get());
    if (says(connecting, " no peer listened ")) break;
  }
  CHECK(waiting == Errc::timed_out);
  CHECK(says(waiting, "rank 0 was not connected to rank 1 before the deadline"));
  CHECK(connecting == Errc::timed_out);
  CHECK(says(connecting, "no connection to rank 1: no peer listened by rdma_cm at "));
}

TEST_CASE("where a connection comes to nothing the ranks connect again", "[group]") {
  if (needs_no_connector()) return;
  FailsOnce const failing;
  auto const desk = desk_name();
  std::vector<std::future<Result<Group>>> joining;
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    joining.push_back(
        std::async(std::launch::async,
                   [&, rank, domain = must(open_test_device().allocate_protection_domain())] {
                     GroupOptions options;
                     options.connector = rank == 1 ? &failing : group_connector();
                     return Group::join(domain, {.rank = rank, .size = 3, .desk = desk},
                                        within(patience), options);
                   }));
  std::vector<Group> ranks;
  for (auto& each : joining) ranks.push_back(must(each.get()));
  CHECK(failing.has_failed());
  on_each(ranks, [](Group& each) { expect(each.barrier(within(patience))); });
}

TEST_CASE("where a connection to a peer comes to nothing the ranks connect again", "[group]") {
  if (needs_no_connector()) return;
  FailsOnce const failing;
  failing.spare_those_before();
  Prepared group{3, &failing};
  std::vector<std::future<Result<Group>>> connecting;
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    connecting.push_back(group.connect(rank, within(patience)));
  std::vector<Group> ranks;
  for (auto& each : connecting) ranks.push_back(must(each.get()));
  failing.fail_next();
  on_each(ranks, [](Group& each) {
    auto const peers = Peers::connect_all(each, within(patience));
    expect(peers.has_value() && peers.value().ranks().size() == 2, "no peers");
    expect(each.barrier(within(patience)));
  });
  CHECK(failing.has_failed());
}

TEST_CASE("a rank that is killed is named by the others", "[group]") {
  if (needs_no_connector()) return;
  auto const has_peers = GENERATE(false, true);
  auto const desk = desk_name();
  std::vector<std::unique_ptr<PeerProcess>> ranks;
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    ranks.push_back(std::make_unique<PeerProcess>([&desk, rank, has_peers](Wire const&) {
      auto const domain = must(open_test_device().allocate_protection_domain());
      Seat const seat{.rank = rank, .size = 3, .desk = desk};
      auto group = must(Group::join(domain, seat, within(patience), here()));
      auto memory = must(domain.allocate(8));
      auto peers = must(Peers::connect_all(group, within(patience)));
      must(group.barrier(within(patience)));
      if (rank == 1) ::raise(SIGKILL);
      auto const error = has_peers
                             ? error_of(peers[2 - rank].receive(memory.scatter(), within(patience)))
                             : error_of(group.barrier(within(patience)));
      CAPTURE(error.message());
      REQUIRE(error == Errc::peer_lost);
      REQUIRE(group.lost_rank() == 1);
      return 0;
    }));
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    CHECK(ranks[rank]->exit_status() == (rank == 1 ? 128 + SIGKILL : 0));
}
