// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a memory window of type 2 opens its bytes, with its rights, to the peer of the queue pair
// that bound it, until it is invalidated here or by the peer, deallocated, or its queue pair ends.
// Method: raw verbs; b lends, a uses what it was lent.
// Source: ibv_alloc_mw(3), ibv_post_send(3), ibv_wr_post(3); InfiniBand Architecture Specification
// vol. 1, 10.6.7.2; statuses: kernel drivers/infiniband/sw/rxe/rxe_req.c, rxe_resp.c and rxe_mw.c.
#include "soft/support.hpp"

using namespace lend;
using namespace lend::test;

namespace {

using HeldWindow = std::unique_ptr<ibv_mw, Destroy<ibv_mw, &verbs::Provider::dealloc_mw>>;

constexpr int bindable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
constexpr unsigned both = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

HeldWindow make_window(ibv_pd* domain) {
  HeldWindow made{ibv_alloc_mw(domain, IBV_MW_TYPE_2)};
  REQUIRE(made);
  return made;
}

int post_work(End const& end, ibv_send_wr wr) {
  wr.wr_id = 9;
  wr.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(end.qp.get(), &wr, &bad);
}

struct Lent {
  explicit Lent(Reach reach = Reach::two_contexts, int rights = bindable, Terms const& of_a = {})
      : link{reach, of_a},
        here{link.a.domain.get(), 64},
        there{link.b.domain.get(), 64, rights, Where::allocated},
        window{make_window(link.b.domain.get())} {
    here.write(0, "from afar");
  }

  /// The key, or 0 if the post was refused.
  std::uint32_t post_bind(End const& end, std::uint64_t address, std::uint64_t length,
                          unsigned rights) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_BIND_MW;
    wr.bind_mw.mw = window.get();
    wr.bind_mw.rkey = ibv_inc_rkey(window->rkey);
    wr.bind_mw.bind_info = {there.region(), address, length, rights};
    refusal = post_work(end, wr);
    if (refusal != 0) return 0;
    return window->rkey = wr.bind_mw.rkey;
  }
  std::uint32_t bind(std::size_t offset = 8, std::size_t length = 16, unsigned rights = both) {
    auto const key = post_bind(link.b, there.address(offset), length, rights);
    REQUIRE(key != 0);
    auto const end = await_one(link.b.sends);
    CHECK(end.status == IBV_WC_SUCCESS);
    CHECK(end.opcode == IBV_WC_BIND_MW);
    return key;
  }
  ibv_wc invalidate(End const& end, std::uint32_t key) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_LOCAL_INV;
    wr.invalidate_rkey = key;
    REQUIRE(post_work(end, wr) == 0);
    return await_one(end.sends);
  }
  ibv_wc give_back(std::uint32_t key) {
    REQUIRE(post(link.a, {.opcode = IBV_WR_SEND_WITH_INV,
                          .pieces = {here.piece(0, 4)},
                          .immediate = key}) == 0);
    return await_one(link.a.sends);
  }
  ibv_wc access(ibv_wr_opcode opcode, std::uint32_t key, std::size_t offset, std::size_t length) {
    REQUIRE(post(link.a, {.opcode = opcode,
                          .pieces = {here.piece(0, length)},
                          .remote_address = there.address(offset),
                          .remote_key = key}) == 0);
    return await_one(link.a.sends);
  }
  ibv_wc write(std::uint32_t key, std::size_t offset = 8, std::size_t length = 9) {
    return access(IBV_WR_RDMA_WRITE, key, offset, length);
  }

  Link link;
  Memory here;
  Memory there;
  HeldWindow window;
  int refusal = 0;
};

}  // namespace

TEST_CASE("a bound window opens its bytes to the peer, with its rights and no others", "[soft]") {
  Lent lent{GENERATE(Reach::one_context, Reach::two_contexts)};

  SECTION("to write") {
    auto const key = lent.bind(8, 16, IBV_ACCESS_REMOTE_WRITE);
    CHECK(lent.write(key).status == IBV_WC_SUCCESS);
    CHECK(lent.there.read(8, 9) == "from afar");
    CHECK(lent.access(IBV_WR_RDMA_READ, key, 8, 4).status == IBV_WC_REM_ACCESS_ERR);
  }
  SECTION("to read") {
    lent.there.write(8, "lent");
    auto const key = lent.bind(8, 16, IBV_ACCESS_REMOTE_READ);
    CHECK(lent.access(IBV_WR_RDMA_READ, key, 8, 4).status == IBV_WC_SUCCESS);
    CHECK(lent.here.read(0, 4) == "lent");
    CHECK(lent.write(key).status == IBV_WC_REM_ACCESS_ERR);
  }
  SECTION("for atomic operations") {
    auto const key = lent.bind(8, 16, IBV_ACCESS_REMOTE_ATOMIC);
    CHECK(lent.access(IBV_WR_ATOMIC_FETCH_AND_ADD, key, 8, 8).status == IBV_WC_SUCCESS);
    CHECK(lent.write(key).status == IBV_WC_REM_ACCESS_ERR);
  }
  SECTION("the byte before it is closed") {
    CHECK(lent.write(lent.bind(), 7, 2).status == IBV_WC_REM_ACCESS_ERR);
  }
  SECTION("the byte behind it is closed") {
    CHECK(lent.write(lent.bind(), 16, 9).status == IBV_WC_REM_ACCESS_ERR);
  }
}

TEST_CASE("a window that is not bound, or was invalidated here, opens nothing", "[soft]") {
  Lent lent{GENERATE(Reach::one_context, Reach::two_contexts)};

  SECTION("not bound") {
    CHECK(lent.write(lent.window->rkey).status == IBV_WC_REM_ACCESS_ERR);
  }
  SECTION("invalidated") {
    auto const key = lent.bind();
    auto const end = lent.invalidate(lent.link.b, key);
    CHECK(end.status == IBV_WC_SUCCESS);
    CHECK(end.opcode == IBV_WC_LOCAL_INV);
    CHECK(lent.write(key).status == IBV_WC_REM_ACCESS_ERR);
  }
  SECTION("bound again, by its old key") {
    auto const key = lent.bind();
    CHECK(lent.invalidate(lent.link.b, key).status == IBV_WC_SUCCESS);
    auto const next = lent.bind();
    CHECK(next != key);
    CHECK(lent.write(next).status == IBV_WC_SUCCESS);
    CHECK(lent.write(key).status == IBV_WC_REM_ACCESS_ERR);
  }
  SECTION("deallocated") {
    auto const key = lent.bind();
    lent.window.reset();
    CHECK(lent.write(key).status == IBV_WC_REM_ACCESS_ERR);
    CHECK(lent.there.read(8, 9) == std::string(9, '\0'));
  }
}

TEST_CASE("the peer returns a window by a send, and its receive says which", "[soft]") {
  Lent lent{GENERATE(Reach::one_context, Reach::two_contexts)};
  auto const key = lent.bind();
  CHECK(lent.write(key).status == IBV_WC_SUCCESS);

  REQUIRE(post_receive(lent.link.b, 5, {lent.there.piece(32, 8)}) == 0);
  auto const sent = lent.give_back(key);
  CHECK(sent.status == IBV_WC_SUCCESS);
  CHECK(sent.opcode == IBV_WC_SEND);
  auto const received = await_one(lent.link.b.receives);
  CHECK(received.status == IBV_WC_SUCCESS);
  CHECK(received.opcode == IBV_WC_RECV);
  CHECK(received.wc_flags == IBV_WC_WITH_INV);
  CHECK(received.invalidated_rkey == key);
  CHECK(received.byte_len == 4);
  CHECK(lent.there.read(32, 4) == "from");

  SECTION("it can be bound again") {
    CHECK(lent.write(lent.bind()).status == IBV_WC_SUCCESS);
  }
  SECTION("its key is dead") {
    CHECK(lent.write(key).status == IBV_WC_REM_ACCESS_ERR);
  }
  SECTION("an invalidation that crossed with it is none too many") {
    CHECK(lent.invalidate(lent.link.b, key).status == IBV_WC_SUCCESS);
    CHECK(state_of(lent.link.b.qp.get()) == IBV_QPS_RTS);
  }
  SECTION("returned once more it breaks the lender's queue pair, and the sender hears nothing") {
    REQUIRE(post_receive(lent.link.b, 6, {lent.there.piece(32, 8)}) == 0);
    CHECK(lent.give_back(key).status == IBV_WC_SUCCESS);
    CHECK(await_one(lent.link.b.receives).status == IBV_WC_REM_INV_REQ_ERR);
    CHECK(state_of(lent.link.b.qp.get()) == IBV_QPS_ERR);
  }
}

TEST_CASE("a send that returns a window waits for its receive like others", "[soft]") {
  Lent lent{Reach::two_contexts, bindable, Terms{.rnr_retries = 7}};
  auto const key = lent.bind();
  REQUIRE(post(lent.link.a, {.opcode = IBV_WR_SEND_WITH_INV, .immediate = key}) == 0);
  CHECK(poll(lent.link.a.sends).empty());
  CHECK(ibv().dereg_mr(lent.there.region()) == EINVAL);  // it is bound still
  REQUIRE(post_receive(lent.link.b, 5) == 0);
  CHECK(await_one(lent.link.a.sends).status == IBV_WC_SUCCESS);
  CHECK(await_one(lent.link.b.receives).invalidated_rkey == key);
}

TEST_CASE("a window belongs to the queue pair that bound it", "[soft]") {
  Lent lent;
  auto const key = lent.bind();
  // A second connection between the same domains.
  HeldQueuePair const mine = make_queue_pair(lent.link.a.domain.get(), lent.link.a.sends.get(),
                                             lent.link.a.receives.get());
  HeldQueuePair const theirs = make_queue_pair(lent.link.b.domain.get(), lent.link.b.sends.get(),
                                               lent.link.b.receives.get());
  bring_to(mine.get(), IBV_QPS_RTS, theirs->qp_num);
  bring_to(theirs.get(), IBV_QPS_RTS, mine->qp_num);
  auto const post_to = [&](ibv_qp* qp, Request request) {
    ibv_send_wr wr{};
    wr.sg_list = request.pieces.data();
    wr.num_sge = static_cast<int>(request.pieces.size());
    wr.opcode = request.opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.imm_data = request.immediate;
    wr.wr.rdma = {request.remote_address, request.remote_key};
    ibv_send_wr* bad = nullptr;
    REQUIRE(ibv_post_send(qp, &wr, &bad) == 0);
  };

  SECTION("another's peer cannot use it") {
    post_to(mine.get(), {.opcode = IBV_WR_RDMA_WRITE,
                         .pieces = {lent.here.piece(0, 4)},
                         .remote_address = lent.there.address(8),
                         .remote_key = key});
    CHECK(await_one(lent.link.a.sends).status == IBV_WC_REM_ACCESS_ERR);
  }
  SECTION("another's peer cannot return it") {
    ibv_sge piece = lent.there.piece(32, 8);
    ibv_recv_wr receive{};
    receive.sg_list = &piece;
    receive.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    REQUIRE(ibv_post_recv(theirs.get(), &receive, &bad) == 0);
    post_to(mine.get(), {.opcode = IBV_WR_SEND_WITH_INV, .immediate = key});
    CHECK(await_one(lent.link.a.sends).status == IBV_WC_SUCCESS);
    CHECK(await_one(lent.link.b.receives).status == IBV_WC_REM_INV_REQ_ERR);
    CHECK(state_of(theirs.get()) == IBV_QPS_ERR);
  }
  SECTION("another cannot invalidate it") {
    post_to(theirs.get(), {.opcode = IBV_WR_LOCAL_INV, .immediate = key});
    CHECK(await_one(lent.link.b.sends).status == IBV_WC_LOC_QP_OP_ERR);
  }
  CHECK(lent.write(key).status == IBV_WC_SUCCESS);
  CHECK(state_of(lent.link.b.qp.get()) == IBV_QPS_RTS);
}

TEST_CASE("a queue pair that is reset ends the windows that it bound", "[soft]") {
  Lent lent;
  auto const key = lent.bind();
  auto const connect_again = [&](End& end, std::uint32_t peer) {
    REQUIRE(move(end.qp.get(), IBV_QPS_RESET, {}, IBV_QP_STATE) == 0);
    bring_to(end.qp.get(), IBV_QPS_RTS, peer);
  };
  connect_again(lent.link.b, lent.link.a.qp->qp_num);
  connect_again(lent.link.a, lent.link.b.qp->qp_num);
  CHECK(lent.write(key).status == IBV_WC_REM_ACCESS_ERR);
}

TEST_CASE("a bind that region, range or window does not allow breaks its queue pair", "[soft]") {
  auto const fails = [](Lent& lent, std::uint64_t address, std::uint64_t length, unsigned rights) {
    REQUIRE(lent.post_bind(lent.link.b, address, length, rights) != 0);
    CHECK(await_one(lent.link.b.sends).status == IBV_WC_MW_BIND_ERR);
    CHECK(state_of(lent.link.b.qp.get()) == IBV_QPS_ERR);
  };

  SECTION("the region takes no windows") {
    Lent lent{Reach::two_contexts, all_access};
    fails(lent, lent.there.address(), 8, both);
  }
  SECTION("a window to write in a region that is only read") {
    Lent lent{Reach::two_contexts, IBV_ACCESS_MW_BIND};
    fails(lent, lent.there.address(), 8, IBV_ACCESS_REMOTE_WRITE);
  }
  SECTION("beyond the region") {
    Lent lent;
    fails(lent, lent.there.address(60), 5, both);
  }
  SECTION("no bytes") {
    Lent lent;
    fails(lent, lent.there.address(), 0, both);
  }
  SECTION("a window that is bound") {
    Lent lent;
    lent.bind();
    fails(lent, lent.there.address(), 8, both);
  }
}

TEST_CASE("a bind of what does not belong together is not taken", "[soft]") {
  Lent lent;
  SECTION("a queue pair of another domain") {
    auto const other = make_domain(lent.link.second.get());
    HeldQueuePair const qp =
        make_queue_pair(other.get(), lent.link.b.sends.get(), lent.link.b.receives.get());
    bring_to(qp.get(), IBV_QPS_RTS, lent.link.a.qp->qp_num);
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_BIND_MW;
    wr.bind_mw.mw = lent.window.get();
    wr.bind_mw.bind_info = {lent.there.region(), lent.there.address(), 8, both};
    ibv_send_wr* bad = nullptr;
    CHECK(ibv_post_send(qp.get(), &wr, &bad) == EINVAL);
    CHECK(bad == &wr);
  }
  SECTION("a right that there is not") {
    CHECK(lent.post_bind(lent.link.b, lent.there.address(), 8, IBV_ACCESS_ZERO_BASED) == 0);
    CHECK(lent.refusal == EOPNOTSUPP);
  }
}

TEST_CASE("windows are of type 2, and say so", "[soft]") {
  auto const context = open_context();
  auto const domain = make_domain(context.get());
  ibv_device_attr attributes{};
  REQUIRE(ibv().query_device(context.get(), &attributes) == 0);
  CHECK((attributes.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0);
  CHECK((attributes.device_cap_flags & IBV_DEVICE_MEM_WINDOW) == 0);
  CHECK(attributes.max_mw > 0);

  errno = 0;
  CHECK(ibv_alloc_mw(domain.get(), IBV_MW_TYPE_1) == nullptr);
  CHECK(errno == EOPNOTSUPP);
  auto const window = make_window(domain.get());
  CHECK(ibv().dealloc_pd(domain.get()) == EBUSY);
}

TEST_CASE("a region keeps its registration while a window is bound to it", "[soft]") {
  Lent lent;
  auto const key = lent.bind();
  CHECK(ibv().dereg_mr(lent.there.region()) == EINVAL);
  CHECK(lent.write(key).status == IBV_WC_SUCCESS);
  CHECK(lent.invalidate(lent.link.b, key).status == IBV_WC_SUCCESS);
  lent.there.deregister();  // which checks that it succeeds
}

TEST_CASE("binds, sends that return and invalidations are built call by call, too", "[soft]") {
  Lent lent;
  auto const make = [](End& end) {
    ibv_qp_init_attr_ex asked{};
    asked.send_cq = end.sends.get();
    asked.recv_cq = end.receives.get();
    asked.qp_type = IBV_QPT_RC;
    asked.cap = {8, 8, 2, 2, 0};
    asked.pd = end.domain.get();
    asked.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    asked.send_ops_flags =
        IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND_WITH_INV;
    end.qp.reset(::ibv_create_qp_ex(end.domain->context, &asked));
    REQUIRE(end.qp);
  };
  make(lent.link.a);
  make(lent.link.b);
  lent.link.connect();
  auto const build = [](End const& end, auto&& steps) {
    auto* const builder = ibv().qp_to_qp_ex(end.qp.get());
    ::ibv_wr_start(builder);
    builder->wr_flags = IBV_SEND_SIGNALED;
    steps(builder);
    REQUIRE(::ibv_wr_complete(builder) == 0);
    return await_one(end.sends).status;
  };
  ibv_mw_bind_info const info{lent.there.region(), lent.there.address(8), 16, both};
  auto const key = ibv_inc_rkey(lent.window->rkey);
  auto const bind = [&](ibv_qp_ex* qp) { ::ibv_wr_bind_mw(qp, lent.window.get(), key, &info); };

  CHECK(build(lent.link.b, bind) == IBV_WC_SUCCESS);
  CHECK(lent.write(key).status == IBV_WC_SUCCESS);
  REQUIRE(post_receive(lent.link.b, 5) == 0);
  CHECK(build(lent.link.a, [&](ibv_qp_ex* qp) { ::ibv_wr_send_inv(qp, key); }) == IBV_WC_SUCCESS);
  CHECK(await_one(lent.link.b.receives).invalidated_rkey == key);
  CHECK(build(lent.link.b, bind) == IBV_WC_SUCCESS);
  CHECK(build(lent.link.b, [&](ibv_qp_ex* qp) { ::ibv_wr_local_inv(qp, key); }) == IBV_WC_SUCCESS);
  CHECK(lent.write(key).status == IBV_WC_REM_ACCESS_ERR);
}
