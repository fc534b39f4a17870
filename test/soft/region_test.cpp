// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a key opens its region alone, and nothing once the region is gone.
// Method: registrations of both kinds of memory, by the thousand, and under a peer that writes.
#include "soft/support.hpp"

#include <soft/objects/context.hpp>
#include <soft/objects/domain.hpp>
#include <soft/segment/layout.hpp>

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <set>
#include <string>

using namespace lend;
using namespace lend::test;

namespace {

constexpr std::size_t sizes[] = {1,      100,       4095,     4096,     4097,
                                 65'536, 1'000'000, 15 << 20, 16 << 20, 40 << 20};

Where any_kind() {
  return GENERATE(Where::private_memory, Where::allocated);
}

/// A device of its own, on which the same bytes are registered again and again.
struct Registering {
  HeldContext context = open_context();
  HeldDomain domain = make_domain(context.get());
  std::byte bytes[8];
  HeldRegion make() { return HeldRegion{ibv().reg_mr(domain.get(), bytes, sizeof bytes, 0)}; }
};

}  // namespace

TEST_CASE("keys differ, and the key of a region that is gone stays stale", "[soft]") {
  auto const context = open_context();
  auto const domain = make_domain(context.get());
  std::vector<std::byte> bytes(64);
  std::set<std::uint32_t> keys;
  for (int i = 0; i < 20'000; ++i) {
    HeldRegion const region{
        ibv().reg_mr(domain.get(), bytes.data(), bytes.size(), IBV_ACCESS_LOCAL_WRITE)};
    REQUIRE(region);
    CHECK(region->lkey == region->rkey);
    CHECK(region->lkey != 0);
    CHECK(keys.insert(region->lkey).second);
  }
}

TEST_CASE("an index is used again when all have been, and first the one that has been free longest",
          "[soft]") {
  Registering device;
  auto const live = GENERATE(1u, 1000u);
  std::vector<HeldRegion> others;
  while (others.size() < live - 1) others.push_back(device.make());
  std::vector<std::uint32_t> indexes;
  for (auto i = others.size(); i < soft::regions_max - 1; ++i)
    indexes.push_back(soft::index_of_key(device.make()->rkey));

  CHECK(std::set(indexes.begin(), indexes.end()).size() == soft::regions_max - live);
  for (auto const index : indexes) REQUIRE(soft::index_of_key(device.make()->rkey) == index);
}

TEST_CASE("a key comes back with the 262,144th registration of its index, and not before",
          "[soft]") {
  Registering device;
  std::vector<HeldRegion> others;
  while (others.size() < soft::regions_max - 2) others.push_back(device.make());
  auto const old = device.make()->rkey;
  auto made = 1u;
  while (device.make()->rkey != old && made <= 262'144) ++made;
  CHECK(made == 262'144);  // as exposure.hpp says
}

TEST_CASE("regions of one moment have keys of their own", "[soft]") {
  Link link{GENERATE(Reach::one_context, Reach::two_contexts), Terms{}};
  Memory const from{link.a.domain.get(), 64};
  Memory const left{link.b.domain.get(), 64};
  Memory const right{link.b.domain.get(), 64};
  REQUIRE(left.key() != right.key());

  REQUIRE(post(link.a, {.opcode = IBV_WR_RDMA_WRITE,
                        .pieces = {from.piece(0, 8)},
                        .remote_address = left.address(),
                        .remote_key = right.key()}) == 0);

  CHECK(await_one(link.a.sends).status == IBV_WC_REM_ACCESS_ERR);
}

TEST_CASE("one range registered twice has two sets of rights", "[soft]") {
  Link link{GENERATE(Reach::one_context, Reach::two_contexts), Terms{}};
  Memory const from{link.a.domain.get(), 64};
  Memory to{link.b.domain.get(), 64, all_access, any_kind()};
  HeldRegion const narrow{ibv().reg_mr(link.b.domain.get(), to.at(8), 8, IBV_ACCESS_REMOTE_READ)};
  REQUIRE(narrow);
  to.deregister();

  REQUIRE(post(link.b, {.opcode = IBV_WR_RDMA_READ,
                        .pieces = {},
                        .remote_address = from.address(),
                        .remote_key = from.key()}) == 0);
  CHECK(await_one(link.b.sends).status == IBV_WC_SUCCESS);
  REQUIRE(post(link.a, {.opcode = IBV_WR_RDMA_READ,
                        .pieces = {from.piece(0, 8)},
                        .remote_address = to.address(8),
                        .remote_key = narrow->rkey}) == 0);
  CHECK(await_one(link.a.sends).status == IBV_WC_SUCCESS);
  REQUIRE(post(link.a, {.opcode = IBV_WR_RDMA_WRITE,
                        .pieces = {from.piece(0, 8)},
                        .remote_address = to.address(8),
                        .remote_key = narrow->rkey}) == 0);
  CHECK(await_one(link.a.sends).status == IBV_WC_REM_ACCESS_ERR);
}

TEST_CASE("remote write needs local write, and what is nonsense is refused with a reason",
          "[soft]") {
  auto const context = open_context();
  auto const domain = make_domain(context.get());
  std::vector<std::byte> bytes(64);
  struct Case {
    void* address;
    std::size_t length;
    int access;
    int error;
  };
  Case const cases[] = {
      {bytes.data(), 64, IBV_ACCESS_REMOTE_WRITE, EINVAL},
      {bytes.data(), 64, IBV_ACCESS_REMOTE_ATOMIC, EINVAL},
      {bytes.data(), 64, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, EINVAL},
      {nullptr, SIZE_MAX, IBV_ACCESS_ON_DEMAND, EOPNOTSUPP},
      {bytes.data(), 64, IBV_ACCESS_ZERO_BASED, EOPNOTSUPP},
      {bytes.data(), 0, IBV_ACCESS_LOCAL_WRITE, EINVAL},
      {bytes.data(), SIZE_MAX, IBV_ACCESS_LOCAL_WRITE, EINVAL},
  };
  for (auto const& each : cases) {
    errno = 0;
    CHECK(ibv().reg_mr(domain.get(), each.address, each.length, each.access) == nullptr);
    CHECK(errno == each.error);
    CHECK(ibv().last_reason() != nullptr);
  }
  // What is optional may be asked for by programs newer than the device.
  int const optional = IBV_ACCESS_OPTIONAL_RANGE;
  int const on_demand = IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB;
  for (int const access : {0, int{IBV_ACCESS_REMOTE_READ}, all_access, optional, on_demand}) {
    HeldRegion const region{ibv().reg_mr(domain.get(), bytes.data(), 64, access)};
    CHECK(region);
  }
}

TEST_CASE("a region is changed by flags and values that belong together, or not at all", "[soft]") {
  auto const context = open_context();
  auto const domain = make_domain(context.get());
  std::vector<std::byte> bytes(64);
  HeldRegion const region{ibv().reg_mr(domain.get(), bytes.data(), 64, all_access)};
  REQUIRE(region);
  auto const change = [&](int flags, void* address, std::size_t length, int access) {
    return soft::rereg_mr(region.get(), flags, nullptr, address, length, access);
  };

  CHECK(change(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, 64, 0) == IBV_REREG_MR_ERR_INPUT);
  CHECK(change(IBV_REREG_MR_CHANGE_TRANSLATION, bytes.data(), 32, IBV_ACCESS_REMOTE_READ) ==
        IBV_REREG_MR_ERR_INPUT);
  CHECK(region->length == 64);
  CHECK(change(IBV_REREG_MR_CHANGE_TRANSLATION, bytes.data(), 32, 0) == 0);
  CHECK(region->length == 32);
  CHECK(change(IBV_REREG_MR_CHANGE_ACCESS, nullptr, 0, IBV_ACCESS_REMOTE_READ) == 0);
}

TEST_CASE("after deregistration returns no peer writes there", "[soft]") {
  constexpr std::size_t length = 1 << 16;
  Link link{GENERATE(Reach::one_context, Reach::two_contexts), Terms{}};
  Memory const from{link.a.domain.get(), length};
  Memory to{link.b.domain.get(), length, all_access, any_kind()};
  std::memset(from.at(0), 1, length);
  std::atomic<int> written{0};
  auto last = IBV_WC_SUCCESS;
  auto const key = to.key();
  // No assertions off the main thread: Catch2 2 cannot take them.
  std::thread writer{[&] {
    ibv_sge piece = from.piece(0, length);
    ibv_send_wr wr{};
    wr.sg_list = &piece;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = to.address();
    wr.wr.rdma.rkey = key;
    while (last == IBV_WC_SUCCESS) {
      ibv_send_wr* bad = nullptr;
      ibv_wc end{};
      if (ibv_post_send(link.a.qp.get(), &wr, &bad) != 0) return;
      while (ibv_poll_cq(link.a.sends.get(), 1, &end) == 0) std::this_thread::yield();
      last = end.status;
      ++written;
    }
  }};
  while (written < 20) std::this_thread::yield();

  to.deregister();
  std::memset(to.at(0), 0, length);
  writer.join();

  CHECK(last == IBV_WC_REM_ACCESS_ERR);
  CHECK(to.read(0, length) == std::string(length, '\0'));
}

TEST_CASE("a waiting send whose memory was deregistered is a local protection error", "[soft]") {
  Terms terms;
  terms.rnr_retries = 7;
  Link link{GENERATE(Reach::one_context, Reach::two_contexts), terms};
  Memory from{link.a.domain.get(), 64};
  REQUIRE(post(link.a, {.pieces = {from.piece(0, 64)}}) == 0);

  from.deregister();
  REQUIRE(post_receive(link.b, 1) == 0);

  CHECK(await_one(link.a.sends).status == IBV_WC_LOC_PROT_ERR);
  CHECK(state_of(link.b.qp.get()) == IBV_QPS_RTS);
}

TEST_CASE("a posted receive whose memory was deregistered takes no message", "[soft]") {
  Link link{GENERATE(Reach::one_context, Reach::two_contexts), Terms{}};
  auto const length = GENERATE(8u, 64u);
  Memory const from{link.a.domain.get(), 64};
  Memory to{link.b.domain.get(), 64, all_access, any_kind()};
  from.write(0, "harm");
  REQUIRE(post_receive(link.b, 1, {to.piece(0, 64)}) == 0);

  to.deregister();
  REQUIRE(post(link.a, {.pieces = {from.piece(0, length)}}) == 0);

  CHECK(await_one(link.a.sends).status == IBV_WC_REM_OP_ERR);
  CHECK(await_one(link.b.receives).status == IBV_WC_LOC_PROT_ERR);
  CHECK(to.read(0, 64) == std::string(64, '\0'));
}

TEST_CASE("allocated memory is zeroed, page-aligned and its own, in every size", "[soft]") {
  auto const context = open_context();
  struct Piece {
    std::byte* start;
    std::size_t length;
  };
  std::vector<Piece> pieces;
  auto const release = [&](std::size_t index) {
    auto const& [start, length] = pieces[index];
    CHECK(start[0] == static_cast<std::byte>(length));
    CHECK(start[length - 1] == static_cast<std::byte>(length));
    ibv().release(context.get(), start, length);
    pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(index));
  };
  for (int round = 0; round < 3; ++round) {
    for (auto const size : sizes)
      for (auto const length : {size, size + 3}) {
        INFO("length " << length);
        auto* const start = static_cast<std::byte*>(ibv().allocate(context.get(), length, {}));
        REQUIRE(start != nullptr);
        CHECK(reinterpret_cast<std::uintptr_t>(start) % 4096 == 0);
        CHECK(start[0] == std::byte{0});
        CHECK(start[length / 2] == std::byte{0});
        CHECK(start[length - 1] == std::byte{0});
        start[0] = start[length - 1] = static_cast<std::byte>(length);
        pieces.push_back({start, length});
      }
    // Every second one goes, so that the next round fills gaps.
    for (std::size_t i = pieces.size(); i-- > 0;)
      if (i % 2 == 0) release(i);
  }

  CHECK(ibv().close_device(context.get()) == EBUSY);
  while (!pieces.empty()) release(pieces.size() - 1);
}

TEST_CASE("an allocation that cannot be is refused", "[soft]") {
  auto const context = open_context();
  CHECK(ibv().allocate(context.get(), 0, {}) == nullptr);
  CHECK(errno == EINVAL);
  CHECK(ibv().allocate(context.get(), SIZE_MAX, {}) == nullptr);
  CHECK(errno == ENOMEM);
}

TEST_CASE("a peer sees new memory at an address where it had mapped old", "[soft]") {
  Link link{Reach::two_contexts, Terms{}};
  constexpr std::size_t length = std::size_t{17} << 20;  // has an arena of its own
  Memory const from{link.a.domain.get(), 64};
  for (int round = 0; round < 5; ++round) {
    Memory const to{link.b.domain.get(), length, all_access, Where::allocated};
    from.write(0, "round " + std::to_string(round));
    REQUIRE(post(link.a, {.opcode = IBV_WR_RDMA_WRITE,
                          .pieces = {from.piece(0, 7)},
                          .remote_address = to.address(length - 7),
                          .remote_key = to.key()}) == 0);
    CHECK(await_one(link.a.sends).status == IBV_WC_SUCCESS);
    CHECK(to.read(length - 7, 7) == "round " + std::to_string(round));
  }
}

TEST_CASE("the device says when it holds no more registrations, and takes one back", "[soft]") {
  auto const context = open_context();
  auto const domain = make_domain(context.get());
  ibv_device_attr limits{};
  REQUIRE(ibv().query_device(context.get(), &limits) == 0);
  std::vector<std::byte> bytes(64);
  std::vector<HeldRegion> regions;
  for (int i = 0; i < limits.max_mr; ++i)
    regions.emplace_back(ibv().reg_mr(domain.get(), bytes.data(), 64, 0));
  REQUIRE(std::all_of(regions.begin(), regions.end(), [](auto const& each) { return !!each; }));

  CHECK(ibv().reg_mr(domain.get(), bytes.data(), 64, 0) == nullptr);
  CHECK(errno == ENOMEM);
  CHECK(ibv().last_reason() != nullptr);
  auto const old_key = regions.back()->lkey;
  regions.pop_back();
  HeldRegion const again{ibv().reg_mr(domain.get(), bytes.data(), 64, 0)};
  REQUIRE(again);
  CHECK(again->lkey != old_key);
}

TEST_CASE("the device says when it holds no more large allocations, and takes one back", "[soft]") {
  constexpr std::size_t large = std::size_t{16} << 20;  // each has a file of its own
  rlimit const before = [] {
    rlimit limit{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
    return limit;
  }();
  if (before.rlim_max < soft::arenas_max + 64) {
    std::printf("skipped: \"large allocations\": this user may open %llu files only\n",
                static_cast<unsigned long long>(before.rlim_max));
    return;
  }
  rlimit const raised{before.rlim_max, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &raised) == 0);
  auto const context = open_context();
  std::vector<void*> made;
  while (auto* const more = ibv().allocate(context.get(), large, {})) made.push_back(more);
  auto const why = errno;
  std::string const reason = ibv().last_reason();

  CHECK(made.size() == soft::arenas_max);
  CHECK(why == ENOMEM);
  CHECK(reason.find(std::to_string(soft::arenas_max)) != std::string::npos);
  ibv().release(context.get(), made.back(), large);
  made.back() = ibv().allocate(context.get(), large, {});
  CHECK(made.back() != nullptr);
  for (auto* const each : made) ibv().release(context.get(), each, large);
  CHECK(::setrlimit(RLIMIT_NOFILE, &before) == 0);
}

TEST_CASE("advice fetches the pages of a region on demand, and of no other", "[soft]") {
  auto const context = open_context();
  auto const domain = make_domain(context.get());
  constexpr std::size_t page = soft::page;
  auto* const pages = ::mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(pages != MAP_FAILED);
  auto const registered = [&](int access) {
    return HeldRegion{ibv().reg_mr(domain.get(), pages, 4 * page, access)};
  };
  auto const on_demand = registered(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
  auto const to_read = registered(IBV_ACCESS_ON_DEMAND);
  auto const pinned = registered(IBV_ACCESS_LOCAL_WRITE);
  REQUIRE((on_demand && to_read && pinned));
  auto const advise = [&](ibv_advise_mr_advice advice, HeldRegion const& region, std::size_t offset,
                          std::uint32_t length, std::uint32_t flags = IBV_ADVISE_MR_FLAG_FLUSH) {
    ibv_sge piece{reinterpret_cast<std::uint64_t>(pages) + offset, length, region->lkey};
    // Through the public inline call, as a program makes it.
    return ::ibv_advise_mr(domain.get(), advice, flags, &piece, 1);
  };
  auto const in_memory = [&] {
    unsigned char each[4] = {};
    REQUIRE(::mincore(pages, 4 * page, each) == 0);
    return std::string{each[0] & 1 ? "x" : "-"} + (each[1] & 1 ? "x" : "-") +
           (each[2] & 1 ? "x" : "-") + (each[3] & 1 ? "x" : "-");
  };

  CHECK(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, on_demand, 0, 4 * page) == 0);
  CHECK(in_memory() == "----");
  CHECK(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, on_demand, page + 7, page) == 0);
  CHECK(in_memory() == "-xx-");
  CHECK(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, to_read, 3 * page, 1) == 0);
  CHECK(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, on_demand, 0, 0) == 0);

  CHECK(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, to_read, 0, 1) == EINVAL);
  CHECK(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, pinned, 0, 1) == EINVAL);
  CHECK(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, on_demand, 3 * page, 2 * page) == EINVAL);
  CHECK(ibv().last_reason() != nullptr);
  CHECK(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, on_demand, 0, 1, 2) == EOPNOTSUPP);
  CHECK(advise(ibv_advise_mr_advice(3), on_demand, 0, 1) == EOPNOTSUPP);
  // Registered once, and not mapped any more.
  REQUIRE(::munmap(pages, 4 * page) == 0);
  CHECK(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, on_demand, 0, 1) == EFAULT);
  CHECK(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, on_demand, 0, 1, 0) == 0);
}
