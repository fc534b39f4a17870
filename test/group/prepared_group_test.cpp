// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what cannot become a group is refused before anything is sent. Method: ranks on one thread.
#include "group/ranks.hpp"

#include <array>
#include <cstddef>
#include <span>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

TEST_CASE("options and ranks out of range are refused", "[group]") {
  if (connects_slowly()) return;
  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  CHECK(error_of(PreparedGroup::prepare(domain, 2, 2)) == Errc::invalid_argument);
  CHECK(error_of(PreparedGroup::prepare(domain, 0, 0)) == Errc::invalid_argument);
  CHECK(error_of(PreparedGroup::prepare(domain, 0, 2, {.message_bytes = 100})) ==
        Errc::invalid_argument);
  CHECK(error_of(PreparedGroup::prepare(domain, 0, 2, {.window = 3})) == Errc::invalid_argument);
  CHECK(error_of(PreparedGroup::prepare(domain, 0, 2, {.connection = {.ack_timeout = -1ns}})) ==
        Errc::invalid_argument);
  auto prepared = must(PreparedGroup::prepare(domain, 0, 2));
  CHECK(error_of(std::move(prepared).handshake({})) == Errc::invalid_argument);
  auto const one =
      must(std::move(must(PreparedGroup::prepare(domain, 0, 1))).handshake(std::array{RankCard{}}));
  CHECK(one.size() == 1);
}

TEST_CASE("ranks of different options are refused, and may connect to others", "[group]") {
  if (connects_slowly()) return;
  ProtectionDomain const domain = must(open_test_device().allocate_protection_domain());
  auto const prepared = [&domain](std::uint32_t rank, GroupOptions const& options) {
    return must(PreparedGroup::prepare(domain, rank, 2, options));
  };
  auto ours = prepared(0, {});
  for (GroupOptions const& other :
       {GroupOptions{.message_bytes = 8192}, GroupOptions{.window = 16}}) {
    auto const theirs = prepared(1, other);
    auto const error =
        error_of(std::move(ours).handshake(std::array{RankCard{}, theirs.cards()[0]}));
    CHECK(error == Errc::incompatible_peer);
    CHECK(says(error, "rank 1 has messages of " + std::to_string(other.message_bytes) +
                          " bytes and a window of " + std::to_string(other.window)));
    CHECK(says(error, "this rank messages of 4096 bytes and a window of 8"));
  }
  auto const unlinked = error_of(std::move(ours).handshake(std::array{RankCard{}, RankCard{}}));
  CHECK(unlinked == Errc::incompatible_peer);
  CHECK(says(unlinked, "rank 1 gave an empty card"));

  auto theirs = prepared(1, {});
  std::array const for_us{RankCard{}, theirs.cards()[0]}, for_them{ours.cards()[1], RankCard{}};
  std::vector<Group> ranks;
  ranks.push_back(must(std::move(ours).handshake(for_us)));
  ranks.push_back(must(std::move(theirs).handshake(for_them)));
  on_each(ranks, [](Group& group) { expect(group.barrier(within(10s))); });
}

TEST_CASE("a rank's card is the same once it was bytes, and other lengths or versions are none",
          "[group]") {
  if (connects_slowly()) return;
  ProtectionDomain const domain = must(open_test_device().allocate_protection_domain());
  auto const prepared = must(PreparedGroup::prepare(domain, 0, 2, {.window = 16}));
  RankCard card = prepared.cards()[1];
  card.address = {.host = {1, 2}, .port = 3, .key = {std::byte{4}}};
  auto bytes = card.encode();
  CHECK(must(RankCard::decode(bytes)) == card);
  CHECK(error_of(RankCard::decode(std::span{bytes}.first(bytes.size() - 1))) ==
        Errc::incompatible_peer);
  bytes.back() = std::byte{4};
  CHECK(RankCard::decode(bytes).error().message().find("speaks version 4 to others, this one 5") !=
        std::string::npos);
}
