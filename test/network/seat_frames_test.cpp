// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what ranks and desks say arrives as it was meant, and damage is an error. Method: frames as
// bytes.
#include <random>

#include "network/ranks_at_desk.hpp"
#include "support/seed.hpp"

using namespace lend;
using namespace lend::test;

TEST_CASE("a rank's introduction and its cards arrive as they were sent", "[network]") {
  network::Sit const sit{std::string(network::group_name_max, 'g'), 3, 65'536, {4096, 8}};
  auto const came = must(sit_in(frame_in(bytes_of(encode(sit, nullptr)))));
  CHECK(came.group == sit.group);
  CHECK(came.rank == 3);
  CHECK(came.size == 65'536);
  CHECK(came.terms == sit.terms);

  auto const cards = cards_to_all(0, 20);
  auto const first = must(cards_in(frame_in(bytes_of(encode_cards(19, cards, nullptr)))));
  CHECK(first.total == 19);
  REQUIRE(first.cards.size() == network::cards_per_frame);
  CHECK(first.cards.back().rank == 16);
  CHECK(first.cards.back().endpoint == link(0, 16));
  CHECK(first.cards.back().record == memory(0, 16));
  CHECK(must(network::cards_in(frame_in(bytes_of(network::encode_cards(0, {}, nullptr)))))
            .cards.empty());
}

TEST_CASE("damaged introductions and cards are values or errors", "[network]") {
  auto const cards = cards_to_all(0, 20);
  auto const sit = bytes_of(encode(network::Sit{"job", 0, 2, {4096, 8}}, nullptr));
  for (auto const seed : seeds(20)) {
    CAPTURE(seed);
    std::mt19937_64 random{seed};
    for (auto bytes : {sit, bytes_of(encode_cards(19, cards, nullptr))}) {
      for (std::size_t at = network::frame_header_bytes; at < bytes.size(); ++at)
        if (random() % 8 == 0) bytes[at] = static_cast<std::byte>(random());
      auto const frame = frame_in(bytes);
      if (frame.kind() == network::FrameKind::sit)
        static_cast<void>(sit_in(frame));
      else if (auto const came = cards_in(frame))
        CHECK(came.value().cards.size() <= network::cards_per_frame);
    }
  }
}
