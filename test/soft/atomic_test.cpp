// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: compare-and-swap and fetch-and-add give the old value, change the word, and fail as verbs
// say. Method: one operation on a connected pair, on allocated and on private memory.
// Source: InfiniBand Architecture Specification vol. 1, 9.4.5; ibv_post_send(3); statuses: kernel
// drivers/infiniband/sw/rxe/rxe_resp.c.
#include "soft/support.hpp"

using namespace lend;
using namespace lend::test;

namespace {

constexpr std::uint64_t old_value = 0x0123456789abcdef;
constexpr std::uint64_t untouched = 0x5555555555555555;

struct Words {
  explicit Words(Terms const& of_a = {}, Terms const& of_b = {}, int access = all_access)
      : link{GENERATE(Reach::one_context, Reach::two_contexts), of_a, of_b},
        here{link.a.domain.get(), 64},
        there{link.b.domain.get(), 64, access, GENERATE(Where::private_memory, Where::allocated)} {
    set(there, 8, old_value);
    set(here, 0, untouched);
  }
  static void set(Memory const& memory, std::size_t offset, std::uint64_t value) {
    std::memcpy(memory.at(offset), &value, sizeof value);
  }
  static std::uint64_t get(Memory const& memory, std::size_t offset) {
    std::uint64_t value = 0;
    std::memcpy(&value, memory.at(offset), sizeof value);
    return value;
  }
  [[nodiscard]] Request swap(std::uint64_t compare, std::uint64_t with) const {
    return {.opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
            .pieces = {here.piece(0, 8)},
            .remote_address = there.address(8),
            .remote_key = there.key(),
            .compare_or_add = compare,
            .swap = with};
  }
  [[nodiscard]] Request add(std::uint64_t number) const {
    auto request = swap(number, 99);
    request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    return request;
  }
  void check_failed(ibv_wc_status status) {
    auto const end = await_one(link.a.sends);
    CHECK(end.status == status);
    CHECK(state_of(link.a.qp.get()) == IBV_QPS_ERR);
    CHECK(get(there, 8) == old_value);
    CHECK(get(here, 0) == untouched);
  }

  Link link;
  Memory here;
  Memory there;
};

}  // namespace

TEST_CASE("compare-and-swap changes the word only when it is equal, and gives the old one",
          "[soft]") {
  Words words;
  bool const is_equal = GENERATE(true, false);

  REQUIRE(post(words.link.a, words.swap(is_equal ? old_value : old_value + 1, 77)) == 0);

  auto const end = await_one(words.link.a.sends);
  CHECK(end.status == IBV_WC_SUCCESS);
  CHECK(end.opcode == IBV_WC_COMP_SWAP);
  CHECK(end.byte_len == 8);
  CHECK(words.get(words.here, 0) == old_value);
  CHECK(words.get(words.there, 8) == (is_equal ? 77 : old_value));
  CHECK(words.get(words.there, 0) == 0);
  CHECK(words.get(words.there, 16) == 0);
}

TEST_CASE("fetch-and-add adds modulo 2^64 and gives the old value", "[soft]") {
  Words words;
  auto const number = GENERATE(std::uint64_t{0}, std::uint64_t{5}, UINT64_MAX);

  REQUIRE(post(words.link.a, words.add(number)) == 0);

  auto const end = await_one(words.link.a.sends);
  CHECK(end.status == IBV_WC_SUCCESS);
  CHECK(end.opcode == IBV_WC_FETCH_ADD);
  CHECK(words.get(words.here, 0) == old_value);
  CHECK(words.get(words.there, 8) == old_value + number);
}

TEST_CASE("an atomic operation's result fills several pieces in order", "[soft]") {
  Words words;
  auto request = words.add(1);
  request.pieces = {words.here.piece(32, 3), words.here.piece(16, 0), words.here.piece(40, 16)};

  REQUIRE(post(words.link.a, request) == 0);

  CHECK(await_one(words.link.a.sends).status == IBV_WC_SUCCESS);
  auto const* const old_bytes = reinterpret_cast<char const*>(&old_value);
  CHECK(words.here.read(32, 3) == std::string(old_bytes, 3));
  CHECK(words.here.read(40, 5) == std::string(old_bytes + 3, 5));
  CHECK(words.here.read(45, 11) == std::string(11, '\0'));
}

TEST_CASE("an atomic operation that has no room for its result, or is inline, is not taken",
          "[soft]") {
  Words words;
  auto request = words.add(1);

  SECTION("7 bytes") {
    request.pieces = {words.here.piece(0, 7)};
  }
  SECTION("no bytes") {
    request.pieces = {};
  }
  SECTION("inline") {
    request.flags |= IBV_SEND_INLINE;
  }

  CHECK(post(words.link.a, request) == EINVAL);
  CHECK(words.get(words.there, 8) == old_value);
}

TEST_CASE("an atomic operation off 8 bytes is an invalid request", "[soft]") {
  Words words;
  auto request = words.add(1);
  request.remote_address += GENERATE(1u, 4u, 7u);

  REQUIRE(post(words.link.a, request) == 0);

  words.check_failed(IBV_WC_REM_INV_REQ_ERR);
  CHECK(state_of(words.link.b.qp.get()) == IBV_QPS_ERR);
}

TEST_CASE("an atomic operation needs the right of the target's queue pair and of its region",
          "[soft]") {
  Terms without;
  without.access = all_access & ~IBV_ACCESS_REMOTE_ATOMIC;
  bool const region_forbids = GENERATE(true, false);
  Words words{{},
              region_forbids ? Terms{} : without,
              region_forbids ? static_cast<int>(without.access) : all_access};
  auto const request = GENERATE(true, false) ? words.add(1) : words.swap(old_value, 1);

  REQUIRE(post(words.link.a, request) == 0);

  words.check_failed(region_forbids ? IBV_WC_REM_ACCESS_ERR : IBV_WC_REM_INV_REQ_ERR);
  CHECK(state_of(words.link.b.qp.get()) == IBV_QPS_ERR);
}

TEST_CASE("atomic operations need a depth at both ends", "[soft]") {
  Terms none_out;
  none_out.reads_out = 0;
  Terms none_in;
  none_in.reads_in = 0;
  bool const at_target = GENERATE(false, true);
  Words words{at_target ? Terms{} : none_out, at_target ? none_in : Terms{}};

  REQUIRE(post(words.link.a, words.add(1)) == 0);

  words.check_failed(at_target ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_LOC_QP_OP_ERR);
  CHECK(state_of(words.link.b.qp.get()) == (at_target ? IBV_QPS_ERR : IBV_QPS_RTS));
}

TEST_CASE("an atomic operation's result needs local write access", "[soft]") {
  Words words;
  Memory const constant{words.link.a.domain.get(), 8, IBV_ACCESS_REMOTE_READ};
  auto request = words.add(1);
  request.pieces = {constant.piece(0, 8)};

  REQUIRE(post(words.link.a, request) == 0);

  words.check_failed(IBV_WC_LOC_PROT_ERR);
  CHECK(state_of(words.link.b.qp.get()) == IBV_QPS_RTS);
}
