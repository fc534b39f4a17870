// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: bytes that are shown can be read by peers of their domain, and only until they are hidden;
// no others can. Method: raw verbs; the test takes the lock of the queue pair as the peer.
#include "soft/forbid.hpp"
#include "soft/support.hpp"

#include <soft/objects/context.hpp>
#include <soft/objects/queue_pair.hpp>

#include <sys/syscall.h>

#include <cerrno>
#include <chrono>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

/// At b, in the middle of 64 allocated bytes; a reads them.
struct Showing : Link {
  explicit Showing(Terms const& of_b = {}) : Link{Reach::two_contexts, Terms{}, of_b} {
    REQUIRE(shown != nullptr);
    to.write(0, "before, shown, behind");
  }

  int show(std::size_t offset = 8, std::size_t length = 5) {
    return ibv().show(shown.get(), to.at(offset), length);
  }
  std::future<int> hide_beside() {
    return std::async(std::launch::async, [this] { return ibv().hide(shown.get()); });
  }
  ibv_wc_status access(std::size_t offset, std::uint32_t length,
                       ibv_wr_opcode opcode = IBV_WR_RDMA_READ) {
    return access(offset, length, shown->rkey, opcode);
  }
  ibv_wc_status access(std::size_t offset, std::uint32_t length, std::uint32_t key,
                       ibv_wr_opcode opcode = IBV_WR_RDMA_READ) {
    REQUIRE(post(a, {.opcode = opcode,
                     .pieces = {from.piece(0, length)},
                     .remote_address = to.address(offset),
                     .remote_key = key}) == 0);
    return await_one(a.sends).status;
  }

  Memory from{a.domain.get(), 64};
  Memory to{b.domain.get(), 64, IBV_ACCESS_LOCAL_WRITE, Where::allocated};
  HeldRegion shown{ibv().reg_shown(b.domain.get())};
};

/// A peer in the middle of a read at a queue pair.
class Reading {
 public:
  Reading(Showing const& bytes, ibv_qp* at, std::optional<std::uint32_t> key = {})
      : at_{*static_cast<soft::QueuePair*>(at)->shared} {
    at_.rx.lock(soft::Context::of(bytes.first.get()).claimant);
    at_.remote_key.store(key.value_or(bytes.shown->rkey));
  }
  Reading(Reading const&) = delete;
  Reading& operator=(Reading const&) = delete;
  ~Reading() {
    at_.remote_key.store(0);
    at_.rx.unlock();
  }

 private:
  soft::SharedQueuePair& at_;
};

}  // namespace

TEST_CASE("bytes that are shown are read by a key that is good for nothing else", "[soft]") {
  Showing bytes;
  REQUIRE(bytes.shown);
  auto const none = bytes.shown->rkey;
  REQUIRE(bytes.show() == 0);
  auto const key = bytes.shown->rkey;
  CHECK(key != none);
  CHECK(key != bytes.to.key());
  CHECK(bytes.access(8, 5) == IBV_WC_SUCCESS);
  CHECK(bytes.from.read(0, 5) == "shown");

  SECTION("not of bytes before") {
    CHECK(bytes.access(7, 5) == IBV_WC_REM_ACCESS_ERR);
  }
  SECTION("not of bytes behind") {
    CHECK(bytes.access(9, 5) == IBV_WC_REM_ACCESS_ERR);
  }
  SECTION("not to be written") {
    CHECK(bytes.access(8, 5, IBV_WR_RDMA_WRITE) == IBV_WC_REM_ACCESS_ERR);
  }
  SECTION("not once they are hidden") {
    CHECK(ibv().hide(bytes.shown.get()) == 0);
    CHECK(bytes.access(8, 5) == IBV_WC_REM_ACCESS_ERR);
  }
  SECTION("not once they are shown again") {
    CHECK(ibv().hide(bytes.shown.get()) == 0);
    REQUIRE(bytes.show() == 0);
    CHECK(bytes.access(8, 5) == IBV_WC_SUCCESS);
    CHECK(bytes.access(8, 5, key) == IBV_WC_REM_ACCESS_ERR);
  }
  SECTION("nor by the key of before") {
    CHECK(bytes.access(8, 5, none) == IBV_WC_REM_ACCESS_ERR);
  }
  SECTION("nor by a queue pair of another domain") {
    auto const other = make_domain(bytes.second.get());
    HeldRegion const elsewhere{ibv().reg_shown(other.get())};
    REQUIRE(ibv().show(elsewhere.get(), bytes.to.at(8), 5) == 0);
    CHECK(bytes.access(8, 5, elsewhere->rkey) == IBV_WC_REM_ACCESS_ERR);
  }
}

TEST_CASE("memory that peers do not map is not shown", "[soft]") {
  Showing bytes;
  CHECK(ibv().show(bytes.shown.get(), bytes.from.at(0), 8) == EOPNOTSUPP);
  std::byte const own[8]{};
  CHECK(ibv().show(bytes.shown.get(), own, sizeof own) == EOPNOTSUPP);
}

TEST_CASE("bytes are not hidden while a peer reads them", "[soft]") {
  Showing bytes;
  REQUIRE(bytes.show() == 0);
  auto hidden = [&] {
    Reading const reading{bytes, bytes.b.qp.get()};
    auto end = bytes.hide_beside();
    CHECK(end.wait_for(20ms) == std::future_status::timeout);
    return end;
  }();
  CHECK(hidden.get() == 0);
}

TEST_CASE("a peer that never ends its read is awaited once", "[soft]") {
  Showing bytes;
  REQUIRE(bytes.show() == 0);
  {
    Reading const reading{bytes, bytes.b.qp.get()};
    CHECK(ibv().hide(bytes.shown.get()) == EBUSY);
    auto const before = std::chrono::steady_clock::now();
    CHECK(ibv().hide(bytes.shown.get()) == EBUSY);
    CHECK(ibv().dereg_mr(bytes.shown.get()) == EBUSY);
    CHECK(std::chrono::steady_clock::now() - before < 2s);  // of one wait
  }
  CHECK(ibv().hide(bytes.shown.get()) == 0);
}

TEST_CASE("the end of what is shown leaves other work as it is", "[soft]") {
  Terms of_b;
  of_b.rnr_retries = 7;
  of_b.rnr_timer = 14;  // 1.28 ms
  Showing bytes{of_b};
  REQUIRE(bytes.show() == 0);

  SECTION("a message that is offered comes when its receive is posted, its sender idle") {
    REQUIRE(post(bytes.b, {.pieces = {bytes.to.piece(0, 8)}}) == 0);
    CHECK(ibv().hide(bytes.shown.get()) == 0);
    REQUIRE(post_receive(bytes.a, 2, {bytes.from.piece(0, 8)}) == 0);
    CHECK(poll(bytes.a.receives).size() == 1);
    CHECK(await_one(bytes.b.sends).status == IBV_WC_SUCCESS);
  }
  SECTION("a thread that sends is not awaited") {
    auto hidden = [&] {
      std::lock_guard const sends{static_cast<soft::QueuePair*>(bytes.b.qp.get())->send_lock};
      auto end = bytes.hide_beside();
      CHECK(end.wait_for(10s) == std::future_status::ready);
      return end;
    }();
    CHECK(hidden.get() == 0);
  }
  SECTION("nor is a peer that uses another key") {
    Reading const reading{bytes, bytes.b.qp.get(), bytes.to.key()};
    CHECK(ibv().hide(bytes.shown.get()) == 0);
  }
  SECTION("nor is one of another domain") {
    End const other{bytes.second.get()};
    Reading const reading{bytes, other.qp.get()};
    CHECK(ibv().hide(bytes.shown.get()) == 0);
  }
}

TEST_CASE("where nobody can tell who reads, no bytes are shown", "[soft]") {
  bool can_forbid = false, are_refused = false;
  std::thread{[&] {
    Link const link{Reach::two_contexts, Terms{}};
    can_forbid = forbid({SYS_membarrier});
    errno = 0;
    HeldRegion const shown{ibv().reg_shown(link.b.domain.get())};
    are_refused = shown == nullptr && errno == EOPNOTSUPP;
  }}.join();
  if (!can_forbid) {
    WARN("skipped: the kernel lets no call be forbidden");
    return;
  }
  CHECK(are_refused);
}
