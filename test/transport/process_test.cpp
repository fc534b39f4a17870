// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: two processes stream files to each other; one that is killed at whichever moment leaves its
// peer a part of the file and peer_lost, never an end. Method: a forked child, killed by a timer or
// before its n-th part, or after so many instructions of a copy.
#include <lend/channel/wait_set.hpp>
#include <lend/stream/byte_stream.hpp>
#include <lend/transport/connect.hpp>
#include <lend/transport/message_pool.hpp>
#include <lend/transport/waiting.hpp>

#include <sys/time.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <random>
#include <string>
#include <vector>

#include "soft/tracing.hpp"
#include "support/peer_process.hpp"
#include "support/seed.hpp"
#include "support/thorough.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

constexpr auto patience = 60s;

TransportOptions options(TransportKind kind = TransportKind::automatic,
                         std::uint64_t lent_bytes_max = 4 << 20) {
  TransportOptions options;
  options.kind = kind;
  if (kind != TransportKind::read_ring) options.lent_bytes_max = lent_bytes_max;
  options.keep_alive = 20ms;
  return options;
}

/// Bytes that differ by place and seed.
std::vector<std::byte> file(std::uint64_t seed, std::size_t bytes) {
  std::vector<std::byte> made(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    made[i] = std::byte((i + seed) * 0x9e37'79b9'7f4a'7c15u >> 56);
  return made;
}

ProtectionDomain a_domain() {
  return must(open_test_device().allocate_protection_domain());
}
AnyTransport accepted(Wire const& wire, TransportKind kind,
                      ProtectionDomain const& domain = a_domain()) {
  auto listener = must(TransportListener::open("127.0.0.1:0"));
  REQUIRE(wire.put_text(listener.address()));
  return must(listener.accept(domain, options(kind), within(patience)));
}
AnyTransport connected(Wire const& wire, TransportKind kind,
                       ProtectionDomain const& domain = a_domain(),
                       std::uint64_t lent_bytes_max = 4 << 20) {
  auto const address = wire.take_text();
  auto const asked = options(kind, lent_bytes_max);
  return must(connect_transport(address, domain, asked, within(patience)));
}

/// What an end has read when it finished, or failed.
struct Outcome {
  std::vector<std::byte> got{};
  Result<void> done = success();
};

/// Writes `mine` and reads what comes, both at once, until both ends have finished.
Outcome swap(ByteStream& stream, std::span<std::byte const> mine) {
  Outcome outcome;
  std::array<std::byte, 5'000> part;
  bool at_end = false;
  auto const step = [&]() -> Result<bool> {
    std::size_t moved = 0;
    if (!mine.empty()) {
      LEND_TRY(sent, stream.try_write({&mine, 1}));
      mine = mine.subspan(sent);
      if (mine.empty()) {
        LEND_TRYV(stream.finish_writing());
      }
      moved += sent;
    }
    LEND_TRY(taken, stream.try_read(part));
    at_end = taken.at_end;
    outcome.got.insert(outcome.got.end(), part.begin(), part.begin() + std::ptrdiff_t(taken.bytes));
    return moved + taken.bytes > 0;
  };
  while (outcome.done && (!at_end || !mine.empty())) {
    auto const has_moved = step();
    if (!has_moved) {
      outcome.done = has_moved.error();
    } else if (!has_moved.value() && !at_end) {
      outcome.done = stream.wait_for_change(within(patience));
    }
  }
  if (outcome.done) outcome.done = stream.finish(within(patience));
  return outcome;
}

void die_after(std::chrono::microseconds moment) {
  itimerval const timer{.it_interval = {}, .it_value = {0, moment.count()}};
  REQUIRE(::setitimer(ITIMER_REAL, &timer, nullptr) == 0);  // its signal kills
}

constexpr std::size_t bytes = 2'000'001;

/// Lends these bytes again and again, until the connection ends.
Error lend_on(AnyTransport& end, MemoryRegion const& memory) {
  for (;;) {
    auto const lent = send_lent(end, memory.gather(0, bytes), within(patience));
    if (!lent) return lent.error();
    auto const over = wait_until_over(end, lent.value(), within(patience));
    if (!over) return over.error();
  }
}
/// Reads what is lent, until the connection ends.
Error read_on(AnyTransport& end, MemoryRegion& memory) {
  for (;;) {
    auto const came = receive_message(end, within(patience));
    if (!came) return came.error();
    auto const read = fetch(end, came.value(), memory.scatter(0, bytes), within(patience));
    if (!read) return read.error();
  }
}

}  // namespace

TEST_CASE("two processes stream files to each other at once", "[transport]") {
  auto const kind =
      GENERATE(TransportKind::send_receive, TransportKind::automatic, TransportKind::read_ring);
  PeerProcess peer{[kind](Wire const& wire) {
    ByteStream stream{connected(wire, kind)};
    auto const outcome = swap(stream, file(1, bytes));
    return outcome.done && outcome.got == file(2, bytes) ? 0 : 1;
  }};
  auto const context = open_test_device();
  if (lacks(context, &DeviceCapabilities::endpoints)) return;
  ByteStream stream{accepted(peer.wire(), kind)};
  bool const has_ring = kind == TransportKind::automatic && context.capabilities().immediates;
  auto const chosen = has_ring ? TransportKind::credit_ring : TransportKind::send_receive;
  CHECK(stream.limits().kind == (kind == TransportKind::automatic ? chosen : kind));

  auto const outcome = swap(stream, file(2, bytes));

  must(outcome.done);
  CHECK(outcome.got == file(1, bytes));
  CHECK(peer.exit_status() == 0);
}

TEST_CASE("a process killed in the middle of a stream is lost, and what came before is whole",
          "[transport]") {
  auto const theirs = file(1, 32 * bytes);
  for (auto const seed : seeds(12)) {
    std::mt19937 random{static_cast<std::uint32_t>(seed)};
    auto const moment = std::chrono::microseconds{random() % 8'000 + 1};
    constexpr TransportKind kinds[] = {TransportKind::send_receive, TransportKind::automatic,
                                       TransportKind::read_ring};
    auto const kind = kinds[seed % 3];
    INFO("LEND_TEST_SEED=" << seed << ", killed after " << moment.count() << " us");
    PeerProcess peer{[&](Wire const& wire) {
      ByteStream stream{connected(wire, kind)};
      die_after(moment);
      return swap(stream, theirs).done ? 0 : 1;
    }};
    if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
    ByteStream stream{accepted(peer.wire(), kind)};

    auto const outcome = swap(stream, theirs);

    CHECK(error_of(outcome.done) == Errc::peer_lost);
    CHECK(outcome.got.size() < theirs.size());
    CHECK(std::equal(outcome.got.begin(), outcome.got.end(), theirs.begin()));
    CHECK(peer.exit_status() == 128 + SIGALRM);
  }
}

TEST_CASE("a process killed as it copies a message to its peer is lost, and no part is read",
          "[transport]") {
  auto const theirs = file(1, 20 << 10);
  std::span<std::byte const> const first{theirs.data(), 8 << 10};
  // Until it is known when the copy has ended, each kill comes later than the last one.
  unsigned range = 6'000, alone = 0, whole = 0;
  std::mt19937 random{1};
  for (unsigned kill = 0; kill < (thorough() ? 60 : 6) || alone == 0 || whole == 0; ++kill) {
    auto const drawn = static_cast<unsigned>(random());
    auto const instructions = whole == 0 ? range / 2 + drawn % (range / 2) : drawn % range;
    INFO("kill " << kill << ", after " << instructions << " instructions");
    PeerProcess peer{[&](Wire const& wire) {
      ByteStream stream{connected(wire, TransportKind::automatic)};
      if (must(stream.write(first, within(patience))) != first.size()) return 1;
      bool const is_traced = let_parent_trace();
      if (!tell(wire, is_traced) || !is_traced) return 2;
      breakpoint();
      must(stream.write(std::span{theirs}.subspan(first.size()), within(patience)));
      return swap(stream, {}).done ? 0 : 3;
    }};
    auto const context = open_test_device();
    if (lacks(context, &DeviceCapabilities::endpoints)) return;
    ByteStream stream{accepted(peer.wire(), TransportKind::automatic)};
    bool is_traced = false;
    if (!hear(peer.wire(), is_traced) || !is_traced)
      return skip(context, "a process is traced instruction by instruction");
    REQUIRE(stops(peer.pid()));
    unsigned steps = 0;
    while (steps < instructions && step(peer.pid(), PTRACE_SINGLESTEP)) ++steps;
    REQUIRE(steps == instructions);
    peer.kill();

    auto const outcome = swap(stream, {});

    CHECK(error_of(outcome.done) == Errc::peer_lost);
    bool const is_alone = outcome.got.size() == first.size();
    CHECK(outcome.got == (is_alone ? std::vector(first.begin(), first.end()) : theirs));
    CHECK(peer.exit_status() == 128 + SIGKILL);
    // The next ones come closer to where the copy ends.
    if (!is_alone)
      range = instructions + 1;
    else if (whole == 0)
      range *= 2;
    ++(is_alone ? alone : whole);
  }
  CHECK(alone > 0);
  CHECK(whole > 0);
}

TEST_CASE("a process killed while bytes that were lent are read is lost, and no byte stays on loan",
          "[transport]") {
  for (auto const seed : seeds(12)) {
    std::mt19937 random{static_cast<std::uint32_t>(seed)};
    auto const moment = std::chrono::microseconds{random() % 8'000 + 1};
    auto const kind = seed % 2 == 0 ? TransportKind::send_receive : TransportKind::automatic;
    bool const child_reads = seed % 4 < 2;
    INFO("LEND_TEST_SEED=" << seed << ", killed after " << moment.count() << " us");
    auto const work = [](AnyTransport& end, MemoryRegion& memory, bool reads) {
      return reads ? read_on(end, memory) : lend_on(end, memory);
    };
    PeerProcess peer{[&](Wire const& wire) {
      auto const domain = a_domain();
      auto memory = must(domain.allocate(bytes));
      auto end = connected(wire, kind, domain);
      die_after(moment);
      static_cast<void>(work(end, memory, child_reads));
      return 1;
    }};
    if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
    auto const domain = a_domain();
    auto memory = must(domain.allocate(bytes));
    auto end = accepted(peer.wire(), kind, domain);

    auto const error = work(end, memory, !child_reads);

    CAPTURE(error.message());
    CHECK(error == Errc::peer_lost);
    CHECK(memory.mutable_bytes().has_value());
    CHECK(peer.exit_status() == 128 + SIGALRM);
  }
}

TEST_CASE("clients of a MessagePool that are killed cost it nothing, and another client nothing",
          "[transport]") {
  constexpr MessagePoolOptions small{
      .message_bytes_max = 64, .transports_max = 2, .shared = 8, .drafts = 2};
  for (auto const seed : seeds(12)) {
    std::mt19937 random{static_cast<std::uint32_t>(seed)};
    auto const moment = std::chrono::microseconds{random() % 8'000 + 1};
    INFO("LEND_TEST_SEED=" << seed << ", killed after " << moment.count() << " us");
    // Sends as fast as it may, and reads what comes.
    auto const talk = [&](Wire const& wire, bool dies) {
      auto end = connected(wire, TransportKind::send_receive, a_domain(), 0);
      if (dies) die_after(moment);
      std::array<std::byte, 9> const text{};
      int answers = 0;
      while (dies || answers < 50) {
        static_cast<void>(must(end.poll()));
        std::span<std::byte const> const bytes_of_one = text;
        static_cast<void>(must(try_send(end, {&bytes_of_one, 1})));
        if (auto const answer = must(end.try_receive())) ++answers;
      }
      return 0;
    };
    PeerProcess honest{[&](Wire const& wire) { return talk(wire, false); }};
    PeerProcess killed{[&](Wire const& wire) { return talk(wire, true); }};
    auto const context = open_test_device();
    if (lacks(context, &DeviceCapabilities::endpoints)) return;
    auto const domain = must(context.allocate_protection_domain());
    auto set = must(WaitSet::create(context));
    auto pool = must(MessagePool::create(set, domain, small));
    std::array<std::optional<AnyTransport>, 2> ends;
    for (auto* const peer : {&killed, &honest}) {
      auto const tag = std::uint64_t{peer == &honest};
      auto listener = must(TransportListener::open("127.0.0.1:0"));
      REQUIRE(peer->wire().put_text(listener.address()));
      ends[tag].emplace(must(listener.accept(domain,
                                             {.kind = TransportKind::send_receive,
                                              .keep_alive = 20ms,
                                              .wait_set = &set,
                                              .tag = tag,
                                              .pool = &pool},
                                             within(patience))));
    }
    std::array<std::optional<Error>, 2> losses;
    std::array<Ready, 2> room;
    for (auto const limit = within(patience); !(losses[0] && losses[1]) && !limit.has_passed();) {
      static_cast<void>(must(set.poll(room)));
      for (std::size_t i = 0; i < 2; ++i) {
        if (losses[i]) continue;
        static_cast<void>(ends[i]->poll());
        auto const message = ends[i]->try_receive();
        if (!message) {
          losses[i] = message.error();
          ends[i].reset();
        } else if (message.value()) {
          auto const text = message.value().bytes();
          static_cast<void>(try_send(*ends[i], {&text, 1}));
        }
      }
    }
    // The honest one goes once it has its answers.
    CHECK(honest.exit_status() == 0);
    CHECK(killed.exit_status() == 128 + SIGALRM);
    CHECK(losses[0] == Errc::peer_lost);
    CHECK(pool.transports() == 0);
    CHECK(pool.shared_free() == small.shared);
    CHECK(pool.drafts_free() == small.drafts);
  }
}

TEST_CASE("ends of different kinds are refused on both sides, with both kinds", "[transport]") {
  auto const is_refused = [](Result<AnyTransport> const& made) {
    auto const text = error_of(made).message();
    return made.error() == Errc::incompatible_peer &&
           text.find("send_receive") != std::string::npos &&
           text.find("credit_ring") != std::string::npos;
  };
  PeerProcess peer{[&](Wire const& wire) {
    auto const domain = must(open_test_device().allocate_protection_domain());
    auto const made = connect_transport(wire.take_text(), domain,
                                        options(TransportKind::send_receive), within(patience));
    return is_refused(made) ? 0 : 1;
  }};
  auto const context = open_test_device();
  if (lacks(context, &DeviceCapabilities::endpoints)) return;
  if (lacks(context, &DeviceCapabilities::immediates)) return;
  auto const domain = must(context.allocate_protection_domain());
  auto listener = must(TransportListener::open("127.0.0.1:0"));
  REQUIRE(peer.wire().put_text(listener.address()));

  CHECK(is_refused(listener.accept(domain, options(), within(patience))));
  CHECK(peer.exit_status() == 0);
}

TEST_CASE("ends that do not fit are refused on both sides, with both values", "[transport]") {
  PeerProcess peer{[](Wire const& wire) {
    auto const domain = must(open_test_device().allocate_protection_domain());
    auto prepared = must(channel_builder().protection_domain(domain).build());
    auto const refused = lend::connect(wire.take_text(), std::move(prepared), within(patience));
    if (refused || refused.error() != Errc::incompatible_peer) return 1;
    return refused.error().message().find("0 bytes of terms") == std::string::npos ? 2 : 0;
  }};
  auto const context = open_test_device();
  if (lacks(context, &DeviceCapabilities::endpoints)) return;
  auto const domain = must(context.allocate_protection_domain());
  auto listener = must(TransportListener::open("127.0.0.1:0"));
  REQUIRE(peer.wire().put_text(listener.address()));

  auto const refused = error_of(listener.accept(domain, options(), within(patience)));

  CHECK(refused == Errc::incompatible_peer);
  CHECK(refused.message().find("0 bytes of terms, not 32: it makes no transport") !=
        std::string::npos);
  CHECK(peer.exit_status() == 0);
}
