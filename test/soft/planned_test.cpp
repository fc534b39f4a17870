// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: planned faults strike each at its place: a request's after the work before it, however it
// was posted and whatever was planned since; a control call's at that call, by whatever way a
// program makes it. Method: raw verbs on loop-back, the inline calls of libibverbs among them.
#include <lend/soft/faults.hpp>
#include <soft/device/answers.hpp>
#include <soft/engine/engine.hpp>
#include <soft/objects/context.hpp>
#include <soft/objects/domain.hpp>

#include <functional>

#include "soft/support.hpp"

using namespace lend;
using namespace lend::test;

namespace {

/// Of two faults with one number these would be two equal cases, which do not compile; and one that
/// is missing is a warning.
constexpr bool has_number_of_its_own(soft::Fault fault) {
  switch (fault) {
    case soft::Fault::none:
    case soft::Fault::local_key:
    case soft::Fault::message_too_long:
    case soft::Fault::no_reads_allowed:
    case soft::Fault::peer_is_dead:
    case soft::Fault::peer_is_silent:
    case soft::Fault::receiver_not_ready:
    case soft::Fault::operation_forbidden:
    case soft::Fault::remote_key:
    case soft::Fault::receive_too_short:
    case soft::Fault::receive_key:
    case soft::Fault::unreachable_memory:
    case soft::Fault::queue_overrun:
    case soft::Fault::corrupt_target:
    case soft::Fault::planned:
    case soft::Fault::misaligned:
    case soft::Fault::no_descriptor:
    case soft::Fault::window:
    case soft::Fault::no_cross_memory: return true;
  }
  return false;
}
static_assert(has_number_of_its_own(soft::Fault::misaligned));

void plan(HeldContext const& context, FaultPlan const& faults) {
  soft::Context::of(context.get()).faults.plan(faults.faults());
}

/// A queue pair connected with itself, for writes posted and built.
struct Loop {
  Loop() {
    ibv_qp_init_attr_ex asked{};
    asked.send_cq = asked.recv_cq = queue.get();
    asked.qp_type = IBV_QPT_RC;
    asked.cap = {8, 8, 2, 2, 64};
    asked.pd = domain.get();
    asked.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    asked.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND;
    qp.reset(ibv().create_qp_ex(context.get(), &asked));
    REQUIRE(qp);
    Terms terms;
    terms.rnr_retries = 7;
    bring_to(qp.get(), IBV_QPS_RTS, qp->qp_num, terms);
  }
  /// Writes 1 to `count`, in one batch or one by one.
  void write(std::uint64_t count, bool is_batch) const {
    if (!is_batch) {
      for (std::uint64_t id = 1; id <= count; ++id) post_one(IBV_WR_RDMA_WRITE, id);
      return;
    }
    auto* const builder = ibv().qp_to_qp_ex(qp.get());
    ibv_wr_start(builder);
    for (std::uint64_t id = 1; id <= count; ++id) {
      builder->wr_id = id;
      builder->wr_flags = IBV_SEND_SIGNALED;
      ibv_wr_rdma_write(builder, memory.key(), memory.address(64));
      ibv_wr_set_sge(builder, memory.key(), memory.address(), 8);
    }
    REQUIRE(ibv_wr_complete(builder) == 0);
  }
  void post_one(ibv_wr_opcode opcode, std::uint64_t id) const {
    auto piece = memory.piece(0, 8);
    ibv_send_wr wr{};
    wr.wr_id = id;
    wr.sg_list = &piece;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {memory.address(64), memory.key()};
    ibv_send_wr* bad = nullptr;
    REQUIRE(ibv_post_send(qp.get(), &wr, &bad) == 0);
  }
  void check_ends(std::vector<ibv_wc_status> const& statuses) const {
    auto const ends = await(queue, statuses.size());
    for (std::size_t i = 0; i < ends.size(); ++i) {
      CHECK(ends[i].wr_id == i + 1);
      CHECK(ends[i].status == statuses[i]);
    }
  }

  HeldContext context = open_context();
  HeldDomain domain = make_domain(context.get());
  HeldQueue queue = make_queue(context.get());
  Memory memory{domain.get(), 128};
  HeldQueuePair qp;
};

constexpr auto done = IBV_WC_SUCCESS;
constexpr auto flushed = IBV_WC_WR_FLUSH_ERR;

// -- control calls -------------------------------------------------------------------------------

int of_pointer(void const* made) {
  return made != nullptr ? 0 : errno;
}
/// Of what returns -1 with errno, or a negative errno.
int of_negative(ssize_t answer) {
  return answer >= 0 ? 0 : answer == -1 ? errno : static_cast<int>(-answer);
}

/// One way to make a control call: 0 or its errno. What it made is gone again.
struct Call {
  char const* name;
  std::function<int(Loop const&)> make;
};

ibv_srq_init_attr_ex pool_attributes(Loop const& on) {
  ibv_srq_init_attr_ex asked{};
  asked.attr = {4, 1, 0};
  asked.comp_mask = IBV_SRQ_INIT_ATTR_PD;
  asked.pd = on.domain.get();
  return asked;
}

template <class Make>
int make_pool(Make make) {
  auto* const made = make();
  return made == nullptr ? errno : ibv().destroy_srq(made);
}

/// What answers without making anything.
std::vector<Call> const questions{
    {"query_device",
     [](Loop const& on) {
       ibv_device_attr answer{};
       return ibv().query_device(on.context.get(), &answer);
     }},
    {"query_device_ex",
     [](Loop const& on) {
       ibv_device_attr_ex answer{};
       return ibv_query_device_ex(on.context.get(), nullptr, &answer);
     }},
    {"query_port",
     [](Loop const& on) {
       ibv_port_attr answer{};
       return ibv().query_port(on.context.get(), 1, &answer);
     }},
    {"query_port, inline",
     [](Loop const& on) {
       ibv_port_attr answer{};
       return ibv_query_port(on.context.get(), 1, &answer);
     }},
    {"query_port, exported",
     [](Loop const& on) {
       ibv_port_attr answer{};
       return soft::query_port_compat(on.context.get(), 1,
                                      reinterpret_cast<_compat_ibv_port_attr*>(&answer));
     }},
    {"query_gid",
     [](Loop const& on) {
       ibv_gid answer{};
       return of_negative(ibv().query_gid(on.context.get(), 1, 0, &answer));
     }},
    {"query_gid_ex",
     [](Loop const& on) {
       ibv_gid_entry answer{};
       return ibv().query_gid_ex(on.context.get(), 1, 0, &answer);
     }},
    {"query_gid_ex, exported",
     [](Loop const& on) {
       ibv_gid_entry answer{};
       return soft::query_gid_entry(on.context.get(), 1, 0, &answer, 0, sizeof answer);
     }},
    {"query_gid_table",
     [](Loop const& on) {
       ibv_gid_entry answer{};
       return of_negative(soft::query_gid_table(on.context.get(), &answer, 1, 0, sizeof answer));
     }},
    {"query_gid_type",
     [](Loop const& on) {
       unsigned answer = 0;
       return of_negative(soft::query_gid_sysfs_type(on.context.get(), 1, 0, &answer));
     }},
    {"query_pkey",
     [](Loop const& on) {
       std::uint16_t answer = 0;
       return of_negative(soft::query_pkey(on.context.get(), 1, 0, &answer));
     }},
    {"get_pkey_index",
     [](Loop const& on) { return of_negative(soft::get_pkey_index(on.context.get(), 1, 0xffff)); }},
    {"query_qp",
     [](Loop const& on) {
       ibv_qp_attr answer{};
       ibv_qp_init_attr made{};
       return ibv().query_qp(on.qp.get(), &answer, IBV_QP_STATE, &made);
     }},
};

/// What makes or changes something.
std::vector<Call> const changes{
    {"alloc_pd",
     [](Loop const& on) {
       auto* const made = ibv().alloc_pd(on.context.get());
       return made == nullptr ? errno : ibv().dealloc_pd(made);
     }},
    {"allocate",
     [](Loop const& on) {
       auto* const made = ibv().allocate(on.context.get(), 64, {});
       auto const error = of_pointer(made);
       if (error == 0) ibv().release(on.context.get(), made, 64);
       return error;
     }},
    {"reg_mr",
     [](Loop const& on) {
       auto* const made = ibv().reg_mr(on.domain.get(), on.memory.at(0), 64, 0);
       return made == nullptr ? errno : ibv().dereg_mr(made);
     }},
    {"reg_mr_iova",
     [](Loop const& on) {
       auto* const made =
           soft::reg_mr_at(on.domain.get(), on.memory.at(0), 64, on.memory.address(), 0);
       return made == nullptr ? errno : ibv().dereg_mr(made);
     }},
    {"rereg_mr",
     [](Loop const& on) {
       auto* const region = on.memory.region();
       return soft::rereg_mr(region, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, all_access) ==
                      0
                  ? 0
                  : errno;
     }},
    {"create_comp_channel",
     [](Loop const& on) {
       auto* const made = ibv().create_comp_channel(on.context.get());
       return made == nullptr ? errno : ibv().destroy_comp_channel(made);
     }},
    {"create_cq",
     [](Loop const& on) {
       auto* const made = ibv().create_cq(on.context.get(), 4, nullptr, nullptr, 0);
       return made == nullptr ? errno : ibv().destroy_cq(made);
     }},
    {"create_cq_ex, inline",
     [](Loop const& on) {
       ibv_cq_init_attr_ex asked{};
       asked.cqe = 4;
       auto* const made = ibv_create_cq_ex(on.context.get(), &asked);
       return made == nullptr ? errno : ibv().destroy_cq(ibv_cq_ex_to_cq(made));
     }},
    {"resize_cq", [](Loop const& on) { return ibv().resize_cq(on.queue.get(), 64); }},
    {"create_srq",
     [](Loop const& on) {
       ibv_srq_init_attr asked{nullptr, {4, 1, 0}};
       return make_pool([&] { return ibv().create_srq(on.domain.get(), &asked); });
     }},
    {"create_srq_ex",
     [](Loop const& on) {
       auto asked = pool_attributes(on);
       return make_pool([&] { return ibv().create_srq_ex(on.context.get(), &asked); });
     }},
    {"create_srq_ex, of the context",
     [](Loop const& on) {
       auto asked = pool_attributes(on);
       return make_pool([&] {
         return verbs_get_ctx(on.context.get())->create_srq_ex(on.context.get(), &asked);
       });
     }},
    {"create_qp",
     [](Loop const& on) {
       ibv_qp_init_attr asked{};
       asked.send_cq = asked.recv_cq = on.queue.get();
       asked.qp_type = IBV_QPT_RC;
       asked.cap = {4, 4, 1, 1, 0};
       auto* const made = ibv().create_qp(on.domain.get(), &asked);
       return made == nullptr ? errno : ibv().destroy_qp(made);
     }},
    {"create_qp_ex, inline",
     [](Loop const& on) {
       ibv_qp_init_attr_ex asked{};
       asked.send_cq = asked.recv_cq = on.queue.get();
       asked.qp_type = IBV_QPT_RC;
       asked.cap = {4, 4, 1, 1, 0};
       asked.pd = on.domain.get();
       asked.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
       auto* const made = ibv_create_qp_ex(on.context.get(), &asked);
       return made == nullptr ? errno : ibv().destroy_qp(made);
     }},
    {"modify_qp",
     [](Loop const& on) {
       return move(on.qp.get(), IBV_QPS_RTS, attributes_for(on.qp->qp_num), IBV_QP_STATE);
     }},
    {"create_ah",
     [](Loop const& on) {
       ibv_ah_attr asked{};
       asked.port_num = 1;
       asked.dlid = 1;
       auto* const made = ibv().create_ah(on.domain.get(), &asked);
       return made == nullptr ? errno : ibv().destroy_ah(made);
     }},
};

}  // namespace

TEST_CASE("a fault strikes after the work before it, posted or built", "[soft]") {
  bool const is_batch = GENERATE(false, true);
  CAPTURE(is_batch);
  Loop loop;
  SECTION("flush") {
    plan(loop.context, FaultPlan{}.flush(2));
    loop.write(3, is_batch);
    loop.check_ends({done, flushed, flushed});
  }
  SECTION("peer death") {
    plan(loop.context, FaultPlan{}.peer_dies(3));
    loop.write(3, is_batch);
    loop.check_ends({done, done, IBV_WC_RETRY_EXC_ERR});
  }
  SECTION("queue error") {
    plan(loop.context, FaultPlan{}.completion_queue_fails(2));
    loop.write(3, is_batch);
    ibv_wc end{};
    CHECK(ibv_poll_cq(loop.queue.get(), 1, &end) < 0);
  }
}

TEST_CASE("a fault waits as long as the work before it does", "[soft]") {
  Loop loop;
  plan(loop.context, FaultPlan{}.flush(2));
  loop.post_one(IBV_WR_SEND, 1);  // for which there is no receive yet
  loop.post_one(IBV_WR_RDMA_WRITE, 2);
  CHECK(poll(loop.queue).empty());
  CHECK(state_of(loop.qp.get()) == IBV_QPS_RTS);

  ibv_recv_wr receive{};
  receive.wr_id = 100;
  auto piece = loop.memory.piece(64, 8);
  receive.sg_list = &piece;
  receive.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  REQUIRE(ibv_post_recv(loop.qp.get(), &receive, &bad) == 0);

  for (auto const& end : await(loop.queue, 3)) {
    CAPTURE(end.wr_id);
    CHECK(end.status == (end.wr_id == 2 ? flushed : done));
  }
  CHECK(state_of(loop.qp.get()) == IBV_QPS_ERR);
}

TEST_CASE("work that waits keeps the fault it has when another plan comes", "[soft]") {
  bool const is_batch = GENERATE(false, true);
  Loop loop;
  plan(loop.context, FaultPlan{}.drop(1, 9));  // more often than the retries
  loop.write(1, is_batch);
  plan(loop.context, FaultPlan{}.flush(50).flush(60).flush(70));
  loop.check_ends({IBV_WC_RETRY_EXC_ERR});
}

TEST_CASE("a control call meets its fault by whatever way it is made, and is counted once",
          "[soft]") {
  Loop loop;
  for (auto const* const calls : {&questions, &changes})
    for (auto const& call : *calls) {
      CAPTURE(call.name);
      plan(loop.context, FaultPlan{}.control_call_fails(1, ENOSPC).control_call_fails(3, EDQUOT));
      CHECK(call.make(loop) == ENOSPC);
      CHECK(call.make(loop) == 0);
      CHECK(call.make(loop) == EDQUOT);
      CHECK(call.make(loop) == 0);
    }
  plan(loop.context, {});
}

TEST_CASE("a region changes to a domain of its own device only, and stays what it was else",
          "[soft]") {
  Loop loop;
  auto const other = open_context();
  auto const foreign = make_domain(other.get());
  for (auto* const domain : {static_cast<ibv_pd*>(nullptr), foreign.get()})
    CHECK(soft::rereg_mr(loop.memory.region(), IBV_REREG_MR_CHANGE_PD, domain, nullptr, 0, 0) ==
          IBV_REREG_MR_ERR_INPUT);
  CHECK(loop.memory.region()->pd == loop.domain.get());
  loop.write(1, false);
  loop.check_ends({done});
}
