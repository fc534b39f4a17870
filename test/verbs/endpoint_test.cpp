// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: an endpoint survives its journey, and nothing else passes for one.
// Method: random endpoints; every bit flipped, every length, random garbage.
#include "support/catch.hpp"
#include "support/seed.hpp"

#include <lend/verbs/endpoint.hpp>

#include <algorithm>
#include <random>

using namespace lend;

namespace {

Endpoint random_endpoint(std::mt19937_64& random) {
  auto const below = [&](std::uint64_t limit) { return random() % limit; };
  Endpoint endpoint;
  endpoint.device_kind = static_cast<DeviceKind>(below(3));
  endpoint.link_layer = static_cast<LinkLayer>(below(3));
  endpoint.queue_pair_number =
      QueuePairNumber::truncated(static_cast<std::uint32_t>(1 + below(0xff'fffe)));
  endpoint.packet_sequence_number =
      PacketSequenceNumber::truncated(static_cast<std::uint32_t>(random()));
  endpoint.lid = static_cast<std::uint16_t>(random());
  for (auto& byte : endpoint.gid) byte = static_cast<std::uint8_t>(random());
  endpoint.gid_type = static_cast<GidType>(below(3));
  endpoint.reads_served = static_cast<std::uint8_t>(random());
  endpoint.mtu_bytes = 256u << below(5);
  endpoint.traffic_class = static_cast<std::uint8_t>(random());
  endpoint.service_level = static_cast<std::uint8_t>(below(16));
  endpoint.send_depth = static_cast<std::uint32_t>(1 + below(0x7fff'ffff));
  endpoint.receive_depth = static_cast<std::uint32_t>(1 + below(0x7fff'ffff));
  endpoint.service = static_cast<Service>(below(3));
  if (endpoint.service == Service::datagram)
    endpoint.queue_key = static_cast<std::uint32_t>(random());
  return endpoint;
}

Endpoint some_endpoint() {
  std::mt19937_64 random{7};
  return random_endpoint(random);
}

/// Refused, with a sentence that says what to do.
void check_refused(Result<Endpoint> const& result) {
  REQUIRE(result.has_error());
  REQUIRE(result.error() == Errc::incompatible_peer);
  REQUIRE(result.error().message().find("exchange the peer's endpoint again") != std::string::npos);
}

/// encode() of an endpoint that no queue pair has.
Result<Endpoint> decode_of(Endpoint const& endpoint) {
  return Endpoint::decode(endpoint.encode());
}

}  // namespace

static_assert(Endpoint::encoded_size == 56);

TEST_CASE("an endpoint decodes to itself, from bytes and from text", "[verbs]") {
  for (auto const seed : test::seeds(200)) {
    INFO("LEND_TEST_SEED=" << seed);
    std::mt19937_64 random{seed};
    auto const endpoint = random_endpoint(random);

    auto const from_bytes = Endpoint::decode(endpoint.encode());
    auto const from_text = Endpoint::from_text(endpoint.to_text());

    REQUIRE(from_bytes.has_value());
    CHECK(from_bytes.value() == endpoint);
    REQUIRE(from_text.has_value());
    CHECK(from_text.value() == endpoint);
  }
}

TEST_CASE(
    "an endpoint of an unknown service, or of a connection with a queue "
    "key, is refused",
    "[verbs]") {
  Endpoint endpoint = some_endpoint();
  endpoint.queue_key = 0;
  endpoint.service = static_cast<Service>(3);
  check_refused(decode_of(endpoint));
  endpoint.service = Service::unreliable_connection;
  CHECK(decode_of(endpoint).has_value());
  endpoint.queue_key = 1;
  check_refused(decode_of(endpoint));
}

TEST_CASE("an endpoint's bytes are the same on every machine", "[verbs]") {
  Endpoint endpoint;
  endpoint.device_kind = DeviceKind::soft;
  endpoint.link_layer = LinkLayer::ethernet;
  endpoint.queue_pair_number = QueuePairNumber::truncated(0x010203);
  endpoint.packet_sequence_number = PacketSequenceNumber::truncated(0x040506);
  endpoint.lid = 0x0708;
  endpoint.gid[0] = 0xfe;
  endpoint.gid[15] = 0x01;
  endpoint.gid_type = GidType::roce_v2;
  endpoint.reads_served = 0x10;
  endpoint.mtu_bytes = 1024;
  endpoint.traffic_class = 0x6a;
  endpoint.service_level = 5;
  endpoint.send_depth = 16;
  endpoint.receive_depth = 32;

  auto const text = endpoint.to_text();

  CHECK(text.substr(0, text.size() - 8) ==
        "lend3-"
        "6c6e6465"                          // magic
        "03010202"                          // version, kind, link, GID type
        "00010203"                          // queue pair number
        "00040506"                          // packet sequence number
        "07081000"                          // LID, reads served, service
        "fe000000000000000000000000000001"  // GID
        "04006a05"                          // MTU, class, level
        "0000001000000020"                  // depths
        "00000000");                        // queue key
}

TEST_CASE("one flipped bit anywhere in an endpoint is refused", "[verbs]") {
  auto const good = some_endpoint().encode();

  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    INFO("bit " << bit);
    auto bytes = good;
    bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    check_refused(Endpoint::decode(bytes));
  }
}

TEST_CASE("one flipped bit anywhere in an endpoint's text is refused", "[verbs]") {
  auto const good = some_endpoint().to_text();

  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    auto text = good;
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << bit % 8));
    INFO("bit " << bit << ": " << text);
    check_refused(Endpoint::from_text(text));
  }
}

TEST_CASE("an endpoint cut short or lengthened is refused", "[verbs]") {
  auto const bytes = some_endpoint().encode();
  auto const text = some_endpoint().to_text();

  for (std::size_t size = 0; size < bytes.size(); ++size)
    check_refused(Endpoint::decode(std::span{bytes}.first(size)));
  std::vector<std::byte> longer{bytes.begin(), bytes.end()};
  longer.push_back(std::byte{0});
  check_refused(Endpoint::decode(longer));
  for (std::size_t size = 0; size < text.size(); ++size)
    check_refused(Endpoint::from_text(std::string_view{text}.substr(0, size)));
  check_refused(Endpoint::from_text(text + "0"));
}

TEST_CASE("an endpoint's text allows white space around it and nowhere else", "[verbs]") {
  auto const text = some_endpoint().to_text();

  CHECK(Endpoint::from_text(" \t\r\n" + text + " \n").has_value());
  for (std::size_t at = 1; at < text.size(); ++at) {
    auto broken = text;
    broken.insert(at, 1, ' ');
    check_refused(Endpoint::from_text(broken));
    broken = text;
    broken[at] = ' ';
    check_refused(Endpoint::from_text(broken));
  }
  check_refused(Endpoint::from_text(""));
  check_refused(Endpoint::from_text("\n \t"));
  check_refused(Endpoint::from_text(std::string_view{"\0", 1}));
}

TEST_CASE("random bytes are no endpoint", "[verbs]") {
  for (auto const seed : test::seeds(2000)) {
    INFO("LEND_TEST_SEED=" << seed);
    std::mt19937_64 random{seed};
    std::vector<std::byte> bytes(random() % 4 == 0 ? random() % 128 : Endpoint::encoded_size);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random());
    if (random() % 2 == 0 && bytes.size() >= 5) {
      auto const good = some_endpoint().encode();
      std::copy_n(good.begin(), 5, bytes.begin());  // past magic and version
    }

    check_refused(Endpoint::decode(bytes));
    std::string text{"lend3-"};
    for (auto const byte : bytes) text += static_cast<char>(byte);
    check_refused(Endpoint::from_text(text));
  }
}

TEST_CASE("an endpoint whose checksum holds and whose values cannot be is refused", "[verbs]") {
  auto const good = some_endpoint();
  auto const with = [&](auto change) {
    Endpoint endpoint = good;
    change(endpoint);
    return decode_of(endpoint);
  };

  check_refused(with([](Endpoint& e) { e.mtu_bytes = 0; }));
  check_refused(with([](Endpoint& e) { e.mtu_bytes = 1500; }));
  check_refused(with([](Endpoint& e) { e.mtu_bytes = 8192; }));
  check_refused(with([](Endpoint& e) { e.service_level = 16; }));
  check_refused(with([](Endpoint& e) { e.queue_pair_number = QueuePairNumber{}; }));
  check_refused(
      with([](Endpoint& e) { e.queue_pair_number = QueuePairNumber::truncated(0xff'ffff); }));
  check_refused(with([](Endpoint& e) { e.send_depth = 0; }));
  check_refused(with([](Endpoint& e) { e.receive_depth = 0; }));
  check_refused(with([](Endpoint& e) { e.receive_depth = 0x8000'0000; }));
  check_refused(with([](Endpoint& e) { e.device_kind = DeviceKind{3}; }));
  check_refused(with([](Endpoint& e) { e.link_layer = LinkLayer{3}; }));
  check_refused(with([](Endpoint& e) { e.gid_type = GidType{3}; }));
}

TEST_CASE("an endpoint of another version names both versions", "[verbs]") {
  auto bytes = some_endpoint().encode();
  bytes[4] = std::byte{1};
  auto text = some_endpoint().to_text();
  text[4] = '1';

  for (auto const& result : {Endpoint::decode(bytes), Endpoint::from_text(text)}) {
    check_refused(result);
    CHECK(result.error().message().find("version 1, ours is 3") != std::string::npos);
  }
}
