// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: ports of iWARP are connected by a connector, with the verdicts of other ports.
// Method: the soft device under the name of iWARP, and a connector that swaps endpoints.
#include <doctor/pair.hpp>
#include <doctor/pair_sides.hpp>

#include <algorithm>
#include <chrono>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "doctor/tree.hpp"
#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;
using doctor::Words;
using network::Conversation;

namespace {

/// Connects within this process. Nothing routes to the hosts of `unreachable`.
class Swap final : public PairConnector {
 public:
  std::string unreachable{};
  std::string obstacle{};  ///< of listening
  std::string asked{};     ///< "HOST from SOURCE" of each attempt

  [[nodiscard]] Result<void> check() const override {
    if (!obstacle.empty()) return Error{Errc::unsupported, obstacle};
    return success();
  }
  [[nodiscard]] Result<std::unique_ptr<Listener>> listen(std::string const& host) const override {
    LEND_TRYV(check());
    std::scoped_lock const lock{mutex_};
    auto const port = static_cast<std::uint16_t>(1 + seats_.size());
    auto& seat = seats_[port];
    seat.host = host;
    return std::make_unique<At>(port, seat);
  }
  [[nodiscard]] Result<QueuePair> connect(std::string const& host, std::uint16_t port,
                                          std::string const& source, PreparedQueuePair queue_pair,
                                          Deadline deadline) const override {
    std::unique_lock lock{mutex_};
    auto& seat = seats_.at(port);
    const_cast<Swap*>(this)->asked += host + " from " + source + "; ";
    lock.unlock();
    if (host != seat.host || unreachable.find(host) != unreachable.npos) {
      seat.client.set_value(std::nullopt);
      return Error{Errc::not_found, "no route"};
    }
    seat.client.set_value(queue_pair.endpoint());
    auto answer = seat.listener.get_future();
    if (answer.wait_for(deadline.left()) != std::future_status::ready)
      return Error{Errc::timed_out, "no answer"};
    return std::move(queue_pair).connect(answer.get());
  }

 private:
  struct Seat {
    std::string host{};
    std::promise<std::optional<Endpoint>> client{};
    std::promise<Endpoint> listener{};
  };
  class At final : public Listener {
   public:
    At(std::uint16_t port, Seat& seat) noexcept : port_{port}, seat_{seat} {}
    [[nodiscard]] std::uint16_t port() const noexcept override { return port_; }
    [[nodiscard]] Result<QueuePair> accept(PreparedQueuePair queue_pair,
                                           Deadline deadline) override {
      auto request = seat_.client.get_future();
      if (request.wait_for(deadline.left()) != std::future_status::ready)
        return Error{Errc::timed_out, "no peer came"};
      auto const theirs = request.get();
      if (!theirs) return Error{Errc::timed_out, "no peer came"};
      seat_.listener.set_value(queue_pair.endpoint());
      return std::move(queue_pair).connect(*theirs);
    }

   private:
    std::uint16_t port_;
    Seat& seat_;
  };

  static inline std::mutex mutex_{};  // all of this process are one network
  static inline std::map<std::uint16_t, Seat> seats_{};
};

/// The first port of this process, as one of iWARP.
doctor::PairPort as_iwarp(doctor::OpenPorts const& ports, std::vector<std::string> const& hosts) {
  auto port = ports.ports().at(0);
  port.kind = "software RDMA";
  port.link_layer = doctor::iwarp;
  port.addresses.clear();
  for (auto const& host : hosts) port.addresses.push_back({0, "IPv4", host});
  return port;
}

/// What a client finds of itself, as 10.0.0.1, and of a peer with these addresses.
std::vector<Finding> examined(Swap& near, Swap& far, std::vector<std::string> const& hosts) {
  auto const patience = within(20s);
  auto listener = must(network::ConversationListener::open("127.0.0.1:0", {}));
  std::thread peer{[&] {
    auto const ports = must(doctor::OpenPorts::open(&far));
    auto const talk = must(listener.accept(patience));
    static_cast<void>(doctor::serve_trials(talk, ports, patience));  // the client says no end
  }};
  std::vector<Finding> findings;
  {
    auto const ports = must(doctor::OpenPorts::open(&near));
    auto const talk = must(Conversation::with_listener(listener.address(), patience, {}));
    doctor::Trials trials{talk, ports, patience};
    findings = must(doctor::examine_pairs(trials, {.ports = {as_iwarp(ports, {"10.0.0.1"})}},
                                          {.ports = {as_iwarp(ports, hosts)}}, "p"));
  }
  peer.join();
  return findings;
}

Finding const& finding_of(std::vector<Finding> const& findings, std::string_view id) {
  auto const at = std::ranges::find(findings, id, &Finding::id);
  INFO(id);
  REQUIRE(at != findings.end());
  return *at;
}

}  // namespace

TEST_CASE("ports of iWARP are connected by the connector, and bytes go both ways", "[doctor]") {
  Swap by_cm;

  auto const findings = examined(by_cm, by_cm, {"10.0.0.2"});

  auto const& bytes = finding_of(findings, "pair.bytes");
  CHECK((bytes.level == FindingLevel::ok && has(bytes.seen, "36 messages")));
  CHECK(has(bytes.seen, "connected by rdma_cm, 10.0.0.1 to 10.0.0.2"));
  CHECK(findings.back().level == FindingLevel::ok);
  CHECK(by_cm.asked == "10.0.0.2 from 10.0.0.1; ");
}

TEST_CASE("where another address of iWARP passes than the first, both are told", "[doctor]") {
  Swap by_cm;
  by_cm.unreachable = "10.0.0.3";

  auto const findings = examined(by_cm, by_cm, {"10.0.0.3", "10.0.0.2"});

  auto const& gid = finding_of(findings, "pair.gid");
  CHECK(gid.level == FindingLevel::fail);
  CHECK(
      has(gid.seen, "10.0.0.1 to 10.0.0.2 passes, 10.0.0.1 to 10.0.0.3 not: connecting: no route"));
  CHECK(gid.mend == "cm_connect() to 10.0.0.2, with the CmOptions::source 10.0.0.1");
}

TEST_CASE("where no address of iWARP is reached, each port alone is tried", "[doctor]") {
  Swap near, far;
  near.unreachable = "10.0.0.2";
  SECTION("both reach themselves") {
    auto const findings = examined(near, far, {"10.0.0.2"});
    auto const& path = finding_of(findings, "pair.path");
    CHECK(path.seen == "connecting: no route");
    CHECK(has(path.why, "nothing answers there, or a firewall drops TCP to it"));
    CHECK(path.mend.starts_with("ip route get 10.0.0.2 from 10.0.0.1  (here)\n"));
  }
  SECTION("the peer's does not") {
    far.obstacle = "no rdma_cm";
    auto const findings = examined(near, far, {"10.0.0.2"});
    auto const& device = finding_of(findings, "pair.device");
    CHECK(device.subject.starts_with("at the peer, "));
    CHECK(device.seen == "at the peer: no rdma_cm");
  }
  SECTION("this side's does not") {
    near.unreachable = "10.0.0.2 10.0.0.1";
    auto const findings = examined(near, far, {"10.0.0.2"});
    auto const& device = finding_of(findings, "pair.device");
    CHECK_FALSE(has(device.subject, "peer"));
    CHECK(device.seen == "no route");
  }
}

TEST_CASE("a connector that one side lacks is told, and nothing is tried or said to fail",
          "[doctor]") {
  Conversation const nobody{network::Peer{}};
  auto const none = must(doctor::OpenPorts::open());
  doctor::Trials trials{nobody, none, within(1s)};
  auto const siw = as_iwarp(none, {"10.0.0.1"});
  bool const is_here = GENERATE(true, false);
  std::string const why = is_here ? none.by_cm().error().message() : "no librdmacm";
  doctor::SideReport const able{.ports = {siw}}, unable{.cm_obstacle = why, .ports = {siw}};

  auto const findings =
      must(doctor::examine_pairs(trials, is_here ? unable : able, is_here ? able : unable, "p"));

  REQUIRE(findings.size() == 5);
  auto const name = siw.name();
  CHECK((findings[2].id == "pair.kind" && findings[2].level == FindingLevel::skipped));
  CHECK((findings[2].subject == name + " to " + name && has(findings[2].why, "only rdma_cm")));
  CHECK(
      findings[2].why.ends_with((is_here ? "this side has none: " : "the peer has none: ") + why));
  CHECK((findings[3].id == "pair.kind" && findings[3].level == FindingLevel::ok));
  CHECK((findings[4].id == "pair.use" && findings[4].level == FindingLevel::skipped));
  // With a port of RoCE it cannot be connected at all.
  auto roce = siw;
  roce.link_layer = "Ethernet";
  auto const mixed = must(doctor::examine_pairs(trials, able, {.ports = {roce}}, "p"));
  CHECK((mixed.back().id == "pair.use" && mixed.back().level == FindingLevel::fail));
}

TEST_CASE("ports of iWARP without an address, or with one of another form, are not tried",
          "[doctor]") {
  Conversation const nobody{network::Peer{}};
  auto const none = must(doctor::OpenPorts::open());
  doctor::Trials trials{nobody, none, within(1s)};
  doctor::SideReport const bare{.ports = {as_iwarp(none, {})}};

  auto const findings = must(doctor::examine_pairs(trials, bare, bare, "p"));

  auto const& gid = finding_of(findings, "pair.gid");
  CHECK((gid.level == FindingLevel::fail && gid.seen == "no address here, no address at the peer"));
}

TEST_CASE("a host of iWARP is an IP address, and no name to be looked up", "[doctor]") {
  doctor::Way const way{.device = "siw0", .mtu_bytes = 4096, .host = "10.0.0.1"};
  CHECK(must(doctor::Way::in(way.words(), 0)).host == "10.0.0.1");
  CHECK(must(doctor::Way::in(doctor::Way{.device = "rxe0"}.words(), 0)).host.empty());
  for (std::string const wrong : {"node1", "10.0.0.1:7", "10.0.0.1; rm x", "[::1]", ""}) {
    CAPTURE(wrong);
    auto words = way.words();
    words.back() = wrong;
    CHECK(doctor::Way::in(words, 0).error() == Errc::incompatible_peer);
    doctor::PairPort const port{.link_layer = std::string{doctor::iwarp},
                                .addresses = {{0, "IPv4", wrong}}};
    CHECK(doctor::ports_in(doctor::words_of({port})).error() == Errc::incompatible_peer);
  }
}
