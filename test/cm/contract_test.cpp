// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: private data is read only as it was written, and nothing else gets through. Method: every
// single damaged bit, and random bytes; LEND_TEST_SEED replays one seed.
#include <base/wire.hpp>
#include <cm/contract.hpp>
#include <lend/cm/connector.hpp>
#include <lend/cm/listener.hpp>

#include <algorithm>
#include <random>

#include "support/seed.hpp"
#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

cm::Contract some_contract() {
  return {128, 64, 1u << 30, {std::byte{1}, std::byte{2}, std::byte{3}}};
}

constexpr std::ptrdiff_t contract_checksum = 20;  // where it is

/// Writes the right checksum, of all but itself, at `at`.
void seal(std::vector<std::byte>& message, std::ptrdiff_t at) {
  auto rest = message;
  rest.erase(rest.begin() + at, rest.begin() + at + 4);
  base::WireWriter{std::span{message}.subspan(static_cast<std::size_t>(at), 4)}.u32(
      base::crc32(rest));
}

}  // namespace

TEST_CASE("a contract is read as it was written, padding or not", "[cm]") {
  auto const written = some_contract();
  auto message = must(encode(cm::ContractKind::request, written));
  message.resize(GENERATE(std::size_t{27}, std::size_t{56}, std::size_t{196}));

  auto const read = must(decode(cm::ContractKind::request, message));

  CHECK(read.send_depth == written.send_depth);
  CHECK(read.receive_depth == written.receive_depth);
  CHECK(read.message_bytes_max == written.message_bytes_max);
  CHECK(read.private_data == written.private_data);
  CHECK(read.traffic_class == 0);
}

TEST_CASE("the class of the accepting end goes with its answer", "[cm]") {
  auto contract = some_contract();
  contract.traffic_class = 106;
  auto const message = must(encode(cm::ContractKind::answer, contract));

  CHECK(must(decode(cm::ContractKind::answer, message)).traffic_class == 106);
}

TEST_CASE("a contract fits the smallest field of any fabric", "[cm]") {
  auto contract = some_contract();
  contract.private_data.resize(cm_private_bytes_max);
  CHECK(must(encode(cm::ContractKind::request, contract)).size() == 56);

  contract.private_data.resize(cm_private_bytes_max + 1);
  CHECK(error_of(encode(cm::ContractKind::request, contract)) == Errc::invalid_argument);
}

TEST_CASE("a contract with any bit changed or any byte missing is refused", "[cm]") {
  auto const whole = must(encode(cm::ContractKind::answer, some_contract()));

  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    auto message = whole;
    message[bit / 8] ^= std::byte{1} << (bit % 8);
    CAPTURE(bit);
    CHECK(error_of(decode(cm::ContractKind::answer, message)) == Errc::incompatible_peer);
  }
  for (std::size_t length = 0; length < whole.size(); ++length)
    CHECK(error_of(decode(cm::ContractKind::answer, std::span{whole}.first(length))) ==
          Errc::incompatible_peer);
  CHECK(error_of(decode(cm::ContractKind::request, whole)) == Errc::incompatible_peer);
  std::vector<std::byte> const foreign(whole.size(), std::byte{0xff});
  CHECK(error_of(decode(cm::ContractKind::answer, foreign)).message().find("is not lend's") !=
        std::string::npos);
}

TEST_CASE("an undamaged contract of another version is refused with both versions", "[cm]") {
  auto message = must(encode(cm::ContractKind::request, some_contract()));
  message[4] = std::byte{9};
  seal(message, contract_checksum);

  auto const error = error_of(decode(cm::ContractKind::request, message));

  CHECK(error == Errc::incompatible_peer);
  CHECK(error.message().find("version 9, this side's is 1") != std::string::npos);
}

TEST_CASE("an undamaged contract that cannot be kept is refused", "[cm]") {
  auto message = must(encode(cm::ContractKind::request, some_contract()));

  SECTION("a depth or message size of 0") {
    auto const field = GENERATE(std::size_t{8}, std::size_t{12}, std::size_t{16});
    std::fill_n(message.begin() + std::ptrdiff_t(field), 4, std::byte{0});
  }
  SECTION("a class, which its packets have") {
    message[7] = std::byte{1};
  }
  SECTION("more bytes of the program's own than there may be") {
    message[6] = std::byte{cm_private_bytes_max + 1};
    message.resize(24 + cm_private_bytes_max + 1);
  }
  seal(message, contract_checksum);

  CHECK(error_of(decode(cm::ContractKind::request, message)) == Errc::incompatible_peer);
}

TEST_CASE("a refusal with any bit changed, a byte missing or of another kind is none", "[cm]") {
  auto const whole = encode(cm::Refusal{.reason = "full"});

  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    auto message = whole;
    message[bit / 8] ^= std::byte{1} << (bit % 8);
    CAPTURE(bit);
    CHECK_FALSE(cm::decode_refusal(message).has_value());
  }
  for (std::size_t length = 0; length < whole.size(); ++length)
    CHECK_FALSE(cm::decode_refusal(std::span{whole}.first(length)).has_value());
  auto message = whole;
  message[5] = std::byte{1};
  seal(message, 8);
  CHECK_FALSE(cm::decode_refusal(message).has_value());
}

TEST_CASE("random private data is no contract and no refusal", "[cm]") {
  for (auto const seed : seeds(200)) {
    INFO("LEND_TEST_SEED=" << seed);
    std::mt19937_64 random{seed};
    std::vector<std::byte> message(random() % 257);
    for (auto& byte : message) byte = static_cast<std::byte>(random());
    if (seed % 2 == 0 && message.size() > 8) {
      auto const real = must(encode(cm::ContractKind::request, some_contract()));
      std::copy_n(real.begin(), 5, message.begin());
    }
    CHECK(decode(cm::ContractKind::request, message).has_error());
    CHECK_FALSE(cm::decode_refusal(message).has_value());
  }
}

TEST_CASE("a refusal is read as it was written, cut and made printable", "[cm]") {
  auto const read = [](std::string reason, bool by_program) {
    auto message = encode(cm::Refusal{by_program, std::move(reason)});
    message.resize(148);
    return cm::decode_refusal(message);
  };

  CHECK(read("full", true)->reason == "full");
  CHECK(read("full", true)->by_program);
  CHECK_FALSE(read("", false)->by_program);
  CHECK(read(std::string(500, 'a'), true)->reason == std::string(cm_reason_bytes_max, 'a'));
  CHECK(read("a\x1b[2Jb\n", true)->reason == "a?[2Jb?");
}

TEST_CASE("a soft device is no device for rdma_cm, and the error says what is", "[cm]") {
  Context const context = must(open_device(DeviceChoice::soft()));
  auto const domain = must(context.allocate_protection_domain());
  auto prepared = must(prepare_channel(domain, {}));

  auto const error = error_of(cm_connect("127.0.0.1:7471", prepared.take_queue_pair(), within(1s)));

  CHECK(error == Errc::unsupported);
  CHECK(error.message().find("soft device soft0") != std::string::npos);
  CHECK(error.message().find("lend::connect()") != std::string::npos);
}
