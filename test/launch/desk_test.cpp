// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: ranks meet at a desk, whatever else comes there, and each learns why it did not. Method:
// ranks as threads, and 300 of them played by one thread.
#include <cstdlib>
#include <list>

#include "launch/ranks_at_desk.hpp"
#include "support/peer_process.hpp"

using namespace lend;
using namespace lend::test;

namespace {

/// A desk that serves meetings on a thread of its own.
class ServedDesk {
 public:
  explicit ServedDesk(std::uint32_t size, std::string const& address = desk_name(),
                      DeskOptions options = {}, Deadline deadline = within(patience))
      : desk_{must(Desk::open(address, std::move(options)))}, thread_{[this, size, deadline] {
          served_.emplace(desk_.serve(size, deadline));
        }} {}
  std::string const& address() const { return desk_.address(); }
  Result<void> const& served() {
    if (thread_.joinable()) thread_.join();
    return *served_;
  }

 private:
  Desk desk_;
  std::optional<Result<void>> served_{};
  std::jthread thread_;
};

std::list<RankThread> ranks_at(std::string const& desk, std::uint32_t size, std::uint32_t first = 0,
                               std::string const& secret = {}) {
  std::list<RankThread> ranks;
  for (std::uint32_t rank = first; rank < size; ++rank) {
    auto seat = seat_at(desk, rank, size);
    seat.secret = secret;
    ranks.emplace_back(seat);
  }
  return ranks;
}

}  // namespace

TEST_CASE("each rank gets the endpoints that are for it, by whatever address", "[network]") {
  auto const [address, secret] = GENERATE(table<std::string, std::string>(
      {{"unix:@", ""}, {"127.0.0.1:0", ""}, {"127.0.0.1:0", right_secret}}));
  if (!secret.empty() && !has_secrets()) return;
  std::uint32_t const size = GENERATE(1u, 2u, 5u, 20u);
  ServedDesk desk{size, address == "unix:@" ? desk_name() : address, {.secret = secret}};

  for (auto& rank : ranks_at(desk.address(), size, 0, secret)) CHECK(must(rank.met()) == 1);

  must(desk.served());
}

TEST_CASE("rank 0 serves the desk while it waits", "[network]") {
  auto const address = desk_name();
  auto ranks = ranks_at(address, 4, 1);
  auto seat = seat_at(address, 0, 4);
  seat.desk_is_served = false;

  CHECK(must(meet(seat)) == 1);

  for (auto& rank : ranks) CHECK(must(rank.met()) == 1);
}

TEST_CASE("one thread plays 300 ranks at a desk", "[network]") {
  char const* const wish = std::getenv("LEND_TEST_SEATS");
  auto const size = static_cast<std::uint32_t>(wish == nullptr ? 300 : std::atoi(wish));
  if (!may_open(2 * size + 100)) {
    WARN("skipped: not so many descriptors");
    return;
  }
  ServedDesk desk{size};
  std::vector<network::Socket> ranks;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    ranks.push_back(dial(desk.address()));
    say(ranks.back(), sitting(rank, size, cards_to_few(rank, size)));
  }

  for (std::uint32_t rank = 0; rank < size; ++rank) {
    CHECK(next_frame(ranks[rank]).kind() == network::FrameKind::hello);
    CHECK(must(next_frame(ranks[rank]).status()).code == network::StatusCode::agreed);
    auto const members = must(members_in(next_frame(ranks[rank])));
    CHECK(members.total == size);
    CHECK(members.members.ranks.empty());
    auto const expected = cards_to_few(rank, size).size();
    std::size_t came = 0;
    while (came < expected) {
      auto const frame = must(cards_in(next_frame(ranks[rank])));
      came += frame.cards.size();
      CHECK(frame.total == expected);
      for (auto const& card : frame.cards)
        if (card.endpoint != link(card.rank, rank) || card.record != memory(card.rank, rank) ||
            card.mailbox != mailbox(card.rank, rank) || card.address != address(card.rank, rank))
          FAIL("another link's endpoint");
    }
  }
  for (auto const& rank : ranks) say(rank, status(network::StatusCode::ready));
  for (auto const& rank : ranks)
    CHECK(must(next_frame(rank).status()).code == network::StatusCode::ready);
  must(desk.served());
}

TEST_CASE("clients that are no ranks are rejected beside a meeting, which they do not delay",
          "[network]") {
  auto const secret = has_secrets() ? std::string{right_secret} : std::string{};
  ServedDesk desk{3, desk_name(), {.secret = secret}};
  std::vector<network::Socket> others;
  auto const another = [&](Bytes const& said) {
    others.push_back(dial(desk.address()));
    say(others.back(), said);
  };
  for (int i = 0; i < 20; ++i) {
    another({});
    another(bytes_of("GET / HTTP/1.1\r\n\r\n"));
    another(good_greeting());
    auto const half = sitting(0, 3, {});
    another({half.begin(), half.begin() + 60});
  }

  for (auto& rank : ranks_at(desk.address(), 3, 0, secret)) CHECK(must(rank.met()) == 1);

  must(desk.served());
  auto const greeter = must(next_frame(others[2]).status());
  CHECK(greeter.code == network::StatusCode::foreign);
  CHECK_THAT(greeter.text, Catch::Contains("connects two channels"));
}

TEST_CASE("ranks meet behind more silent clients than a desk holds", "[network]") {
  constexpr std::size_t silent = 1'100;
  if (!may_open(2 * silent + 100)) {
    WARN("skipped: not so many descriptors");
    return;
  }
  ServedDesk desk{2};
  std::vector<network::Socket> others;
  for (std::size_t i = 0; i < silent; ++i) others.push_back(dial(desk.address()));

  for (auto& rank : ranks_at(desk.address(), 2)) CHECK(must(rank.met()) == 1);

  must(desk.served());
  CHECK(must(next_frame(others.front()).status()).code == network::StatusCode::too_slow);
}

TEST_CASE("a rank with another secret, size or number is rejected alone, with the reason",
          "[network]") {
  ServedDesk desk{2};
  auto first = must(sit(seat_at(desk.address(), 0, 2)));
  auto const why = [](Seat const& seat) {
    auto const error = error_of(meet(seat));
    CHECK(error == Errc::incompatible_peer);
    return error.message();
  };

  CHECK_THAT(why(seat_at(desk.address(), 1, 3)),
             Catch::Contains("this side is of a group of 3 ranks, the desk's has 2"));
  CHECK_THAT(why(seat_at(desk.address(), 0, 2)),
             Catch::Contains("is rank 0, as is process " + std::to_string(::getpid())));
  auto named = seat_at(desk.address(), 1, 2);
  named.group = "other";
  CHECK_THAT(why(named), Catch::Contains("is of group \"other\""));
  if (has_secrets()) {
    auto seat = seat_at(desk.address(), 1, 2);
    seat.secret = right_secret;
    CHECK_THAT(why(seat), Catch::Contains("has a secret and the other side none"));
  }

  RankThread second{seat_at(desk.address(), 1, 2)};
  CHECK(must(first.swap(cards_to_all(0, 2))).has_value());
  CHECK(must(first.confirm()));
  CHECK(must(second.met()) == 1);
  must(desk.served());
}

TEST_CASE("the ranks that are missing at the desk's deadline are named to all", "[network]") {
  ServedDesk desk{4, desk_name(), {}, within(300ms)};
  RankThread one{seat_at(desk.address(), 0, 4)};
  RankThread other{seat_at(desk.address(), 2, 4)};

  for (auto* const rank : {&one, &other}) {
    auto const error = error_of(rank->met());
    CHECK(error == Errc::timed_out);
    CHECK_THAT(error.message(), Catch::Contains("ranks 1, 3 have not come"));
  }
  CHECK(error_of(desk.served()) == Errc::timed_out);
  CHECK_THAT(error_of(desk.served()).message(), Catch::Contains("ranks 1, 3 have not come"));
}

TEST_CASE("a rank whose own deadline passes names the missing ones too", "[network]") {
  ServedDesk desk{3};
  auto const error = error_of(meet(seat_at(desk.address(), 1, 3), within(300ms)));

  CHECK(error == Errc::timed_out);
  CHECK_THAT(error.message(), Catch::Contains("rank 1 of 3 did not meet the others") &&
                                  Catch::Contains("ranks 0, 2 have not come"));
  for (auto& rank : ranks_at(desk.address(), 3)) CHECK(must(rank.met()) >= 1);
}

TEST_CASE("a rank that hangs up leaves its seat to one that was started again", "[network]") {
  ServedDesk desk{2};
  { auto const sat = must(sit(seat_at(desk.address(), 1, 2))); }

  for (auto& rank : ranks_at(desk.address(), 2)) CHECK(must(rank.met()) == 1);
}

TEST_CASE("a rank lost after the endpoints were handed out is replaced, with other endpoints",
          "[network]") {
  ServedDesk desk{3};
  auto others = ranks_at(desk.address(), 3, 1);
  {
    auto lost = must(sit(seat_at(desk.address(), 0, 3)));
    REQUIRE(must(lost.swap(cards_to_all(0, 3))).has_value());
  }

  CHECK(must(meet(seat_at(desk.address(), 0, 3))) == 1);

  for (auto& rank : others) CHECK(must(rank.met()) == 2);
}

TEST_CASE("ranks that come again go on without the others, or with one that comes in time",
          "[network]") {
  auto const [size, missing, patience_ms] =
      GENERATE(table<std::uint32_t, std::uint32_t, std::uint32_t>({{80, 10, 20}, {3, 0, 60'000}}));
  CAPTURE(size, missing);
  ServedDesk desk{size};
  launch::Coming const coming{.generation = 4,
                              .seen = 4,
                              .finished = 12,
                              .at_least = size - std::max(missing, 1u),
                              .patience_ms = patience_ms};
  std::vector<Result<launch::Members>> met(size, Errc::timed_out);
  std::vector<std::uint32_t> expected;
  {
    std::vector<std::jthread> ranks;
    for (std::uint32_t rank = missing; rank < size; ++rank) {
      expected.push_back(rank);
      // The last one is new.
      ranks.emplace_back([&, rank, size = size] {
        met[rank] = meet_as(seat_at(desk.address(), rank, size),
                            rank == size - 1 ? launch::Coming{} : coming);
      });
    }
  }
  for (auto const rank : expected) {
    CHECK(must(met[rank]).ranks == expected);
    CHECK(must(met[rank]).generation == 5);
    CHECK(must(met[rank]).finished_by_all == 12);
  }
  must(desk.served());
}

TEST_CASE("a rank that hangs up in the middle of sitting down takes no other's seat", "[network]") {
  auto desk = must(Desk::open(desk_name()));
  must(desk.begin(2, Deadline::never()));
  RankThread first{seat_at(desk.address(), 0, 2)};
  for (int i = 0; i < 20; ++i) {
    auto fleeting = dial(desk.address());
    say(fleeting, sitting(1, 2, cards_to_all(1, 2)));
    fleeting.fd = base::UniqueFd{};
    static_cast<void>(must(desk.poll()));
  }
  RankThread second{seat_at(desk.address(), 1, 2)};

  while (!must(desk.poll())) {
    std::array polled{pollfd{desk.descriptor(), POLLIN, 0}};
    REQUIRE(must(network::wait_for(polled, within(patience))));
  }

  CHECK(first.met().has_value());
  CHECK(second.met().has_value());
}

TEST_CASE("a rank whose desk is gone learns it", "[network]") {
  auto const address = desk_name();
  auto desk =
      must(network::open_listening(std::array{must(network::parse_local_address(address))}));
  RankThread rank{seat_at(address, 1, 2)};
  {
    std::array polled{pollfd{desk.fd.get(), POLLIN, 0}};
    REQUIRE(must(network::wait_for(polled, within(patience))));
    auto const connection = must(network::take_connection(desk.fd.get()));
    say(connection, bytes_of(encode(network::Hello{.purpose = network::Purpose::sit})));
    say(connection, status(network::StatusCode::agreed));
    static_cast<void>(hear(connection, sitting(1, 2, cards_to_all(1, 2)).size()));
  }

  auto const error = error_of(rank.met());
  CHECK(error == Errc::peer_lost);
  CHECK_THAT(error.message(), Catch::Contains("rank 1 of 2") && Catch::Contains("is gone"));
}

TEST_CASE("a forked child does not keep the connections of a desk", "[network]") {
  auto desk = must(Desk::open(desk_name()));
  must(desk.begin(2, Deadline::never()));
  auto other = dial(desk.address());
  say(other, bytes_of("GET / HTTP/1.1\r\n\r\n"));
  static_cast<void>(must(desk.poll()));  // accepts it
  PeerProcess child{[](Wire const& wire) { return wire.hear() ? 0 : 1; }};
  std::array polled{pollfd{other.fd.get(), POLLIN, 0}};
  while (!must(network::wait_for(polled, within(1ms)))) REQUIRE_FALSE(must(desk.poll()));

  CHECK(must(next_frame(other).status()).code == network::StatusCode::foreign);
  CHECK(hear(other).empty());
  CHECK_FALSE(must(desk.poll()));  // knows nothing of it any more
  CHECK(child.wire().say());
  CHECK(child.exit_status() == 0);
}

TEST_CASE("ranks whose links do not match learn it", "[network]") {
  ServedDesk desk{2};
  auto odd = dial(desk.address());
  say(odd, sitting(0, 2, {}));

  auto const error = error_of(meet(seat_at(desk.address(), 1, 2)));

  CHECK(error == Errc::incompatible_peer);
  CHECK_THAT(error.message(), Catch::Contains("rank 1 has 1 links, and 0 lead to it"));
  odd.fd = base::UniqueFd{};
  for (auto& rank : ranks_at(desk.address(), 2)) CHECK(must(rank.met()) >= 1);
}

namespace {

bool is_readable(Desk const& desk, std::chrono::milliseconds time) {
  std::array polled{pollfd{desk.descriptor(), POLLIN, 0}};
  return must(network::wait_for(polled, within(time)));
}

}  // namespace

TEST_CASE("a desk in an event loop is readable when there is something to do", "[network]") {
  auto desk = must(Desk::open(desk_name()));
  must(desk.begin(2, within(patience)));
  CHECK(error_of(desk.begin(2, within(patience))) == Errc::invalid_argument);
  CHECK_FALSE(must(desk.poll()));
  CHECK_FALSE(is_readable(desk, 0ms));
  {
    auto ranks = ranks_at(desk.address(), 2);
    while (!must(desk.poll())) CHECK(is_readable(desk, patience));
    for (auto& rank : ranks) CHECK(must(rank.met()) == 1);
  }

  must(desk.begin(2, within(20ms)));
  CHECK(is_readable(desk, patience));  // the deadline
  CHECK(error_of(desk.poll()) == Errc::timed_out);
}

TEST_CASE("a desk that ends says which ranks were missing", "[network]") {
  std::optional<Desk> desk{must(Desk::open(desk_name()))};
  must(desk->begin(2, Deadline::never()));
  auto rank = dial(desk->address());
  say(rank, sitting(1, 2, cards_to_all(1, 2)));
  std::optional<network::Status> seated;
  while (!seated) {  // until its answer has come
    REQUIRE_FALSE(must(desk->poll()));
    std::array polled{pollfd{rank.fd.get(), POLLIN, 0}};
    if (!must(network::wait_for(polled, within(1ms)))) continue;
    auto const frame = next_frame(rank);
    if (frame.kind() == network::FrameKind::status) seated = must(frame.status());
  }
  CHECK(seated->code == network::StatusCode::agreed);

  desk.reset();

  auto const last = must(next_frame(rank).status());
  CHECK(last.code == network::StatusCode::late);
  CHECK_THAT(last.text, Catch::Contains("rank 0 has not come"));
}
