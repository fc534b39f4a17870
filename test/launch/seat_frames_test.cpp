// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what ranks and desks say arrives as it was meant, and damage is an error. Method: frames as
// bytes.
#include <random>

#include "launch/ranks_at_desk.hpp"
#include "support/seed.hpp"

using namespace lend;
using namespace lend::test;

TEST_CASE("a rank's introduction and its cards arrive as they were sent", "[network]") {
  launch::Sit const sit{std::string(network::group_name_max, 'g'),
                        3,
                        65'536,
                        {4096, 8, true},
                        {7, 9, std::uint64_t{1} << 40, 2, 5000}};
  auto const came = must(sit_in(frame_in(bytes_of(encode(sit, nullptr)))));
  CHECK(came.group == sit.group);
  CHECK(came.rank == 3);
  CHECK(came.size == 65'536);
  CHECK(came.terms == sit.terms);
  CHECK(came.coming.generation == 7);
  CHECK(came.coming.seen == 9);
  CHECK(came.coming.finished == std::uint64_t{1} << 40);
  CHECK(came.coming.at_least == 2);
  CHECK(came.coming.patience_ms == 5000);

  auto const cards = cards_to_all(0, 20);
  auto const first = must(cards_in(frame_in(bytes_of(encode_cards(19, cards, nullptr)))));
  CHECK(first.total == 19);
  REQUIRE(first.cards.size() == network::cards_per_frame);
  CHECK(first.cards.back().rank == 16);
  CHECK(first.cards.back().endpoint == link(0, 16));
  CHECK(first.cards.back().record == memory(0, 16));
  CHECK(first.cards.back().mailbox == mailbox(0, 16));
  CHECK(first.cards.back().address == address(0, 16));
  CHECK(must(launch::cards_in(frame_in(bytes_of(launch::encode_cards(0, {}, nullptr)))))
            .cards.empty());
}

TEST_CASE("the list of members arrives in parts, or is short where all are members", "[network]") {
  launch::Members members{.generation = 3, .finished_by_all = std::uint64_t{1} << 33};
  for (std::uint32_t rank = 0; rank < 100; ++rank) members.ranks.push_back(2 * rank);
  auto const part = [&](std::size_t first, std::uint32_t size) {
    auto const frame = bytes_of(encode_members(members, first, size, nullptr));
    auto const came = must(members_in(frame_in(frame)));
    CHECK(came.total == 100);
    CHECK(came.members.generation == 3);
    CHECK(came.members.finished_by_all == std::uint64_t{1} << 33);
    return came.members.ranks;
  };
  auto ranks = part(0, 200);
  CHECK(ranks.size() == network::members_per_frame);
  for (auto const rank : part(ranks.size(), 200)) ranks.push_back(rank);
  CHECK(ranks == members.ranks);
  CHECK(part(0, 100).empty());
}

TEST_CASE("damaged introductions and cards are values or errors", "[network]") {
  auto const cards = cards_to_all(0, 20);
  auto const sit = bytes_of(encode(launch::Sit{"job", 0, 2, {4096, 8}}, nullptr));
  for (auto const seed : seeds(20)) {
    CAPTURE(seed);
    std::mt19937_64 random{seed};
    launch::Members const members{1, 2, {0, 1, 3}};
    for (auto bytes : {sit, bytes_of(encode_cards(19, cards, nullptr)),
                       bytes_of(encode_members(members, 0, 4, nullptr))}) {
      for (std::size_t at = network::frame_header_bytes; at < bytes.size(); ++at)
        if (random() % 8 == 0) bytes[at] = static_cast<std::byte>(random());
      auto const frame = frame_in(bytes);
      if (frame.kind() == network::FrameKind::sit)
        static_cast<void>(sit_in(frame));
      else if (frame.kind() == network::FrameKind::members)
        static_cast<void>(members_in(frame));
      else if (auto const came = cards_in(frame))
        CHECK(came.value().cards.size() <= network::cards_per_frame);
    }
  }
}
