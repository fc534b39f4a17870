// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: memory of ours that the program unmapped, though it is registered, is our own fault, of
// which the target sees nothing. Method: pages behind a registration go; the copy is between two
// contexts, by cross-memory attach. Where the poster's CPU copies by itself it is a SIGSEGV.
#include <soft/peers/host.hpp>
#include <soft/segment/bounce.hpp>

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "soft/support.hpp"

using namespace lend;
using namespace lend::test;

namespace {

// More than goes by bounce buffers.
auto const block = 8 * static_cast<std::uint32_t>(::sysconf(_SC_PAGESIZE));

/// Three registered blocks, of which the last two are not there any more.
class Vanished {
 public:
  explicit Vanished(ibv_pd* domain)
      : bytes_{::mmap(nullptr, 3 * block, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                      0)} {
    REQUIRE(bytes_ != MAP_FAILED);
    region_.reset(ibv().reg_mr(domain, bytes_, 3 * block, all_access));
    REQUIRE(region_);
    // In its place nothing else is mapped meanwhile.
    auto* const gone = static_cast<std::byte*>(bytes_) + block;
    REQUIRE(::mmap(gone, 2 * block, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
            gone);
  }
  ~Vanished() {
    region_.reset();
    ::munmap(bytes_, 3 * block);
  }
  Vanished(Vanished const&) = delete;
  Vanished& operator=(Vanished const&) = delete;
  [[nodiscard]] ibv_sge piece(std::size_t offset, std::uint32_t length) const {
    return {reinterpret_cast<std::uint64_t>(bytes_) + offset, length, region_->lkey};
  }

 private:
  void* bytes_;
  HeldRegion region_;
};

bool can_attach() {
  if (!soft::cross_memory().possible()) WARN("skipped: " << soft::cross_memory().obstacle);
  return soft::cross_memory().possible();
}

}  // namespace

TEST_CASE("memory of ours that vanished is a local protection error and the target sees nothing",
          "[soft]") {
  if (!can_attach()) return;
  auto const opcode =
      GENERATE(IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ);
  // At its start, in its middle, and in the second of two pieces.
  auto const shape = GENERATE(0, 1, 2);
  CAPTURE(static_cast<int>(opcode), shape);
  Link link{Reach::two_contexts, Terms{}};
  Memory const to{link.b.domain.get(), 4 * block};
  Vanished const ours{link.a.domain.get()};
  REQUIRE(post_receive(link.b, 5, {to.piece(0, 4 * block)}) == 0);
  std::vector<ibv_sge> pieces;
  if (shape == 0) pieces = {ours.piece(block, block)};
  if (shape == 1) pieces = {ours.piece(block / 2, block)};
  if (shape == 2) pieces = {ours.piece(0, block), ours.piece(2 * block, 64)};

  REQUIRE(post(link.a, {.opcode = opcode,
                        .pieces = pieces,
                        .remote_address = to.address(),
                        .remote_key = to.key()}) == 0);

  auto const end = await_one(link.a.sends);
  CHECK(end.status == IBV_WC_LOC_PROT_ERR);
  CHECK(end.vendor_err == 1);
  CHECK(state_of(link.a.qp.get()) == IBV_QPS_ERR);
  CHECK(state_of(link.b.qp.get()) == IBV_QPS_RTS);
  CHECK(poll(link.b.receives).empty());
}

TEST_CASE("memory of ours that vanished costs a shared queue the receive that was taken, and tells",
          "[soft]") {
  if (!can_attach()) return;
  auto const first = open_context();
  auto const second = open_context();
  End const a{first.get()};
  auto const domain = make_domain(second.get());
  auto const queue = make_queue(second.get());
  Memory const to{domain.get(), block};
  Vanished const ours{a.domain.get()};
  ibv_srq_init_attr pool_asked{nullptr, {4, 1, 0}};
  auto* const pool = ibv().create_srq(domain.get(), &pool_asked);
  REQUIRE(pool != nullptr);
  {
    ibv_qp_init_attr asked{};
    asked.send_cq = asked.recv_cq = queue.get();
    asked.srq = pool;
    asked.qp_type = IBV_QPT_RC;
    asked.cap = {4, 0, 1, 0, 0};
    HeldQueuePair const b{ibv().create_qp(domain.get(), &asked)};
    REQUIRE(b);
    bring_to(a.qp.get(), IBV_QPS_RTS, b->qp_num);
    bring_to(b.get(), IBV_QPS_RTS, a.qp->qp_num);
    auto piece = to.piece(0, block);
    ibv_recv_wr wr{};
    wr.wr_id = 5;
    wr.sg_list = &piece;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    REQUIRE(ibv_post_srq_recv(pool, &wr, &bad) == 0);

    REQUIRE(post(a, {.pieces = {ours.piece(block, block)}}) == 0);

    CHECK(await_one(a.sends).status == IBV_WC_LOC_PROT_ERR);
    auto const end = await_one(queue);
    CHECK(end.status == IBV_WC_REM_ABORT_ERR);
    CHECK(end.wr_id == 5);
    CHECK(state_of(b.get()) == IBV_QPS_RTS);
  }
  CHECK(ibv().destroy_srq(pool) == 0);
}

TEST_CASE("memory that vanished at the target is no fault of ours", "[soft]") {
  if (!can_attach()) return;
  auto const opcode = GENERATE(IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ);
  Link link{Reach::two_contexts, Terms{}};
  Memory const from{link.a.domain.get(), 2 * block};
  Vanished const theirs{link.b.domain.get()};
  auto const place = theirs.piece(block / 2, block);

  REQUIRE(post(link.a, {.opcode = opcode,
                        .pieces = {from.piece(0, 64), from.piece(64, block - 64)},
                        .remote_address = place.addr,
                        .remote_key = place.lkey}) == 0);

  CHECK(await_one(link.a.sends).status == IBV_WC_REM_OP_ERR);
  CHECK(state_of(link.b.qp.get()) == IBV_QPS_ERR);
}

TEST_CASE("few bytes into memory that vanished are a success there, and SIGSEGV of whoever polls",
          "[soft]") {
  auto const reach = GENERATE(Reach::one_context, Reach::two_contexts);
  auto const length = reach == Reach::one_context ? 32u : GENERATE(32u, soft::eager_bytes_max);
  constexpr int sent = 42;
  int says[2];
  REQUIRE(::pipe(says) == 0);
  auto const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::signal(SIGSEGV, SIG_DFL);
    Link link{reach, Terms{}};
    Memory const from{link.a.domain.get(), block};
    Vanished const theirs{link.b.domain.get()};
    // What travels in the completion, or by the eager ring.
    REQUIRE(post_receive(link.b, 5, {theirs.piece(block, length)}) == 0);
    REQUIRE(post(link.a, {.pieces = {from.piece(0, length)}}) == 0);
    auto const status =
        static_cast<char>(await_one(link.a.sends).status == IBV_WC_SUCCESS ? sent : 0);
    static_cast<void>(!::write(says[1], &status, 1));
    static_cast<void>(poll(link.b.receives));
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  ::close(says[1]);
  char said = 0;
  CHECK(::read(says[0], &said, 1) == 1);
  ::close(says[0]);
  CHECK(said == sent);
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGSEGV);
}

TEST_CASE("memory of ours that vanished breaks the sends of an unreliable connection", "[soft]") {
  if (!can_attach()) return;
  Link link{Reach::two_contexts, Terms{}, Terms{}, {.type = IBV_QPT_UC}};
  Memory const to{link.b.domain.get(), block};
  Vanished const ours{link.a.domain.get()};
  REQUIRE(post_receive(link.b, 5, {to.piece(0, block)}) == 0);

  REQUIRE(post(link.a, {.pieces = {ours.piece(block, 64)}}) == 0);

  CHECK(await_one(link.a.sends).status == IBV_WC_LOC_PROT_ERR);
  CHECK(state_of(link.a.qp.get()) == IBV_QPS_SQE);
  CHECK(state_of(link.b.qp.get()) == IBV_QPS_RTS);
  CHECK(poll(link.b.receives).empty());
}
