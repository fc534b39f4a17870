// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: of what a peer writes, its device or its thread, a rank takes each message once, in order
// and whole, and no more than the peer may send. Method: the words of messages are stored in any
// order; a channel of the test writes what no rank would.
#include <lend/group.hpp>
#include "support/catch.hpp"
#include "support/two_ends.hpp"

#include <channel/state/channel_state.hpp>
#include <group/link/mailbox.hpp>
#include <group/link/peer_mailbox.hpp>
#include <group/link/send_window.hpp>
#include <lend/soft/faults.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

using namespace lend;
using namespace lend::group;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t window = 8;
using Words = std::array<std::uint64_t, WrittenMessage::bytes / sizeof(std::uint64_t)>;

/// A message of no call that a group makes.
MessageHead message_with(std::uint32_t number, std::size_t values) {
  return {.team = 99,
          .number = number,
          .length = static_cast<std::uint32_t>(values),
          .kind = MessageHead::Kind::part};
}

struct Box {
  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  Mailboxes all = must(Mailboxes::create(domain, 1, window));
  Mailbox mailbox = must(all.make_next());

  /// As a device would.
  void store(std::uint32_t number, std::size_t index, std::uint64_t word) const {
    auto const address = must(mailbox.remote()).address() + Mailbox::place_of(number, window);
    reinterpret_cast<std::uint64_t volatile*>(address)[index] = word;
  }
  void store(std::uint32_t number, Words const& words, std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) store(number, i, words[i]);
  }
};

/// The words of a message, and how many they are.
std::size_t encode(Words& words, std::uint32_t number, std::span<std::byte const> values) {
  return WrittenMessage::encode(reinterpret_cast<std::byte*>(words.data()), number,
                                message_with(number, values.size()), values.data()) /
         sizeof(std::uint64_t);
}

/// A mailbox, and the other side of it: of another device, whose channel is connected to it.
struct MappedBox {
  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  Context other_context = open_test_device();
  std::optional<Mailboxes> all{must(Mailboxes::create(domain, 2, window))};
  std::optional<Mailbox> mailbox{must(all->make_next())};
  std::optional<Channel> own{}, others{};
  PeerMailbox theirs = made();

  PeerMailbox made() {
    auto const other_domain = must(other_context.allocate_protection_domain());
    auto one = must(channel_builder().protection_domain(domain).build());
    auto other = must(channel_builder().protection_domain(other_domain).build());
    auto const endpoint = one.endpoint();
    own.emplace(must(std::move(one).handshake(other.endpoint())));
    others.emplace(must(std::move(other).handshake(endpoint)));
    return {must(mailbox->remote()), window, channel::ChannelState::of(*others).connection.raw()};
  }
};

/// Rank 0 of two, whose peer is a channel of the test's.
struct BesideChannel {
  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  MemoryRegion memory = must(domain.allocate(WrittenMessage::bytes));
  RemoteRegion mailbox{};
  std::optional<Channel> peer{};
  Group group = made();

  Group made() {
    auto prepared = must(PreparedGroup::prepare(domain, 0, 2));
    auto other = must(channel_builder().protection_domain(domain).build());
    std::array cards{RankCard{}, prepared.cards()[1]};
    cards[1].endpoint = other.endpoint();
    cards[1].mailbox = {};
    mailbox = prepared.cards()[1].mailbox;
    peer.emplace(must(std::move(other).handshake(prepared.cards()[1].endpoint)));
    return must(std::move(prepared).handshake(cards));
  }
  std::span<std::byte> bytes() { return must(memory.mutable_bytes()); }
  void write(std::size_t place, std::size_t length) {
    must(peer->write({memory.gather(0, length), mailbox.slice(place, length)}, within(10s)));
  }
};

}  // namespace

TEST_CASE("a written message is taken once all of its words have come", "[group]") {
  Box box;
  std::minstd_rand random{7};
  MessageHead message;
  Mailbox::Values values;
  std::array<Words, window> there{};  // in each slot: what comes may be what was there
  for (std::uint32_t number = 1; number <= 20 * window; ++number) {
    std::vector<std::byte> sent(random() % (WrittenMessage::values_max + 1));
    for (std::byte& each : sent) each = static_cast<std::byte>(random());
    Words words;
    auto const count = encode(words, number, sent);
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::shuffle(order, random);
    auto& place = there[number % window];
    for (std::size_t const index : order) {
      bool const is_there = std::equal(words.begin(), words.begin() + count, place.begin());
      if (!is_there) CHECK_FALSE(must(box.mailbox.take(message, values)));
      box.store(number, index, words[index]);
      place[index] = words[index];
    }
    REQUIRE(must(box.mailbox.take(message, values)));
    CHECK_FALSE(must(box.mailbox.take(message, values)));
    CHECK(message.number == number);
    CHECK(std::ranges::equal(sent, std::span{values}.first(message.length)));
    CHECK_FALSE(box.mailbox.has_next());
  }
}

TEST_CASE("a written message with any other bit is not taken", "[group]") {
  Box box;
  Words words;
  auto const count = encode(words, 1, std::array<std::byte, 20>{std::byte{1}});
  MessageHead message;
  Mailbox::Values values;
  for (std::size_t bit = 0; bit < count * 64; ++bit) {
    auto damaged = words;
    damaged[bit / 64] ^= std::uint64_t{1} << bit % 64;
    box.store(1, damaged, count);
    auto const taken = box.mailbox.take(message, values);
    CHECK((taken.has_value() ? !taken.value() : taken.error() == Errc::incompatible_peer));
  }
  box.store(1, words, count);
  CHECK(must(box.mailbox.take(message, values)));
}

TEST_CASE("slots of a mailbox are used in turn, also where numbers wrap", "[group]") {
  for (std::uint32_t const slots : {4u, 8u, 256u})
    for (std::uint32_t const number : {0u, 1u, slots - 1, UINT32_MAX - 1, UINT32_MAX}) {
      auto const at = Mailbox::place_of(number, slots), next = Mailbox::place_of(number + 1, slots);
      CHECK((next == at + WrittenMessage::bytes ||
             (at == slots * WrittenMessage::bytes && next == WrittenMessage::bytes)));
    }
  CHECK(Mailbox::slots_in((1 + 8) * WrittenMessage::bytes) == 8);
  CHECK(Mailbox::slots_in((1 + 6) * WrittenMessage::bytes) == 0);
  for (std::size_t const bytes : {0u, 63u, 64u, 127u}) CHECK(Mailbox::slots_in(bytes) == 0);
}

TEST_CASE("a count of freed messages is taken once, and whole", "[group]") {
  Box box;
  auto const store = [&box](std::uint64_t word) {
    *reinterpret_cast<std::uint64_t volatile*>(must(box.mailbox.remote()).address()) = word;
  };
  CHECK_FALSE(box.mailbox.has_freed());
  for (std::uint32_t const freed : {0u, 4u, 0x7fff'ffffu, 0x8000'0001u, UINT32_MAX}) {
    auto const word = Mailbox::word_of(freed);
    for (int bit = 0; bit < 64; ++bit) {
      store(word ^ std::uint64_t{1} << bit);
      CHECK_FALSE(box.mailbox.take_freed().has_value());
    }
    store(word);
    CHECK(box.mailbox.has_freed());
    CHECK(box.mailbox.take_freed() == freed);
    CHECK_FALSE(box.mailbox.has_freed());
    CHECK_FALSE(box.mailbox.take_freed().has_value());
  }
}

TEST_CASE("of the counts of freed messages the latest one counts", "[group]") {
  SendWindow sent{window};
  std::uint32_t freed = 0;
  for (int i = 0; i < 3; ++i) {  // past 2^32
    for (std::uint32_t n = 0; n < window; ++n) {
      CHECK_FALSE(sent.is_full());
      sent.note_sent(1);
    }
    CHECK(sent.is_full());
    CHECK_FALSE(sent.update(freed + window + 1));
    CHECK(sent.update(freed + 3));
    CHECK(sent.update(freed + 1));  // was overtaken
    CHECK_FALSE(sent.is_full());
    sent.note_sent(3);
    CHECK(sent.is_full());
    CHECK(sent.update(freed += window + 3));
    sent.note_sent(1u << 31);
    CHECK(sent.update(freed += (1u << 31) - 1));
    CHECK(sent.update(freed += 1));
  }
}

TEST_CASE("a rank that writes more than a window ends the group", "[group]") {
  BesideChannel rank;
  std::uint32_t number = 0;
  auto const error = [&] {
    for (;;) {
      for (std::uint32_t i = 0; i < window; ++i) {
        auto const length =
            WrittenMessage::encode(rank.bytes().data(), ++number, message_with(0, 0), nullptr);
        rank.write(Mailbox::place_of(number, window), length);
      }
      if (auto ended = error_of(rank.group.barrier(within(10ms))); ended != Errc::timed_out)
        return ended;
    }
  }();
  CHECK(error == Errc::incompatible_peer);
  CHECK_THAT(error.message(), Catch::Contains("more messages than it may"));
  CHECK(number == 3 * window);
}

TEST_CASE("a rank that sends beside what it writes has no room for more either", "[group]") {
  BesideChannel rank;
  constexpr std::uint32_t receives = window + 3;
  constexpr std::uint32_t most = receives + window;  // that may wait
  std::uint32_t number = 0;
  while (number < most) {
    for (std::uint32_t i = 0; i < window && number < most; ++i) {
      auto const length =
          WrittenMessage::encode(rank.bytes().data(), ++number, message_with(0, 0), nullptr);
      rank.write(Mailbox::place_of(number, window), length);
    }
    CHECK(error_of(rank.group.barrier(within(10ms))) == Errc::timed_out);
  }
  auto const message = message_with(0, 0);
  std::memcpy(rank.bytes().data(), &message, sizeof message);
  for (std::uint32_t i = 0; i < receives; ++i)
    must(rank.peer->send({rank.memory.gather(0, sizeof message)}, within(10s)));
  CHECK(error_of(rank.group.barrier(within(10ms))) == Errc::timed_out);

  auto const length =
      WrittenMessage::encode(rank.bytes().data(), ++number, message_with(0, 0), nullptr);
  rank.write(Mailbox::place_of(number, window), length);
  auto const error = error_of(rank.group.barrier(within(10s)));
  CHECK(error == Errc::incompatible_peer);
  CHECK_THAT(error.message(), Catch::Contains("more messages than it may"));
}

TEST_CASE("a rank that frees what it was not sent ends the group", "[group]") {
  BesideChannel rank;
  auto const word = Mailbox::word_of(2);  // of one
  std::memcpy(rank.bytes().data(), &word, sizeof word);
  rank.write(0, sizeof word);
  auto const error = error_of(rank.group.barrier(within(10s)));
  CHECK(error == Errc::incompatible_peer);
  CHECK_THAT(error.message(), Catch::Contains("frees more messages than it was sent"));
}

TEST_CASE("a message of which only a part is ever written does not hold a rank", "[group]") {
  BesideChannel rank;
  WrittenMessage::encode(rank.bytes().data(), 1, message_with(0, 8),
                         std::array<std::byte, 8>{}.data());
  rank.write(Mailbox::place_of(1, window), sizeof(std::uint64_t));
  auto const error = error_of(rank.group.barrier(within(100ms)));
  CHECK(error == Errc::timed_out);
}

TEST_CASE("a message that a thread stores is taken as it was meant, or stays where it is",
          "[group]") {
  MappedBox box;
  if (box.context.kind() != DeviceKind::soft) return skip(box.context, "peers map its memory");
  REQUIRE(box.theirs.is_stored_to());
  for (std::uint32_t number = 1; number <= 3 * window; ++number) {
    std::array<std::byte, WrittenMessage::values_max> sent{}, found{};
    auto const length = number % (WrittenMessage::values_max + 1);
    std::ranges::fill(sent, static_cast<std::byte>(number));
    auto message = message_with(number, length);
    std::uint32_t freed = 0;
    CHECK(box.mailbox->look(message, freed, found.data()) == Mailbox::Look::nothing);
    message.freed = 2 * number;
    box.theirs.store(message, sent.data());
    auto other = message_with(number, length);
    other.round = 1;
    CHECK(box.mailbox->look(other, freed, found.data()) == Mailbox::Look::other);
    REQUIRE(box.mailbox->look(message_with(number, length), freed, found.data()) ==
            Mailbox::Look::expected);
    CHECK(freed == 2 * number);
    CHECK(std::ranges::equal(std::span{sent}.first(length), std::span{found}.first(length)));
    MessageHead taken;
    if (number % 2 == 0) {
      box.mailbox->note_taken();
    } else {
      Mailbox::Values values;
      CHECK(must(box.mailbox->take(taken, values)));
      CHECK(std::ranges::equal(std::span{sent}.first(length), std::span{values}.first(length)));
    }
  }
  box.theirs.store_freed(5);
  CHECK(box.mailbox->take_freed() == 5);
}

TEST_CASE("what a peer stores into a mailbox that has ended meets nobody's bytes", "[group]") {
  MappedBox box;
  if (box.context.kind() != DeviceKind::soft) return skip(box.context, "peers map its memory");
  REQUIRE(box.theirs.is_stored_to());
  box.mailbox.reset();
  box.all.reset();
  std::vector<MemoryRegion> later;
  for (int i = 0; i < 8; ++i) later.push_back(must(box.domain.allocate(4096)));
  Mailboxes next = must(Mailboxes::create(box.domain, 1, window));
  Mailbox const mailbox = must(next.make_next());
  std::array<std::byte, 8> const values{std::byte{1}};
  for (std::uint32_t i = 0; i < 2 * window; ++i)
    box.theirs.store(message_with(i, 8), values.data());
  box.theirs.store_freed(1);
  CHECK_FALSE(mailbox.has_next());
  CHECK_FALSE(mailbox.has_freed());
  for (MemoryRegion const& region : later)
    CHECK(std::ranges::count(must(region.bytes()), std::byte{0}) == 4096);
}

TEST_CASE("where faults are planned messages go by requests, from then on", "[group]") {
  MappedBox box;
  if (box.context.kind() != DeviceKind::soft) return skip(box.context, "faults are planned");
  REQUIRE(box.theirs.is_stored_to());
  must(inject_faults(box.context, FaultPlan{}.peer_dies(1'000)));
  CHECK(box.theirs.is_stored_to());  // of the other device
  must(inject_faults(box.other_context, FaultPlan{}.peer_dies(1'000)));
  CHECK_FALSE(box.theirs.is_stored_to());
  must(inject_faults(box.other_context, {}));
  CHECK_FALSE(box.theirs.is_stored_to());
}
