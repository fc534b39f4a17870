// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: nobody sleeps beside what it should know because who did it had no descriptor to wake it
// by, or no thread to try again. Method: raw verbs within one process, which can open no more
// files, or make no more threads, for a while.
#include <lend/soft/faults.hpp>
#include <soft/objects/context.hpp>
#include <soft/objects/queue_pair.hpp>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "support.hpp"
#include "support/few_descriptors.hpp"

using namespace lend;
using namespace lend::test;

namespace {

bool is_readable(int file) {
  pollfd wait{file, POLLIN, 0};
  return ::poll(&wait, 1, 0) == 1;
}

/// From now on the calling thread can make no other. False where the kernel has no such filter.
bool forbid_threads() {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog const filter{static_cast<unsigned short>(std::size(code)), code};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

/// An end whose queues each have a channel.
struct ArmedEnd {
  explicit ArmedEnd(ibv_context* context, Depths const& depths = {})
      : of_sends{make_channel(context)}, of_receives{make_channel(context)}, end{context, depths} {
    end.qp.reset();
    end.sends = make_queue(context, 16, of_sends.get());
    end.receives = make_queue(context, 16, of_receives.get());
    end.qp = make_queue_pair(end.domain.get(), end.sends.get(), end.receives.get(), depths);
  }
  void arm() {
    REQUIRE(ibv_req_notify_cq(end.sends.get(), 0) == 0);
    REQUIRE(ibv_req_notify_cq(end.receives.get(), 0) == 0);
  }
  HeldChannel of_sends;
  HeldChannel of_receives;
  End end;
};

}  // namespace

TEST_CASE("who could connect with few descriptors can wake the peer for everything", "[soft]") {
  auto const near = open_context();
  auto const far = open_context();
  End const a{near.get()};
  ArmedEnd b{far.get()};
  auto const& other = b.end;
  Memory const bytes{a.domain.get(), 8};
  bring_to(a.qp.get(), IBV_QPS_INIT, 0);
  bring_to(other.qp.get(), IBV_QPS_RTS, a.qp->qp_num);
  b.arm();
  unsigned needed = 0;
  for (int error = EMFILE; error != 0; ++needed) {
    REQUIRE(needed < 20);
    FewDescriptors const few{needed};
    auto attributes = attributes_for(other.qp->qp_num);
    error = move(a.qp.get(), IBV_QPS_RTR, attributes, rtr_mask);
    if (error != 0) continue;
    REQUIRE(move(a.qp.get(), IBV_QPS_RTS, attributes, rts_mask) == 0);
    REQUIRE(post(a, {.opcode = IBV_WR_RDMA_WRITE, .pieces = {bytes.piece(0, 8)}}) == 0);
  }

  CHECK(needed > 3);
  CHECK(await_one(a.sends).status == IBV_WC_REM_ACCESS_ERR);
  CHECK(is_readable(b.of_sends->fd));
  CHECK(is_readable(b.of_receives->fd));
  CHECK(is_readable(far->async_fd));
}

TEST_CASE("a process wakes all that it is connected to, however many channels they have",
          "[soft]") {
  constexpr std::size_t count = 20;
  auto const near = open_context();
  auto const far = open_context();
  std::vector<std::unique_ptr<End>> senders;
  std::vector<std::unique_ptr<ArmedEnd>> sleepers;
  for (std::size_t i = 0; i < count; ++i) {
    auto const& a = *senders.emplace_back(std::make_unique<End>(near.get()));
    auto& b = *sleepers.emplace_back(std::make_unique<ArmedEnd>(far.get()));
    bring_to(a.qp.get(), IBV_QPS_RTS, b.end.qp->qp_num);
    bring_to(b.end.qp.get(), IBV_QPS_RTS, a.qp->qp_num);
    REQUIRE(post_receive(b.end, 1) == 0);
    b.arm();
  }
  {
    FewDescriptors const none;
    for (auto const& sender : senders) REQUIRE(post(*sender, {}) == 0);
  }
  for (auto const& sleeper : sleepers) CHECK(is_readable(sleeper->of_receives->fd));
  for (auto const& sender : senders) CHECK(await_one(sender->sends).status == IBV_WC_SUCCESS);
}

TEST_CASE("a datagram whose receiver cannot be woken is lost, and the receive stays", "[soft]") {
  auto const near = open_context();
  auto const far = open_context();
  Depths const depths{.type = IBV_QPT_UD};
  End const a{near.get(), depths};
  ArmedEnd b{far.get(), depths};
  bring_to(a.qp.get(), IBV_QPS_RTS, 0);
  bring_to(b.end.qp.get(), IBV_QPS_RTS, 0);
  auto const address = make_address(a.domain.get());
  Memory const to{b.end.domain.get(), 64};
  auto const send = [&] {
    REQUIRE(post(a, {.address = address.get(), .peer = b.end.qp->qp_num}) == 0);
  };
  REQUIRE(post_receive(b.end, 1, {to.piece(0, 64)}) == 0);
  send();  // so that they know each other
  CHECK(await_one(b.end.receives).wr_id == 1);
  auto const [key, status] =
      GENERATE(std::pair{true, IBV_WC_SUCCESS}, std::pair{false, IBV_WC_LOC_PROT_ERR});
  auto piece = to.piece(0, 64);
  if (!key) piece.lkey ^= 1;
  REQUIRE(post_receive(b.end, 2, {piece}) == 0);
  b.arm();
  {
    FewDescriptors const none;
    send();
  }
  CHECK_FALSE(is_readable(b.of_receives->fd));
  CHECK(poll(b.end.receives).empty());
  CHECK(state_of(b.end.qp.get()) == IBV_QPS_RTS);

  send();

  CHECK(is_readable(b.of_receives->fd));
  auto const end = await_one(b.end.receives);
  CHECK(end.wr_id == 2);
  CHECK(end.status == status);
  CHECK(state_of(b.end.qp.get()) == (key ? IBV_QPS_RTS : IBV_QPS_ERR));
  CHECK(await(a.sends, 3).size() == 3);
}

TEST_CASE("work that would wait with nobody to try it again ends as if its time were over",
          "[soft]") {
  auto const near = open_context();
  auto const far = open_context();
  ArmedEnd a{near.get()};
  End const b{far.get()};
  bring_to(a.end.qp.get(), IBV_QPS_RTS, b.qp->qp_num, {.rnr_retries = 7});
  bring_to(b.qp.get(), IBV_QPS_RTS, a.end.qp->qp_num);
  a.arm();
  bool can_forbid = false;
  int error = 0;
  std::thread{[&] {
    can_forbid = forbid_threads();
    if (can_forbid) error = post(a.end, {});
  }}.join();
  if (!can_forbid) {
    WARN("skipped: the kernel lets no thread be forbidden to make others");
    return;
  }

  CHECK(error == 0);
  CHECK(is_readable(a.of_sends->fd));
  CHECK(await_one(a.end.sends).status == IBV_WC_RNR_RETRY_EXC_ERR);
}

namespace {

/// Asks for an event where no thread can be made, which must be refused, and then does `next`
/// there. False where no thread can be forbidden to make others.
bool is_refused_and_goes_on(ArmedEnd const& a, std::function<int()> const& next) {
  bool can_forbid = false;
  int refusal = 0;
  int error = 0;
  std::thread{[&] {
    can_forbid = forbid_threads();
    if (!can_forbid) return;
    refusal = ibv_req_notify_cq(a.end.sends.get(), 0);
    error = next();
  }}.join();
  if (!can_forbid) {
    WARN("skipped: the kernel lets no thread be forbidden to make others");
    return false;
  }
  CHECK(refusal == EAGAIN);
  CHECK(error == 0);
  return true;
}

}  // namespace

TEST_CASE("who is refused an event for want of a thread polls, and work waits for it again",
          "[soft]") {
  auto const near = open_context();
  auto const far = open_context();
  ArmedEnd a{near.get()};
  End const b{far.get()};
  End other{near.get()};
  End const peer{far.get()};
  for (auto const& [from, to] : {std::pair{&a.end, &b}, std::pair{&other, &peer}}) {
    bring_to(from->qp.get(), IBV_QPS_RTS, to->qp->qp_num, {.rnr_retries = 7});
    bring_to(to->qp.get(), IBV_QPS_RTS, from->qp->qp_num);
  }
  REQUIRE(post(a.end, {.id = 1}) == 0);
  if (!is_refused_and_goes_on(a, [&] { return post(other, {.id = 2}); })) return;

  CHECK(await(other.sends, 0).empty());
  for (auto const* const to : {&b, &peer}) REQUIRE(post_receive(*to, 3) == 0);
  CHECK(await_one(a.end.sends).status == IBV_WC_SUCCESS);
  CHECK(await_one(other.sends).status == IBV_WC_SUCCESS);
}

TEST_CASE("in SQD work is taken even where nobody can look after what had started", "[soft]") {
  auto const near = open_context();
  auto const far = open_context();
  ArmedEnd a{near.get()};
  End const b{far.get()};
  ibv_qp_init_attr_ex asked{};
  asked.send_cq = a.end.sends.get();
  asked.recv_cq = a.end.receives.get();
  asked.qp_type = IBV_QPT_RC;
  asked.cap = {8, 8, 2, 2, 0};
  asked.pd = a.end.domain.get();
  asked.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  asked.send_ops_flags = IBV_QP_EX_WITH_SEND;
  a.end.qp.reset(ibv_create_qp_ex(near.get(), &asked));
  REQUIRE(a.end.qp);
  bring_to(a.end.qp.get(), IBV_QPS_RTS, b.qp->qp_num);
  bring_to(b.qp.get(), IBV_QPS_RTS, a.end.qp->qp_num);
  for (std::uint64_t id = 1; id <= 2; ++id) REQUIRE(post_receive(b, id) == 0);
  soft::Context::of(near.get())
      .faults.plan(FaultPlan{}.delay(1, std::chrono::milliseconds{1}).faults());
  REQUIRE(post(a.end, {.id = 1}) == 0);
  REQUIRE(move(a.end.qp.get(), IBV_QPS_SQD, {}, IBV_QP_STATE) == 0);
  auto const build = [&] {
    auto* const builder = ibv().qp_to_qp_ex(a.end.qp.get());
    ibv_wr_start(builder);
    builder->wr_id = 2;
    builder->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(builder);
    return ibv_wr_complete(builder);
  };
  if (!is_refused_and_goes_on(a, build)) return;

  CHECK(await_one(a.end.sends).wr_id == 1);
  CHECK(await(a.end.sends, 0).empty());
  REQUIRE(move(a.end.qp.get(), IBV_QPS_RTS, {}, IBV_QP_STATE) == 0);
  CHECK(await_one(a.end.sends).wr_id == 2);
}

TEST_CASE("a drain whose event nobody could look after is refused, and changes nothing", "[soft]") {
  auto const near = open_context();
  auto const far = open_context();
  ArmedEnd const a{near.get()};
  End const b{far.get()};
  bring_to(a.end.qp.get(), IBV_QPS_RTS, b.qp->qp_num);
  bring_to(b.qp.get(), IBV_QPS_RTS, a.end.qp->qp_num);
  ibv_qp_attr asking{};
  asking.en_sqd_async_notify = 1;
  bool can_forbid = false;
  int refusal = 0;
  std::thread{[&] {
    can_forbid = forbid_threads();
    if (can_forbid)
      refusal =
          move(a.end.qp.get(), IBV_QPS_SQD, asking, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
  }}.join();
  if (!can_forbid) {
    WARN("skipped: the kernel lets no thread be forbidden to make others");
    return;
  }

  CHECK(refusal == EAGAIN);
  CHECK(state_of(a.end.qp.get()) == IBV_QPS_RTS);
  CHECK_FALSE(soft::Context::of(near.get()).stalled.any());
  CHECK_FALSE(is_readable(near->async_fd));
  REQUIRE(move(a.end.qp.get(), IBV_QPS_SQD, {}, IBV_QP_STATE) == 0);
  CHECK_FALSE(is_readable(near->async_fd));
}

TEST_CASE("receives whose flush a peer delays wake a sleeper at once if no thread looks after them",
          "[soft]") {
  auto const near = open_context();
  auto const far = open_context();
  End const a{near.get()};
  ArmedEnd b{far.get()};
  bring_to(a.qp.get(), IBV_QPS_RTS, b.end.qp->qp_num);
  bring_to(b.end.qp.get(), IBV_QPS_RTS, a.qp->qp_num);
  REQUIRE(post_receive(b.end, 1) == 0);
  b.arm();
  auto& rx = static_cast<soft::QueuePair*>(b.end.qp.get())->shared->rx;
  rx.lock(soft::Context::of(near.get()).claimant);
  bool can_forbid = false;
  int error = 0;
  int refusal = 0;
  std::thread{[&] {
    can_forbid = forbid_threads();
    if (!can_forbid) return;
    error = move(b.end.qp.get(), IBV_QPS_ERR, {}, IBV_QP_STATE);
    refusal = ibv_req_notify_cq(b.end.receives.get(), 0);
  }}.join();
  if (can_forbid) {
    CHECK(error == 0);
    CHECK(is_readable(b.of_receives->fd));
    CHECK(refusal == EAGAIN);
  } else {
    WARN("skipped: the kernel lets no thread be forbidden to make others");
  }
  rx.unlock();
  if (can_forbid) CHECK(await_one(b.end.receives).status == IBV_WC_WR_FLUSH_ERR);
}
