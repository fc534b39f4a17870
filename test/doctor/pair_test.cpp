// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what a peer of the doctor says is taken only in its form, and bytes that differ are found.
// Method: words, written by hand or changed.
#include <lend/doctor/examine_pair.hpp>

#include <doctor/pair.hpp>
#include <doctor/pair_server.hpp>
#include <doctor/pair_sides.hpp>

#include <algorithm>
#include <chrono>
#include <thread>

#include "doctor/tree.hpp"
#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;
using doctor::Words;
using network::Conversation;

namespace {

doctor::PairPort port(std::string kind, std::string form, std::uint32_t mtu = 4096) {
  return {.device = "d0",
          .kind = std::move(kind),
          .link_layer = "Ethernet",
          .mtu_bytes = mtu,
          .addresses = {{3, "RoCE v1", "fe80::1"}, {1, std::move(form), "10.0.0.1"}}};
}

/// What the doctor finds with a peer that listens, tells its report, and then does `acts`.
template <class Acts>
std::vector<Finding> findings_with(std::string& address, Acts acts) {
  auto const patience = within(std::chrono::seconds{20});
  auto listener = must(network::ConversationListener::open("127.0.0.1:0", {}));
  address = listener.address();
  std::thread peer{[&] {
    auto const ports = must(doctor::OpenPorts::open());
    auto const talk = must(listener.accept(patience));
    doctor::Host const host;
    doctor::SideReport const ours{.version = "1",
                                  .boot = *host.read("/proc/sys/kernel/random/boot_id"),
                                  .findings = {{.id = "port", .level = FindingLevel::fail}},
                                  .ports = ports.ports()};
    must(doctor::exchange_reports(talk, ours, false, patience));
    acts(talk, patience);
  }};
  auto const examined = examine_with(address, patience);
  peer.join();
  return must(examined);
}

}  // namespace

TEST_CASE("ports and findings are read as they were written, and nothing else is", "[doctor]") {
  auto const ports = std::vector{port("card", "RoCE v2"), port("soft", "InfiniBand")};
  auto const words = doctor::words_of(ports);
  auto const read = doctor::ports_in(words).value();
  CHECK(doctor::words_of(read) == words);
  CHECK(read[0].addresses[1].index == 1);

  for (std::size_t length = 1; length < words.size(); ++length) {
    CAPTURE(length);
    Words const cut{words.begin(), words.begin() + static_cast<std::ptrdiff_t>(length)};
    if (auto const some = doctor::ports_in(cut)) CHECK(some.value().size() == 1);
  }
  for (auto const at : {1u, 4u, 5u, 6u})
    for (auto const* const wrong : {"", "-1", "x", "99999999999999999999", "4294967296"}) {
      auto changed = words;
      changed[at] = wrong;
      CHECK(doctor::ports_in(changed).error() == Errc::incompatible_peer);
    }

  std::vector<Finding> const findings{{.id = "memlock", .level = FindingLevel::warn, .seen = "\n"},
                                      {.id = "pair.mtu", .level = FindingLevel::fail}};
  auto said = doctor::words_of(findings);
  auto const heard = doctor::findings_in(said).value();
  CHECK((heard[0].id == "memlock" && heard[0].seen == "\n" && !heard[1].page.empty()));
  said[0] = "of a later version";
  CHECK(doctor::findings_in(said).value()[0].id == "peer.findings");
  said[1] = "good";
  CHECK(doctor::findings_in(said).error() == Errc::incompatible_peer);
  said.pop_back();
  CHECK(doctor::findings_in(said).error() == Errc::incompatible_peer);
}

TEST_CASE("a peer's findings are marked, and a terminal may show them", "[doctor]") {
  auto const hostile =
      "a\x1b[2J\x9b"
      "1m\xc2\x9b"
      "2m";
  std::vector<Finding> const said{
      {.id = "memlock", .level = FindingLevel::fail, .subject = hostile},
      {.id = "pair.mtu", .level = FindingLevel::fail, .subject = hostile, .mend = "rm x …\nrm y"},
      {.id = "pair.use", .level = FindingLevel::ok, .seen = hostile}};

  auto const heard = doctor::end_in(doctor::words_of(said)).value();

  REQUIRE(heard.size() == 2);  // what is so of one side is not said there
  CHECK(heard[0].subject == "seen from the peer, a?[2J?1m??2m");
  CHECK(heard[0].mend == "the peer says: rm x ...\nthe peer says: rm y");
  CHECK(heard[1].seen == "a?[2J?1m??2m");
  auto const without_verdict = std::vector{said[0], said[1]};
  CHECK(doctor::end_in(doctor::words_of(without_verdict)).error() == Errc::incompatible_peer);
  CHECK(doctor::end_in({}).error() == Errc::incompatible_peer);

  // Also where the words did not come from a doctor.
  auto const text = text_of(Finding{.subject = hostile, .seen = "\xc3\xbc \xe2\x82\xac"});
  CHECK(has(text, "a?[2J?1m??2m: \xc3\xbc \xe2\x82\xac"));
}

TEST_CASE("more findings than a message takes are said in part, up to the last", "[doctor]") {
  std::string const text(5000, 'x');
  std::vector<Finding> many(
      1000, {.id = "memlock", .subject = text, .seen = text, .why = text, .mend = text});
  many.push_back({.id = "pair.use", .level = FindingLevel::ok, .seen = "d0/1"});

  auto const words = doctor::words_of(many);

  std::size_t bytes = 0;
  for (auto const& word : words) bytes += word.size() + 5;
  CHECK(bytes < Conversation::message_bytes_max);
  auto const heard = doctor::findings_in(words).value();
  CHECK((heard.size() > 50 && heard.back().id == "pair.use" && heard[0].seen.size() == 1024));
  Words const too_many(6 * 257, "ok");
  CHECK(doctor::findings_in(too_many).error() == Errc::incompatible_peer);
  std::vector const ports(65, port("card", "RoCE v2"));
  CHECK(doctor::ports_in(doctor::words_of(ports)).error() == Errc::incompatible_peer);
  std::vector const named{port(std::string(65, 'x'), "RoCE v2")};
  CHECK(doctor::ports_in(doctor::words_of(named)).error() == Errc::incompatible_peer);
}

TEST_CASE("the side that listens has its own findings, what is bad at the peer, and its verdict",
          "[doctor]") {
  auto listener = must(ExaminationListener::open("127.0.0.1:0"));
  std::vector<Finding> served;
  std::thread server{[&] { served = must(listener.serve(within(std::chrono::seconds{20}))); }};
  auto const patience = within(std::chrono::seconds{20});
  auto const talk = must(Conversation::with_listener(listener.address(), patience, {}));
  std::string const longest(1000, 'x');
  doctor::SideReport const ours{.version = "1",
                                .findings = std::vector<Finding>(60, {.id = "memlock",
                                                                      .level = FindingLevel::warn,
                                                                      .subject = longest,
                                                                      .seen = longest,
                                                                      .why = longest,
                                                                      .mend = longest})};

  auto const theirs = must(doctor::exchange_reports(talk, ours, true, patience));
  CHECK(talk.say({std::string(Conversation::message_bytes_max, 'x')}, patience).error() ==
        Errc::invalid_argument);
  must(talk.say({"end", "use", "ok", "", "forged", "", "", "pair.use", "ok", "all", "", "", ""},
                patience));
  server.join();

  CHECK(served.size() == theirs.findings.size() + 60 + 2 + 1);
  CHECK(served.back().subject == "seen from the peer, all");
  CHECK(std::ranges::count(served, "at the peer, " + longest, &Finding::subject) == 60);
  CHECK(std::ranges::count(served, "forged", &Finding::seen) == 0);
}

TEST_CASE("a doctor whose peer is lost in the middle tells what it had found before", "[doctor]") {
  std::string address;

  auto const findings = findings_with(address, [](Conversation const& talk, Deadline patience) {
    must(talk.hear(patience));  // to try the first ports
  });

  auto const count = [&](std::string_view id) {
    return std::ranges::count(findings, id, &Finding::id);
  };
  CHECK((count("peer.versions") == 1 && count("pair.kind") == 1));
  CHECK(std::ranges::count(findings, "at the peer, ", &Finding::subject) == 1);
  auto const& lost = findings[findings.size() - 2];
  CHECK((lost.id == "pair.lost" && lost.level == FindingLevel::fail && lost.subject == address));
  CHECK(has(lost.seen, " to "));
  CHECK(has(lost.seen, ", connecting: the peer at " + address + " closed the connection"));
  CHECK_FALSE(has(lost.seen, "first failed"));
  CHECK((findings.back().id == "pair.use" && findings.back().seen == "nothing"));
}

TEST_CASE("what failed before the doctor's peer was lost is told with the loss", "[doctor]") {
  std::string address;

  auto const findings = findings_with(address, [](Conversation const& talk, Deadline patience) {
    for (auto const* const reason : {"out of queue pairs", "still out of them"}) {
      must(talk.hear(patience));
      must(talk.say({"no", reason}, patience));
    }
    must(talk.hear(patience));  // to try a third time
  });

  auto const& lost = findings[findings.size() - 2];
  CHECK(lost.id == "pair.lost");
  CHECK(has(lost.seen, ", connecting: the peer at " + address + " closed the connection"));
  CHECK(lost.seen.ends_with("; first failed, connecting: at the peer: out of queue pairs"));
}

TEST_CASE("a peer that is lost in the middle of a message is no reason to forget its failure",
          "[doctor]") {
  std::string address;

  auto const findings = findings_with(address, [](Conversation const& talk, Deadline patience) {
    auto const ports = must(doctor::OpenPorts::open());
    auto const words = must(talk.hear(patience));
    auto const way = must(doctor::Way::in(words, 1));
    {
      auto end = must(doctor::TrialEnd::prepare(ports, way));
      auto const card = end.card();
      must(end.connect(words.back()));
      must(talk.say({"yes", card}, patience));
      must(talk.hear(patience));  // to expect a message
    }                             // for which nothing is left
    must(talk.say({"go"}, patience));
  });

  auto const& lost = findings[findings.size() - 2];
  CHECK((lost.id == "pair.lost" && has(lost.seen, "send of 1 bytes")));
  CHECK(has(lost.seen, "; first failed, send of 1 bytes: "));
}

TEST_CASE("a patience is told in the largest unit of which it is whole", "[doctor]") {
  using namespace std::chrono_literals;
  CHECK(doctor::text_of(doctor::patience_with_peer) == "10 min");
  CHECK(doctor::text_of(90s) == "90 s");
  CHECK(doctor::text_of(1500ms) == "1500 ms");
}

TEST_CASE("a peer that keeps a listening doctor too long is given up", "[doctor]") {
  using namespace std::chrono_literals;
  auto const patience = within(20s);
  doctor::PairServer server{must(network::ConversationListener::open("127.0.0.1:0", {})), 100ms};
  Result<std::vector<Finding>> served = Error{Errc::cancelled, "not served"};
  std::thread serving{[&] { served = server.serve(patience); }};

  auto const silent = must(Conversation::with_listener(server.address(), patience, {}));
  serving.join();

  CHECK(served.error() == Errc::peer_lost);
  CHECK(has(served.error().message(), "was not done after 100 ms"));
}

TEST_CASE("a message that was not expected is no message", "[doctor]") {
  auto const ports = must(doctor::OpenPorts::open());
  REQUIRE_FALSE(ports.ports().empty());
  auto const& first = ports.ports()[0];
  doctor::Way way{.device = first.device, .number = first.number, .mtu_bytes = first.mtu_bytes};
  if (!first.addresses.empty()) way.gid_index = first.addresses[0].index;
  auto end = must(doctor::TrialEnd::prepare(ports, way));
  must(end.connect(end.card()));
  doctor::Step const step{.operation = "send", .bytes = 1, .seed = 1};

  CHECK(end.check(step).error() == Errc::invalid_argument);
  must(end.expect(step));
  must(end.act(step));
  must(end.check(step));
}

TEST_CASE("bytes that are moved and come as others are no success, by send, write and read",
          "[doctor]") {
  auto const ports = must(doctor::OpenPorts::open());
  auto const& first = ports.ports().at(0);
  doctor::Way way{.device = first.device, .number = first.number, .mtu_bytes = first.mtu_bytes};
  if (!first.addresses.empty()) way.gid_index = first.addresses[0].index;
  auto end = must(doctor::TrialEnd::prepare(ports, way));
  must(end.connect(end.card()));
  for (auto const* const operation : {"send", "write", "read"}) {
    INFO(operation);
    must(end.expect({.operation = operation, .bytes = 100, .seed = 1}));
    auto const acted = end.act({.operation = operation, .bytes = 100, .seed = 2});
    auto const seen = end.check({.operation = operation, .bytes = 100, .seed = 1});
    auto const& outcome = acted ? seen : acted;
    REQUIRE(outcome.has_error());
    CHECK(has(outcome.error().message(), "byte 0 of 100 came as "));
  }
}

TEST_CASE("a byte that came as another is named", "[doctor]") {
  std::vector<std::byte> bytes(5000);
  doctor::fill(bytes, 7);
  CHECK(doctor::compare(bytes, 7).has_value());
  CHECK(doctor::compare(bytes, 8).has_error());
  auto moved = bytes;
  std::rotate(moved.begin(), moved.begin() + 1, moved.end());
  CHECK(doctor::compare(moved, 7).has_error());
  bytes[4097] ^= std::byte{1};
  CHECK(has(doctor::compare(bytes, 7).error().message(), "byte 4097 of 5000"));
}

TEST_CASE("only ports that can be connected are paired, by addresses of one form", "[doctor]") {
  std::vector<Finding> findings;
  doctor::SideReport ours{.boot = "a", .ports = {port("card", "RoCE v2"), port("soft", "RoCE v2")}};
  auto theirs = ours;
  theirs.ports[0].kind = "software RDMA";

  auto const same_host = doctor::candidates(ours, theirs, "peer", findings);
  REQUIRE(same_host.size() == 2);
  auto const& [here, there] = same_host[0].addresses.front();
  CHECK((here->type == there->type && same_host[0].addresses.size() == 2));

  theirs.boot = "b";
  CHECK(doctor::candidates(ours, theirs, "peer", findings).size() == 1);
  theirs.ports.erase(theirs.ports.begin());
  CHECK(doctor::candidates(ours, theirs, "peer", findings).empty());
  CHECK((findings.back().id == "pair.kind" && findings.back().level == FindingLevel::fail));
}

TEST_CASE("ports of RoCE that do not even connect lack a route, and the kernel is asked for it",
          "[doctor]") {
  auto const patience = within(std::chrono::seconds{20});
  auto listener = must(network::ConversationListener::open("127.0.0.1:0", {}));
  std::thread peer{[&] {
    auto const talk = must(listener.accept(patience));
    for (;;) {
      auto const heard = talk.hear(patience);
      if (!heard) return;
      auto const is_try = heard.value().front() == "try";
      must(talk.say(is_try ? Words{"no", "Network is unreachable"} : Words{"did"}, patience));
    }
  }};
  // The soft device under the addresses of a card: it connects to itself.
  auto const ports = must(doctor::OpenPorts::open());
  auto ours = ports.ports().front();
  ours.kind = "card";
  ours.link_layer = "Ethernet";
  ours.addresses = {{ours.addresses.front().index, "RoCE v2", "10.77.0.2"}};
  auto theirs = ours;
  theirs.addresses.front().text = "10.79.0.1; rm x";
  std::vector<Finding> findings;
  {
    auto const talk = must(Conversation::with_listener(listener.address(), patience, {}));
    doctor::Trials trials{talk, ports, patience};
    findings = must(doctor::examine_pairs(trials, {.ports = {ours}}, {.ports = {theirs}}, "p"));
    theirs.addresses.front().text = "10.79.0.1";
    auto more = must(doctor::examine_pairs(trials, {.ports = {ours}}, {.ports = {theirs}}, "p"));
    std::ranges::move(more, std::back_inserter(findings));
  }
  peer.join();

  std::erase_if(findings, [](Finding const& finding) { return finding.id != "pair.path"; });
  REQUIRE(findings.size() == 2);
  CHECK(findings[1].seen == "connecting: at the peer: Network is unreachable");
  CHECK(has(findings[1].why, "no route goes to that network"));
  CHECK(
      findings[1].mend.starts_with("ip route get 10.79.0.1 from 10.77.0.2  (here)\n"
                                   "ip route get 10.77.0.2 from 10.79.0.1  (at the peer)\n"));
  // No words of the peer's are in a command of ours.
  CHECK(findings[0].mend.starts_with("ip route get ADDRESS from 10.77.0.2  (here)\n"));
}

TEST_CASE("RoCE v1 on one side and v2 on the other have their own verdict", "[doctor]") {
  // SoftRoCE has v2 alone, so no guest has this.
  auto v1 = port("card", "RoCE v1"), v2 = port("card", "RoCE v2");
  v2.addresses.erase(v2.addresses.begin());
  Conversation const nobody{network::Peer{}};
  auto const none = must(doctor::OpenPorts::open());
  doctor::Trials trials{nobody, none, within(std::chrono::seconds{1})};

  auto const findings = must(doctor::examine_pairs(trials, {.ports = {v1}}, {.ports = {v2}}, "p"));

  auto const& gid = findings[findings.size() - 2];
  CHECK((gid.id == "pair.gid" && gid.level == FindingLevel::fail));
  CHECK((has(gid.seen, "RoCE v1) here") && has(gid.seen, "RoCE v2) at the peer")));
  CHECK((findings.back().id == "pair.use" && findings.back().level == FindingLevel::fail));
}

TEST_CASE("what is bad at the peer is listed under its name", "[doctor]") {
  std::vector<Finding> findings;
  doctor::SideReport const ours{.version = "1"};
  doctor::SideReport const theirs{
      .version = "2",
      .findings = {{.id = "port", .level = FindingLevel::fail, .subject = "mlx5_0/1"},
                   {.id = "use", .level = FindingLevel::ok}}};

  doctor::compare_sides(ours, theirs, "node1", findings);

  REQUIRE(findings.size() == 3);
  CHECK((findings[0].id == "peer.versions" && findings[0].level == FindingLevel::warn));
  CHECK((findings[1].id == "port" && findings[1].subject == "at the peer, mlx5_0/1"));
  CHECK(has(findings[2].seen, "2 findings, 1 of them above"));
}

TEST_CASE("a pair that fails is excused only if both of its ports reach others", "[doctor]") {
  doctor::PairPort const a{.device = "a"}, b{.device = "b"}, c{.device = "c"}, d{.device = "d"};
  std::vector<doctor::Candidate> const pairs{{&a, &c}, {&a, &d}, {&b, &c}, {&b, &d}};
  auto const level_of = [&](std::vector<bool> const& passes) {
    std::vector findings{
        Finding{.id = "pair.path", .level = FindingLevel::fail, .subject = pairs[1].name()}};
    doctor::excuse_other_networks(pairs, passes, findings);
    return findings[0].level;
  };

  CHECK(level_of({true, false, false, true}) == FindingLevel::warn);
  CHECK(level_of({true, false, true, false}) == FindingLevel::fail);   // d reaches none
  CHECK(level_of({false, false, false, true}) == FindingLevel::fail);  // nor does a
}
