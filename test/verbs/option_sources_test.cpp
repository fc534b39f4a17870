// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: each member of ConnectionOptions reaches the device from each layer: from the program, else
// from its variable, else as the default; and what is in force says where it is from.
// Method: the attributes that the fake provider was given.
#include <lend/group.hpp>

#include "support/device_environment.hpp"
#include "support/two_ends.hpp"
#include "verbs/fake_provider.hpp"

#include <lend/transport/any.hpp>
#include <lend/transport/credit_ring.hpp>
#include <lend/transport/read_ring.hpp>
#include <lend/transport/send_receive.hpp>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

GidBytes address(std::uint8_t second, std::uint8_t last) {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, second, 0, last};
}

ProtectionDomain domain_with_choices() {
  FakeDevice device;
  device.gids = {address(0, 1), address(1, 7), address(2, 9)};
  device.partition_keys = {0xffff, 0x8012, 0x8013};
  device.queue_pair_step = 1;
  device.has_channels = true;
  device.completions_max = 1 << 16;
  auto& fake = Fake::get();
  fake.reset(std::move(device));
  // What was posted comes back at once, so that no end waits for it.
  fake.at_error = [&fake] {
    for (Posted const& each : fake.posted) complete(each, IBV_WC_WR_FLUSH_ERR);
    fake.posted.clear();
  };
  return must(must(open_fake()).allocate_protection_domain());
}

/// What the device was given on the way to RTS.
struct Seen {
  ibv_qp_attr init{}, receive{}, send{};
};

Seen seen() {
  auto const& steps = Fake::get().modified;
  REQUIRE(steps.size() >= 3);
  return {steps[steps.size() - 3].attributes, steps[steps.size() - 2].attributes,
          steps.back().attributes};
}

struct Layer {
  char const* name;
  std::function<Seen(ProtectionDomain const&, ConnectionOptions const&)> connect;
};

template <class Kind>
Seen by_transport(ProtectionDomain const& domain, ConnectionOptions const& options) {
  auto prepared = must(Kind::prepare(domain, TransportOptions{.connection = options}));
  Endpoint const itself = prepared.endpoint();
  TransportTerms const terms = prepared.terms();
  auto const transport = must(std::move(prepared).handshake(itself, terms));
  return seen();
}

Channel channel_of(ProtectionDomain const& domain, ChannelOptions const& options) {
  auto prepared = must(prepare_channel(domain, options));
  Endpoint const itself = prepared.endpoint();
  return must(std::move(prepared).handshake(itself));
}

std::vector<Layer> layers() {
  return {
      {"queue pair",
       [](auto const& domain, auto const& options) {
         auto const queue = must(CompletionQueue::create(domain.context(), 512));
         auto prepared = must(PreparedQueuePair::create(domain, queue, {.connection = options}));
         Endpoint const itself = prepared.endpoint();
         auto const connected = must(std::move(prepared).connect(itself));
         return seen();
       }},
      {"channel",
       [](auto const& domain, auto const& options) {
         auto const channel = channel_of(domain, {.queue_pair = {.connection = options}});
         return seen();
       }},
      {"channel, prepared again",
       [](auto const& domain, auto const& options) {
         auto channel = channel_of(domain, {.queue_pair = {.connection = options}});
         auto again = must(std::move(channel).prepare_again());
         Endpoint const itself = again.endpoint();
         auto const connected = must(std::move(again).handshake(itself));
         return seen();
       }},
      {"multi-channel",
       [](auto const& domain, auto const& options) {
         auto set = must(WaitSet::create(domain.context(), Wait::spin));
         auto prepared = must(PreparedMultiChannel::prepare(
             domain, set, 1, {.queue_pair = {.connection = options}}));
         auto const itself = prepared.endpoints();
         auto const connected = must(std::move(prepared).handshake(itself));
         return seen();
       }},
      {"SendReceive", by_transport<SendReceive>},
      {"CreditRing", by_transport<CreditRing>},
      {"ReadRing", by_transport<ReadRing>},
      {"group",
       [](auto const& domain, auto const& options) {
         auto prepared = must(PreparedGroup::prepare(
             domain, 0, 2, {.wait = Wait::spin, .keep_alive = 0ns, .connection = options}));
         auto card = prepared.cards()[1];
         card.mailbox = {};
         std::vector<RankCard> const cards(2, card);
         auto group = must(std::move(prepared).handshake(cards));
         auto const found = seen();
         Fake::get().at_error();  // no end waits for a peer that it lost
         CHECK(group.check().has_error());
         return found;
       }},
  };
}

/// One member: its variable with a value, a program's other one, and what the device has of each.
struct Member {
  char const* name;
  char const* variable;
  char const* value;
  void (*set)(ConnectionOptions&);
  int (*has)(Seen const&);
  int usual, by_variable, by_program;
};

std::vector<Member> members() {
  return {
      {"gid", "LEND_GID", "10.1.0.0/16", [](auto& all) { all.gid.network = "10.2.0.0/16"; },
       [](auto const& step) { return int{step.receive.ah_attr.grh.sgid_index}; }, 0, 1, 2},
      {"mtu_bytes", "LEND_MTU", "1024", [](auto& all) { all.mtu_bytes = 512; },
       [](auto const& step) { return int{step.receive.path_mtu}; }, IBV_MTU_4096, IBV_MTU_1024,
       IBV_MTU_512},
      {"service_level", "LEND_SERVICE_LEVEL", "5", [](auto& all) { all.service_level = 0; },
       [](auto const& step) { return int{step.receive.ah_attr.sl}; }, 0, 5, 0},
      {"traffic_class", "LEND_TRAFFIC_CLASS", "106", [](auto& all) { all.traffic_class = 26; },
       [](auto const& step) { return int{step.receive.ah_attr.grh.traffic_class}; }, 0, 106, 26},
      {"partition_key", "LEND_PARTITION_KEY", "0x8012", [](auto& all) { all.partition_key = 0x13; },
       [](auto const& step) { return int{step.init.pkey_index}; }, 0, 1, 2},
      {"ack_timeout", "LEND_ACK_TIMEOUT", "1s", [](auto& all) { all.ack_timeout = 8us; },
       [](auto const& step) { return int{step.send.timeout}; }, 14, 18, 1},
      {"ack_retries", "LEND_ACK_RETRIES", "3", [](auto& all) { all.ack_retries = 1; },
       [](auto const& step) { return int{step.send.retry_cnt}; }, 6, 3, 1},
  };
}

Setting const& setting(std::vector<Setting> const& all, std::string_view name) {
  auto const found = std::ranges::find(all, name, &Setting::name);
  REQUIRE(found != all.end());
  return *found;
}

std::string source_of(ConnectionOptions const& options, std::string_view name) {
  auto const domain = domain_with_choices();
  auto const channel = channel_of(domain, {.queue_pair = {.connection = options}});
  auto const got = setting(channel.settings(), name);
  auto const would = must(domain.context().settings(options));
  CHECK(setting(would, name).value == got.value);
  CHECK(setting(would, name).source == got.source);
  return got.source;
}

}  // namespace

TEST_CASE("each connection option reaches the device from each layer and each source", "[verbs]") {
  for (auto const& layer : layers())
    for (auto const& member : members()) {
      INFO(layer.name << ", " << member.name);
      ConnectionOptions own;
      member.set(own);
      CHECK(member.has(layer.connect(domain_with_choices(), {})) == member.usual);
      EnvironmentVariable const variable{member.variable, member.value};
      CHECK(member.has(layer.connect(domain_with_choices(), {})) == member.by_variable);
      CHECK(member.has(layer.connect(domain_with_choices(), own)) == member.by_program);
    }
}

TEST_CASE("what is in force says where it is from", "[verbs]") {
  for (auto const& member : members()) {
    INFO(member.name);
    ConnectionOptions own;
    member.set(own);
    CHECK(source_of({}, member.name) == "default");
    EnvironmentVariable const variable{member.variable, member.value};
    CHECK(source_of({}, member.name) == member.variable);
    CHECK(source_of(own, member.name) == "program");
  }
  auto const domain = domain_with_choices();
  EnvironmentVariable const variable{"LEND_TRAFFIC_CLASS", "106"};
  auto const all = must(domain.context().settings({.gid = {.index = 1}}));
  CHECK(setting(all, "gid").value == "10.1.0.7 (index 1, RoCE v2)");
  CHECK(setting(all, "mtu_bytes").value == "4096");
  CHECK(setting(all, "traffic_class").value == "106 (DSCP 26, ECN 2)");
  CHECK(setting(all, "ack_timeout").value == "67.1 ms");
}

TEST_CASE("an end for which no class or level was chosen has its peer's", "[verbs]") {
  auto const domain = domain_with_choices();
  auto const connect = [&](ConnectionOptions const& own, std::uint8_t theirs, std::uint8_t level) {
    auto prepared = must(prepare_channel(domain, {.queue_pair = {.connection = own}}));
    Endpoint peer = prepared.endpoint();
    peer.traffic_class = theirs;
    peer.service_level = level;
    return must(std::move(prepared).handshake(peer));
  };
  {
    auto const channel = connect({}, 106, 5);
    CHECK(seen().receive.ah_attr.grh.traffic_class == 106);
    CHECK(seen().receive.ah_attr.sl == 5);
    CHECK(setting(channel.settings(), "traffic_class").source == "peer");
    CHECK(setting(channel.settings(), "service_level").source == "peer");
  }
  {
    auto const channel = connect({.traffic_class = 26}, 106, 0);
    CHECK(seen().receive.ah_attr.grh.traffic_class == 26);
    CHECK(setting(channel.settings(), "traffic_class").source == "program");
    CHECK(setting(channel.settings(), "service_level").source == "default");
  }
  {
    auto const channel = connect({.service_level = 0}, 0, 5);
    CHECK(seen().receive.ah_attr.sl == 0);
    CHECK(setting(channel.settings(), "traffic_class").source == "default");
  }
  EnvironmentVariable const variable{"LEND_TRAFFIC_CLASS", "26"};
  auto prepared = must(prepare_channel(domain, {}));
  CHECK(prepared.endpoint().traffic_class == 26);  // as the peer gets it
  CHECK(must(prepare_channel(domain, {.queue_pair = {.connection = {.traffic_class = 1}}}))
            .endpoint()
            .traffic_class == 1);
}

TEST_CASE("a keep-alive is the program's, else its variable's, else the layer's", "[channel]") {
  auto const domain = domain_with_choices();
  auto const of_channel = [&](ChannelOptions const& options) {
    auto const got = setting(channel_of(domain, options).settings(), "keep_alive");
    return got.value + " by " + got.source;
  };
  auto const of_many = [&] {
    auto set = must(WaitSet::create(domain.context(), Wait::spin));
    auto prepared = must(PreparedMultiChannel::prepare(domain, set, 1));
    auto const itself = prepared.endpoints();
    auto const many = must(std::move(prepared).handshake(itself));
    auto const got = setting(many[0].settings(), "keep_alive");
    return got.value + " by " + got.source;
  };
  auto const of_transport = [&](TransportOptions const& options) {
    auto prepared = must(SendReceive::prepare(domain, options));
    Endpoint const itself = prepared.endpoint();
    TransportTerms const terms = prepared.terms();
    AnyTransport const transport{must(std::move(prepared).handshake(itself, terms))};
    auto const got = setting(transport.settings(), "keep_alive");
    return got.value + " by " + got.source;
  };
  CHECK(of_channel({}) == "off by default");
  CHECK(of_transport({}) == "1 s by default");
  CHECK(of_many() == "1 s by default");
  EnvironmentVariable const variable{"LEND_KEEP_ALIVE", "20ms"};
  CHECK(of_channel({}) == "20 ms by LEND_KEEP_ALIVE");
  CHECK(of_many() == "20 ms by LEND_KEEP_ALIVE");
  CHECK(of_transport({}) == "20 ms by LEND_KEEP_ALIVE");
  CHECK(of_transport({.keep_alive = 0ns}) == "off by program");
  CHECK(of_channel({.keep_alive = 0ns}) == "off by program");
  CHECK(of_channel({.keep_alive = 5ms}) == "5 ms by program");
}

TEST_CASE("a variable with a bad value is refused by name, with what it must be", "[verbs]") {
  struct Bad {
    char const* variable;
    std::vector<char const*> values;
    char const* must_be;
  };
  std::vector<Bad> const all{
      {"LEND_GID",
       {"10.1.0.0/33", "10.1.0.0/", "eth0", "index:", "index:256", "index:-1", "fd00::/129", "/16"},
       "a network such as 10.1.0.0/16, an IP address, or index:N"},
      {"LEND_MTU", {"0", "1500", "4096 ", "8192", "4k"}, "256, 512, 1024, 2048 or 4096"},
      {"LEND_SERVICE_LEVEL", {"16", "-1", "x", "1.0"}, "0 to 15"},
      {"LEND_TRAFFIC_CLASS", {"26x", "256", " 26", "0x1a"}, "0 to 255 (DSCP * 4 + ECN)"},
      {"LEND_PARTITION_KEY", {"0x0", "0x10000", "12", "0x", "0xg"}, "0x1 to 0xffff"},
      {"LEND_ACK_TIMEOUT",
       {"0", "67", "0us", "3h", "1 s", "99999999999999999999s", "18446744073709551615h", "ms"},
       "1us to 2h, with a unit (us, ms, s, m or h)"},
      {"LEND_ACK_RETRIES", {"8", "-1"}, "0 to 7"},
      {"LEND_KEEP_ALIVE", {"999us", "2h", "-1ms", "1"}, "0, or 1ms to 1h"},
  };
  auto const domain = domain_with_choices();
  for (auto const& [name, values, must_be] : all)
    for (auto const* value : values) {
      EnvironmentVariable const variable{name, value};
      auto const prepared = prepare_channel(domain, {});
      REQUIRE(prepared.has_error());
      CHECK(prepared.error() == Errc::invalid_argument);
      auto const begin = std::string{name} + " is \"" + value + "\"; it must be " + must_be;
      CHECK_THAT(prepared.error().message(), Catch::StartsWith(begin));
    }
  CHECK(Fake::get().queue_pairs_made == 0);
}

TEST_CASE("a variable that the port cannot obey is named", "[verbs]") {
  auto const domain = domain_with_choices();
  auto const refusal = [&](char const* name, char const* value) {
    EnvironmentVariable const variable{name, value};
    return error_of(prepare_channel(domain, {}));
  };
  CHECK(refusal("LEND_GID", "10.3.0.0/16") == Errc::not_found);
  CHECK_THAT(refusal("LEND_GID", "10.3.0.0/16").message(),
             Catch::StartsWith("LEND_GID: no address of the port is in gid_network 10.3.0.0/16; "
                               "fake0 port 1 has 0: 10.0.0.1 (RoCE v2), 1: 10.1.0.7 (RoCE v2)"));
  CHECK_THAT(refusal("LEND_GID", "index:3").message(), Catch::StartsWith("LEND_GID: gid_index 3"));
  CHECK_THAT(refusal("LEND_PARTITION_KEY", "0x8014").message(),
             Catch::StartsWith("LEND_PARTITION_KEY: partition_key 0x8014 is none of port 1"));
  Fake::get().device.mtu = IBV_MTU_1024;
  CHECK_THAT(refusal("LEND_MTU", "4096").message(),
             Catch::StartsWith("LEND_MTU: mtu is 4096; it must be at most that of the port"));
}

TEST_CASE("what a service has no use for is refused of a program, and passed over of a variable",
          "[verbs]") {
  auto const domain = domain_with_choices();
  auto const queue = must(CompletionQueue::create(domain.context(), 4096));
  auto const datagrams = [&](ConnectionOptions const& options) {
    return PreparedDatagramQueuePair::create(domain, queue, {.connection = options});
  };
  auto const unreliable = [&](ConnectionOptions const& options) {
    return PreparedUnreliableQueuePair::create(domain, queue, {.connection = options});
  };
  CHECK_THAT(error_of(datagrams({.mtu_bytes = 1024})).message(),
             Catch::Contains("mtu_bytes is set, for which datagrams has no use"));
  CHECK_THAT(error_of(datagrams({.ack_retries = 1})).message(), Catch::Contains("ack_retries"));
  CHECK_THAT(error_of(unreliable({.ack_timeout = 1s})).message(), Catch::Contains("ack_timeout"));

  EnvironmentVariable const mtu{"LEND_MTU", "1024"}, timeout{"LEND_ACK_TIMEOUT", "1s"};
  EnvironmentVariable const level{"LEND_SERVICE_LEVEL", "3"}, keep_alive{"LEND_KEEP_ALIVE", "1s"};
  CHECK(must(datagrams({})).endpoint().mtu_bytes == 4096);
  CHECK(must(unreliable({})).endpoint().mtu_bytes == 1024);
  auto channel = must(unreliable_channel_builder(domain).build());
  Endpoint const itself = channel.endpoint();
  REQUIRE(std::move(channel).handshake(itself).has_value());
  CHECK(Fake::get().modified.at(Fake::get().modified.size() - 2).attributes.ah_attr.sl == 3);
}
