// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: where one process, or each, may not use cross-memory attach, who can copy copies, short
// messages need nobody, and what nobody can do is refused as it is posted or connected, with the
// reason. Method: two processes that give it up by a sandbox or by LEND_SOFT_CMA, before they open
// the device; each operation, length and kind of memory.
#include <array>

#include "cross_memory.hpp"

using namespace lend;
using namespace lend::test;

namespace {

constexpr std::array<std::size_t, 7> sizes{1,      96,      97,     soft::eager_bytes_max,
                                           16'385, 100'000, 3 << 20};
constexpr auto largest = sizes.back();

/// How messages meet their receives.
struct Manner {
  bool is_early;  // a message comes before its receive is posted
  bool has_pool;
  bool sleeps;
};

void send_all(Wire const& wire, Where where, Manner manner, bool is_refused) {
  Side const side{where, largest};
  side.meet(wire);
  for (auto const size : sizes) {
    if (is_refused && size > soft::eager_bytes_max) return;
    if (!manner.is_early) REQUIRE(wire.hear());
    fill(side.memory.at(), size, static_cast<unsigned>(size));
    REQUIRE(side.link.send(size, side.memory.piece(0, size)) == 0);
    if (manner.is_early) REQUIRE(wire.say());
    auto const end = manner.sleeps ? side.next_asleep() : next_of(side.queue);
    REQUIRE(end.status == IBV_WC_SUCCESS);
    REQUIRE(end.wr_id == size);
  }
}

void receive_all(Wire const& wire, Where where, Manner manner, bool is_refused) {
  Side const side{where, largest, manner.has_pool};
  side.meet(wire);
  for (auto const size : sizes) {
    auto const into = side.memory.piece(0, size);
    auto const receive = [&] {
      return manner.has_pool ? side.pool.receive(size, into) : side.link.receive(size, into);
    };
    if (is_refused && size > soft::eager_bytes_max) {
      REQUIRE(receive() == EOPNOTSUPP);
      REQUIRE(says_why());
      return;
    }
    if (manner.is_early) REQUIRE(wire.hear());
    REQUIRE(receive() == 0);
    if (!manner.is_early) REQUIRE(wire.say());
    auto const end = manner.sleeps ? side.next_asleep() : next_of(side.queue);
    REQUIRE(end.status == IBV_WC_SUCCESS);
    REQUIRE(end.byte_len == size);
    REQUIRE(holds(side.memory.at(), size, static_cast<unsigned>(size)));
  }
}

}  // namespace

TEST_CASE("a message to private memory comes by whoever can copy it, or is refused with the reason",
          "[two_process]") {
  if (is_skipped()) return;
  auto const [sender, receiver] = GENERATE(table<Lacks, Lacks>({
      {Lacks::nothing, Lacks::all},
      {Lacks::all, Lacks::nothing},
      {Lacks::all_by_variable, Lacks::nothing},
      {Lacks::nothing, Lacks::all_by_variable},
      {Lacks::writing, Lacks::nothing},
      {Lacks::writing, Lacks::reading},
      {Lacks::reading, Lacks::all},
      {Lacks::all, Lacks::writing},
      {Lacks::all, Lacks::all},
      {Lacks::all_by_variable, Lacks::all_by_variable},
  }));
  auto const from = GENERATE(Where::allocated, Where::private_memory);
  auto const into = GENERATE(Where::allocated, Where::private_memory);
  auto const manner = GENERATE(Manner{false, false, false}, Manner{false, true, true},
                               Manner{true, false, true}, Manner{true, true, false});
  CAPTURE(static_cast<int>(sender), static_cast<int>(receiver), static_cast<int>(from),
          static_cast<int>(into), manner.is_early, manner.has_pool, manner.sleeps);
  bool const is_refused = into == Where::private_memory && !writes(sender) && !reads(receiver);
  Rendezvous const rendezvous;
  CHECK(run_both(
            sender, [=](Wire const& wire) { send_all(wire, from, manner, is_refused); }, receiver,
            [=](Wire const& wire) { receive_all(wire, into, manner, is_refused); }) == 0);
}

namespace {

enum class Asks : std::uint8_t { write, write_with_immediate, read, add, swap, build };

int ask(Side const& side, Asks asks, Remote const& there, std::size_t length) {
  auto const all = side.memory.piece(0, length);
  auto const word = side.memory.piece(0, 8);
  switch (asks) {
    case Asks::write: return side.link.write(1, all, there);
    case Asks::write_with_immediate: return side.link.write_with_immediate(1, all, there);
    case Asks::read: return side.link.read(1, all, there);
    case Asks::add: return side.link.fetch_and_add(1, word, there, 1);
    case Asks::swap: return side.link.compare_and_swap(1, word, there, 0, 1);
    case Asks::build: return side.link.build(1, 2, all, there);
  }
  return -1;
}
bool may_ask(Lacks lacks, Asks asks) {
  if (asks == Asks::read) return reads(lacks);
  bool const is_atomic = asks == Asks::add || asks == Asks::swap;
  return writes(lacks) && (!is_atomic || reads(lacks));
}

constexpr std::size_t asked_length = 20'000;

/// Asks for each operation, to each kind of memory, and is refused or served; and the connection
/// goes on.
void ask_for_all(Wire const& wire, Lacks lacks) {
  Side const side{Where::private_memory, asked_length, false, Builders::yes};
  side.meet(wire);
  for (auto const where : {Where::private_memory, Where::allocated}) {
    Remote there;
    REQUIRE(hear(wire, there));
    for (auto const asks : {Asks::write, Asks::write_with_immediate, Asks::read, Asks::add,
                            Asks::swap, Asks::build}) {
      CAPTURE(static_cast<int>(asks), static_cast<int>(where));
      bool const is_served = where == Where::allocated || may_ask(lacks, asks);
      auto const error = ask(side, asks, there, asked_length);
      REQUIRE(error == (is_served ? 0 : EOPNOTSUPP));
      if (!is_served) {
        REQUIRE(says_why());
        continue;
      }
      REQUIRE(next_of(side.queue).status == IBV_WC_SUCCESS);
      if (asks == Asks::build) REQUIRE(next_of(side.queue).status == IBV_WC_SUCCESS);
    }
    REQUIRE(wire.say());
  }
}

void serve_all(Wire const& wire) {
  Side const side{Where::allocated, asked_length};
  RawMemory const other{side.device, asked_length, Where::private_memory};
  side.meet(wire);
  for (auto i = 0; i < 4; ++i) REQUIRE(side.link.receive(1, side.memory.piece(0, 20'000)) == 0);
  for (auto const& there : {other.remote(), side.memory.remote()}) {
    REQUIRE(tell(wire, there));
    REQUIRE(wire.hear());
  }
}

}  // namespace

TEST_CASE(
    "a write, a read or an atomic operation that its poster may not do is refused as it is posted",
    "[two_process]") {
  if (is_skipped()) return;
  auto const asking =
      GENERATE(Lacks::nothing, Lacks::reading, Lacks::writing, Lacks::all, Lacks::all_by_variable);
  auto const asked = GENERATE(Lacks::nothing, Lacks::all);
  CAPTURE(static_cast<int>(asking), static_cast<int>(asked));
  Rendezvous const rendezvous;
  CHECK(run_both(
            asking, [=](Wire const& wire) { ask_for_all(wire, asking); }, asked,
            [](Wire const& wire) { serve_all(wire); }) == 0);
}

TEST_CASE("receives for what no process could copy are refused as they are connected",
          "[two_process]") {
  if (is_skipped()) return;
  auto const has_pool = GENERATE(false, true);
  auto const length = GENERATE(std::size_t{soft::eager_bytes_max}, std::size_t{16'385});
  auto const where = GENERATE(Where::private_memory, Where::allocated);
  bool const is_refused = where == Where::private_memory && length > soft::eager_bytes_max;
  Rendezvous const rendezvous;
  auto const connect = [=](Wire const& wire) {
    Side const side{where, length, has_pool};
    REQUIRE(test::move(side.link.get(), IBV_QPS_INIT, attributes_for(0), init_mask) == 0);
    auto const into = side.memory.piece(0, length);
    REQUIRE((has_pool ? side.pool.receive(1, into) : side.link.receive(1, into)) == 0);
    std::uint32_t theirs = 0;
    REQUIRE(hear(wire, theirs));
    auto const error = side.link.connect(theirs);
    REQUIRE(error == (is_refused ? EOPNOTSUPP : 0));
    if (is_refused) REQUIRE(says_why());
    REQUIRE(wire.say());
  };
  auto const be_there = [](Wire const& wire) {
    Side const side{Where::allocated, 1};
    REQUIRE(tell(wire, side.link.number()));
    REQUIRE(wire.hear());
  };
  CHECK(run_both(Lacks::all, connect, Lacks::all, be_there) == 0);
}

TEST_CASE(
    "a shared queue takes long receives again once the peer that no process copies for is left",
    "[two_process]") {
  if (is_skipped()) return;
  Rendezvous const rendezvous;
  constexpr std::size_t length = 16'385;
  auto const connect = [](Wire const& wire) {
    Side const side{Where::private_memory, length, true};
    side.meet(wire);
    auto const into = side.memory.piece(0, length);
    for (int connected = 0; connected < 2; ++connected) {
      REQUIRE(side.pool.receive(1, into) == EOPNOTSUPP);
      REQUIRE(says_why());
      REQUIRE(test::move(side.link.get(), IBV_QPS_RESET, {}, IBV_QP_STATE) == 0);
      if (connected == 0) side.meet(wire);
    }
    REQUIRE(side.pool.receive(1, into) == 0);
  };
  auto const be_there = [](Wire const& wire) {
    for (int connected = 0; connected < 2; ++connected) {
      Side const side{Where::allocated, 1};
      side.meet(wire);
    }
  };
  CHECK(run_both(Lacks::all, connect, Lacks::all, be_there) == 0);
}

TEST_CASE("private memory of a process that no peer may attach to is not registered for them",
          "[two_process]") {
  Rendezvous const rendezvous;
  PeerProcess child{[](Wire const&) {
    if (::prctl(PR_SET_DUMPABLE, 0) != 0) return 1;
    RawDevice const device;
    std::array<std::byte, 64> bytes{};
    auto* const region = ibv().reg_mr(device.domain(), bytes.data(), bytes.size(), all_access);
    if (region != nullptr || errno != EOPNOTSUPP) return 2;
    return std::string{soft::last_reason()}.find("dumpable") == std::string::npos ? 3 : 0;
  }};
  CHECK(child.exit_status() == 0);
}
