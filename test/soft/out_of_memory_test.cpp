// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a control call that finds no memory says ENOMEM, leaves nothing behind, and the device goes
// on; what ends something needs no memory. Method: operator new fails after 0, 1, 2, … allocations,
// until the call finds enough. One thread.
#include <lend/soft/faults.hpp>
#include <soft/objects/context.hpp>

#include "rendezvous.hpp"
#include "soft/support.hpp"
#include "support/each_failure.hpp"
#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;
using lend::verbs::Provider;

namespace {

/// What a failed call must not change.
struct State {
  explicit State(ibv_context* context)
      : ring_bytes{context == nullptr ? 0 : soft::Context::of(context).rings.taken()} {}
  friend bool operator==(State const&, State const&) = default;

  Holdings holdings = Holdings::now();
  std::size_t ring_bytes;
};

/// Calls `make`, which answers null or false with errno, until memory suffices; then `end` with
/// what it made. How often it failed.
template <class Make, class End>
std::uint64_t starve(ibv_context* context, char const* name, Make const& make, End const& end) {
  CAPTURE(name);
  State const before{context};
  return for_each_failure(0, [&](std::uint64_t allowed) {
    decltype(make()) made{};
    int why = 0;
    bool const needed_more = starved(allowed, [&] {
      made = make();
      why = errno;
    });
    REQUIRE((made == decltype(make()){}) == needed_more);
    if (needed_more) {
      REQUIRE(why == ENOMEM);
      REQUIRE(State{context} == before);
    } else {
      end(made);
    }
    return needed_more;
  });
}
/// The same for calls that answer 0 or an errno.
template <class Call>
std::uint64_t starve(ibv_context* context, char const* name, Call const& call) {
  auto const answer = [&] { return (errno = call()) == 0; };
  return starve(context, name, answer, [](bool) {});
}

/// Ends something while there is no memory at all.
template <class T, int (*Provider::*destroy)(T*)>
void end(T* made) {
  int error = 0;
  {
    Famine const famine{0};
    error = (ibv().*destroy)(made);
  }
  REQUIRE(error == 0);
}
constexpr auto close_device = end<ibv_context, &Provider::close_device>;
constexpr auto end_domain = end<ibv_pd, &Provider::dealloc_pd>;
constexpr auto end_region = end<ibv_mr, &Provider::dereg_mr>;
constexpr auto end_channel = end<ibv_comp_channel, &Provider::destroy_comp_channel>;
constexpr auto end_queue = end<ibv_cq, &Provider::destroy_cq>;
constexpr auto end_pool = end<ibv_srq, &Provider::destroy_srq>;
constexpr auto end_pair = end<ibv_qp, &Provider::destroy_qp>;
constexpr auto end_address = end<ibv_ah, &Provider::destroy_ah>;

void starve_device() {
  auto const list = [] { return ibv().get_device_list(nullptr); };
  CHECK(starve(nullptr, "get_device_list", list, ibv().free_device_list) == 1);
  auto** const devices = list();
  auto const open = [&] { return ibv().open_device(devices[0]); };
  CHECK(starve(nullptr, "open_device", open, close_device) > 1);
  REQUIRE(::setenv("LEND_SOFT_FAULTS", "drop@3:2 control@1000:12", 1) == 0);
  CHECK(starve(nullptr, "open_device with a plan", open, close_device) > 3);
  REQUIRE(::unsetenv("LEND_SOFT_FAULTS") == 0);
  ibv().free_device_list(devices);
}

void starve_memory(ibv_context* context, ibv_pd* domain) {
  char bytes[64];
  auto const make_domain = [&] { return ibv().alloc_pd(context); };
  CHECK(starve(context, "alloc_pd", make_domain, end_domain) == 1);
  auto const add = [&] { return ibv().reg_mr(domain, bytes, sizeof bytes, all_access); };
  CHECK(starve(context, "reg_mr", add, end_region) == 1);
  // The first of the small ones makes an arena, which stays; the second finds it.
  for (std::size_t const length : {std::size_t{32} << 20, std::size_t{100}, std::size_t{100}}) {
    CAPTURE(length);
    auto const allocate = [&] { return ibv().allocate(context, length, {}); };
    auto const release = [&](void* memory) {
      Famine const famine{0};
      ibv().release(context, memory, length);
    };
    CHECK(starve(context, "allocate", allocate, release) > 0);
  }
}

void starve_queues(ibv_context* context) {
  auto const make_channel = [&] { return ibv().create_comp_channel(context); };
  CHECK(starve(context, "create_comp_channel", make_channel, end_channel) == 1);
  auto const channel = lend::test::make_channel(context);
  for (auto* const told : {static_cast<ibv_comp_channel*>(nullptr), channel.get()}) {
    auto const make = [&] { return ibv().create_cq(context, 64, nullptr, told, 0); };
    CHECK(starve(context, "create_cq", make, end_queue) == (told == nullptr ? 3 : 4));
  }
  ibv_cq_init_attr_ex asked{};
  asked.cqe = 64;
  auto const make_extended = [&] { return ibv().create_cq_ex(context, &asked); };
  auto const end_extended = [](ibv_cq_ex* queue) { end_queue(ibv_cq_ex_to_cq(queue)); };
  CHECK(starve(context, "create_cq_ex", make_extended, end_extended) == 3);
  auto* const queue = ibv().create_cq(context, 16, nullptr, nullptr, 0);
  REQUIRE(queue != nullptr);
  CHECK(starve(context, "resize_cq", [&] { return ibv().resize_cq(queue, 1000); }) == 2);
  CHECK(queue->cqe == 1024);
  end_queue(queue);
}

void starve_pools(ibv_context* context, ibv_pd* domain) {
  ibv_srq_init_attr asked{};
  asked.attr = {16, 2, 0};
  auto const make = [&] { return ibv().create_srq(domain, &asked); };
  CHECK(starve(context, "create_srq", make, end_pool) > 3);
  ibv_srq_init_attr_ex more{};
  more.attr = asked.attr;
  more.comp_mask = IBV_SRQ_INIT_ATTR_PD;
  more.pd = domain;
  auto const make_extended = [&] { return ibv().create_srq_ex(context, &more); };
  CHECK(starve(context, "create_srq_ex", make_extended, end_pool) > 3);
  std::unique_ptr<ibv_srq, Destroy<ibv_srq, &Provider::destroy_srq>> const pool{make()};
  ibv_srq_attr attributes{0, 0, 8};
  auto const set_limit = [&] { return ibv().modify_srq(pool.get(), &attributes, IBV_SRQ_LIMIT); };
  CHECK(starve(context, "modify_srq", set_limit) == 0);
}

void starve_pairs(ibv_context* context, ibv_pd* domain, ibv_cq* queue) {
  ibv_qp_init_attr asked{};
  asked.send_cq = asked.recv_cq = queue;
  asked.cap = {16, 16, 2, 2, 64};
  for (auto const type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
    asked.qp_type = type;
    auto const make = [&] { return ibv().create_qp(domain, &asked); };
    CHECK(starve(context, "create_qp", make, end_pair) > 2);
  }
  ibv_qp_init_attr_ex more{};
  more.send_cq = more.recv_cq = queue;
  more.cap = asked.cap;
  more.qp_type = IBV_QPT_RC;
  more.pd = domain;
  more.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  more.send_ops_flags = IBV_QP_EX_WITH_SEND;
  auto const make_extended = [&] { return ibv().create_qp_ex(context, &more); };
  CHECK(starve(context, "create_qp_ex", make_extended, end_pair) > 2);
  ibv_ah_attr address{};
  address.port_num = 1;
  address.dlid = 1;
  auto const make_address = [&] { return ibv().create_ah(domain, &address); };
  CHECK(starve(context, "create_ah", make_address, end_address) == 1);
  ibv_wc sender{};
  sender.slid = 1;
  auto const answer = [&] { return ibv().create_ah_from_wc(domain, &sender, nullptr, 1); };
  CHECK(starve(context, "create_ah_from_wc", answer, end_address) == 1);
}

/// Connects them to and fro, and ends the connection, each step starved.
void starve_connection(ibv_context* context, End const& a, End const& b) {
  auto const step = [&](End const& from, End const& to, ibv_qp_state state, int mask) {
    auto const attributes = attributes_for(to.qp->qp_num);
    auto const change = [&] { return move(from.qp.get(), state, attributes, mask); };
    return starve(context, "modify_qp", change);
  };
  for (auto const& [from, to] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
    CHECK(step(*from, *to, IBV_QPS_INIT, init_mask) == 0);
    CHECK(step(*from, *to, IBV_QPS_RTR, rtr_mask) > 3);
    CHECK(step(*from, *to, IBV_QPS_RTS, rts_mask) == 0);
  }
  REQUIRE(post_receive(b, 1) == 0);
  REQUIRE(post(a, {}) == 0);
  CHECK(await_one(a.sends).status == IBV_WC_SUCCESS);
  CHECK(await_one(b.receives).status == IBV_WC_SUCCESS);
  for (auto const* const one : {&a, &b}) {
    CHECK(step(*one, *one, IBV_QPS_ERR, IBV_QP_STATE) == 0);
    CHECK(step(*one, *one, IBV_QPS_RESET, IBV_QP_STATE) == 0);
  }
}

void starve_all() {
  Rendezvous const rendezvous;
  starve_device();
  CHECK(rendezvous.slot_files() == 0);
  auto const first = open_context();
  auto const second = open_context();
  {
    auto const domain = make_domain(first.get());
    starve_memory(first.get(), domain.get());
    starve_queues(first.get());
    starve_pools(first.get(), domain.get());
    auto const queue = make_queue(first.get());
    starve_pairs(first.get(), domain.get(), queue.get());
    End const a{first.get()};
    End const b{second.get()};
    starve_connection(first.get(), a, b);
  }
  CHECK(soft::Context::of(first.get()).rings.taken() == 0);
}

}  // namespace

TEST_CASE("a control call that finds no memory says so, leaves nothing behind, and succeeds later",
          "[soft]") {
  starve_all();  // what stays for the process's life is made here
  auto const before = Holdings::now();
  auto const blocks = blocks_held();

  starve_all();

  CHECK(blocks_held() == blocks);
  CHECK(Holdings::now() == before);
}

TEST_CASE("objects made and ended without memory for the end do not use the device up", "[soft]") {
  auto const context = open_context();
  auto const domain = make_domain(context.get());
  char bytes[64];
  // More than there are keys, and more queue space than there is.
  for (std::uint32_t i = 0; i < 2 * soft::regions_max; ++i) {
    auto* const region = ibv().reg_mr(domain.get(), bytes, sizeof bytes, 0);
    REQUIRE(region != nullptr);
    end_region(region);
  }
  auto const space = soft::segment_bytes - soft::rings_offset;
  auto const entries = static_cast<int>(soft::completions_max);
  for (std::size_t taken = 0; taken < 2 * space; taken += soft::completions_max * 64) {
    auto* const queue = ibv().create_cq(context.get(), entries, nullptr, nullptr, 0);
    REQUIRE(queue != nullptr);
    end_queue(queue);
  }
}

TEST_CASE("a plan of faults that finds no memory leaves the plan before it", "[soft]") {
  auto const context = must(open_device(DeviceChoice::soft()));
  auto const old = FaultPlan{}.control_call_fails(1, EACCES);
  auto const plan = FaultPlan{}.drop(1).drop(2).control_call_fails(3, EIO);
  for_each_failure(3, [&](std::uint64_t allowed) {
    must(inject_faults(context, old));
    std::optional refused{Errc{}};
    starved(allowed, [&] {
      auto const injected = inject_faults(context, plan);
      refused = injected ? std::nullopt : std::optional{injected.error().code()};
    });
    if (!refused) return false;
    REQUIRE(*refused == Errc::exhausted);
    REQUIRE(error_of(context.allocate_protection_domain()).os_error() == EACCES);
    return true;
  });
  must(context.allocate_protection_domain());
}
