// SPDX-License-Identifier: MIT OR Apache-2.0
// What the soft device takes from the process and gives back; who may not use it.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <soft/device/provider.hpp>
#include <verbs/device/provider.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "rendezvous.hpp"

namespace {

using lend::test::Holdings;
using lend::test::Rendezvous;
using lend::verbs::Provider;
Provider const& calls = lend::soft::provider();

ibv_context* open_soft() {
  int count = 0;
  auto** const list = calls.get_device_list(&count);
  REQUIRE(list != nullptr);
  REQUIRE(count == 1);
  CHECK(std::string{list[0]->name} == "soft0");
  auto* const context = calls.open_device(list[0]);
  calls.free_device_list(list);
  REQUIRE(context != nullptr);
  return context;
}

ibv_qp* make_queue_pair(ibv_pd* pd, ibv_cq* cq) {
  ibv_qp_init_attr wish{};
  wish.send_cq = cq;
  wish.recv_cq = cq;
  wish.qp_type = IBV_QPT_RC;
  wish.cap = {128, 128, 4, 4, 0};
  auto* const qp = calls.create_qp(pd, &wish);
  REQUIRE(qp != nullptr);
  CHECK(wish.cap.max_inline_data >= 64);
  return qp;
}

ibv_qp_attr address_of(ibv_context* context, std::uint32_t number) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = IBV_MTU_4096;
  attributes.dest_qp_num = number;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = 12;
  attributes.ah_attr.port_num = 1;
  attributes.ah_attr.is_global = 1;
  REQUIRE(calls.query_gid(context, 1, 0, &attributes.ah_attr.grh.dgid) == 0);
  return attributes;
}
constexpr int address_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

void initialise(ibv_qp* qp) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = 1;
  REQUIRE(calls.modify_qp(qp, &attributes,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
          0);
}

/// Everything once, connected to itself over a second context.
void use_everything() {
  auto* const first = open_soft();
  auto* const second = open_soft();
  auto* const pd = calls.alloc_pd(first);
  auto* const other_pd = calls.alloc_pd(second);
  auto* const cq = calls.create_cq(first, 256, nullptr, nullptr, 0);
  auto* const other_cq = calls.create_cq(second, 256, nullptr, nullptr, 0);
  REQUIRE(pd != nullptr);
  REQUIRE(cq != nullptr);
  auto* const qp = make_queue_pair(pd, cq);
  auto* const other_qp = make_queue_pair(other_pd, other_cq);
  initialise(qp);
  auto attributes = address_of(first, other_qp->qp_num);
  REQUIRE(calls.modify_qp(qp, &attributes, address_mask) == 0);
  for (std::size_t const length : {std::size_t{100}, std::size_t{32} << 20}) {
    auto* const memory = static_cast<char*>(calls.allocate(first, length, {}));
    REQUIRE(memory != nullptr);
    CHECK(reinterpret_cast<std::uintptr_t>(memory) % 4096 == 0);
    memory[0] = memory[length - 1] = 1;
    auto* const mr = calls.reg_mr(pd, memory, length, IBV_ACCESS_LOCAL_WRITE);
    REQUIRE(mr != nullptr);

    CHECK(calls.dealloc_pd(pd) == EBUSY);
    CHECK(calls.destroy_cq(cq) == EBUSY);
    CHECK(calls.close_device(first) == EBUSY);
    CHECK(calls.last_reason() != nullptr);

    CHECK(calls.dereg_mr(mr) == 0);
    calls.release(first, memory, length);
  }
  CHECK(calls.destroy_qp(qp) == 0);
  CHECK(calls.destroy_qp(other_qp) == 0);
  CHECK(calls.destroy_cq(cq) == 0);
  CHECK(calls.destroy_cq(other_cq) == 0);
  CHECK(calls.dealloc_pd(pd) == 0);
  CHECK(calls.dealloc_pd(other_pd) == 0);
  CHECK(calls.close_device(first) == 0);
  CHECK(calls.close_device(second) == 0);
}

/// From now on this process is refused MADV_WIPEONFORK, as by Linux before 4.14. False
/// where the kernel has no such filter.
bool forbid_wiping() {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MADV_WIPEONFORK, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog const filter{static_cast<unsigned short>(std::size(code)), code};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

/// Runs `body` in a child; true when it returned true.
template <class Body>
bool holds_in_child(Body body) {
  auto const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(body() ? 0 : 1);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status == 0;
}

}  // namespace

TEST_CASE("a closed device leaves no descriptor, mapping or slot", "[soft]") {
  Rendezvous const rendezvous;
  use_everything();  // what stays for the process's life is made here
  auto const before = Holdings::now();
  REQUIRE(before.memory_files == 0);

  for (int i = 0; i < 20; ++i) use_everything();

  CHECK(Holdings::now() == before);
  CHECK(rendezvous.slot_files() == 0);
}

TEST_CASE("a device that cannot be opened leaves nothing behind and says why", "[soft]") {
  Rendezvous const rendezvous;
  auto const before = Holdings::now();
  ::setenv("LEND_SOFT_DIRECTORY", "/proc/no/such/place", 1);
  int count = 0;
  auto** const list = calls.get_device_list(&count);

  CHECK(calls.open_device(list[0]) == nullptr);

  CHECK(errno != 0);
  REQUIRE(calls.last_reason() != nullptr);
  CHECK(std::string{calls.last_reason()}.find("LEND_SOFT_DIRECTORY") != std::string::npos);
  calls.free_device_list(list);
  CHECK(Holdings::now() == before);
}

TEST_CASE("without a page that forked children find wiped no device opens, and says so", "[soft]") {
  Rendezvous const rendezvous;
  // The page is made once a process, so another process, started afresh, must ask for it.
  if (std::getenv("LEND_TEST_WITHOUT_WIPING") == nullptr) {
    // Its output is ours: that may say that it was skipped.
    CHECK(std::system("LEND_TEST_WITHOUT_WIPING=1 /proc/$PPID/exe 'without a page*'") == 0);
    return;
  }
  if (!forbid_wiping()) {
    WARN("skipped: the kernel lets no call be forbidden");
    return;
  }
  auto const before = Holdings::now();
  auto** const list = calls.get_device_list(nullptr);

  CHECK(calls.open_device(list[0]) == nullptr);

  CHECK(errno == ENOMEM);
  REQUIRE(calls.last_reason() != nullptr);
  CHECK(std::string{calls.last_reason()}.find("MADV_WIPEONFORK") != std::string::npos);
  calls.free_device_list(list);
  CHECK(Holdings::now() == before);
}

TEST_CASE("what was freed reads as zeros when it is allocated again", "[soft]") {
  Rendezvous const rendezvous;
  auto* const context = open_soft();
  auto* const memory = static_cast<char*>(calls.allocate(context, 10'000, {}));
  std::memset(memory, 7, 10'000);
  calls.release(context, memory, 10'000);

  auto* const again = static_cast<char*>(calls.allocate(context, 10'000, {}));

  CHECK(std::string(again, 10'000) == std::string(10'000, '\0'));
  calls.release(context, again, 10'000);
  CHECK(calls.close_device(context) == 0);
}

TEST_CASE("in a forked child the device is dead, and the parent's goes on", "[soft]") {
  Rendezvous const rendezvous;
  auto* const context = open_soft();
  auto* const pd = calls.alloc_pd(context);
  auto* const cq = calls.create_cq(context, 16, nullptr, nullptr, 0);
  auto* const qp = make_queue_pair(pd, cq);
  initialise(qp);

  CHECK(holds_in_child([&] {
    ibv_wc wc{};
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    bool const is_dead = ibv_poll_cq(cq, 1, &wc) < 0 && ibv_post_recv(qp, &wr, &bad) == ENODEV &&
                         calls.alloc_pd(context) == nullptr && errno == ENODEV &&
                         calls.modify_qp(qp, &attributes, IBV_QP_STATE) == ENODEV &&
                         std::string{calls.last_reason()}.find("fork") != std::string::npos;
    // Destroying touches nothing of the parent's.
    bool const is_harmless = calls.destroy_qp(qp) == 0 && calls.destroy_cq(cq) == 0 &&
                             calls.dealloc_pd(pd) == 0 && calls.close_device(context) == 0;
    // It can open its own, which does not revive the other.
    auto* const own = open_soft();
    return is_dead && is_harmless && calls.alloc_pd(own) != nullptr &&
           calls.alloc_pd(context) == nullptr;
  }));

  ibv_recv_wr wr{};
  ibv_recv_wr* bad = nullptr;
  CHECK(ibv_post_recv(qp, &wr, &bad) == 0);
  CHECK(rendezvous.slot_files() > 0);
  CHECK(calls.destroy_qp(qp) == 0);
  CHECK(calls.destroy_cq(cq) == 0);
  CHECK(calls.dealloc_pd(pd) == 0);
  CHECK(calls.close_device(context) == 0);
}

TEST_CASE("an endpoint of another host, or of nobody, is unreachable and the reason says so",
          "[soft]") {
  Rendezvous const rendezvous;
  auto* const context = open_soft();
  auto* const pd = calls.alloc_pd(context);
  auto* const cq = calls.create_cq(context, 16, nullptr, nullptr, 0);
  auto* const qp = make_queue_pair(pd, cq);
  initialise(qp);

  auto foreign = address_of(context, qp->qp_num);
  foreign.ah_attr.grh.dgid.raw[15] ^= 1;
  CHECK(calls.modify_qp(qp, &foreign, address_mask) == ENETUNREACH);
  CHECK(std::string{calls.last_reason()}.find("GID") != std::string::npos);

  auto nobody = address_of(context, 4000u << 12);
  CHECK(calls.modify_qp(qp, &nobody, address_mask) == ENETUNREACH);
  CHECK(std::string{calls.last_reason()}.find("slot 4000") != std::string::npos);

  // Still in INIT: the right address is taken.
  auto self = address_of(context, qp->qp_num);
  CHECK(calls.modify_qp(qp, &self, address_mask) == 0);
  CHECK(calls.destroy_qp(qp) == 0);
  CHECK(calls.destroy_cq(cq) == 0);
  CHECK(calls.dealloc_pd(pd) == 0);
  CHECK(calls.close_device(context) == 0);
}
