// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the device tells the truth about itself, keeps its limits, and leaves nothing behind.
// Method: descriptors, mappings and slot files before and after, in a rendezvous directory of the
// test's own.
#include <filesystem>
#include <fstream>
#include <set>

#include "rendezvous.hpp"
#include "support.hpp"

using namespace lend;
using namespace lend::test;

namespace {

std::size_t resident_bytes() {
  std::ifstream rollup{"/proc/self/smaps_rollup"};
  for (std::string word; rollup >> word;)
    if (word == "Rss:") {
      std::size_t kilobytes = 0;
      rollup >> kilobytes;
      return kilobytes * 1024;
    }
  return 0;
}

}  // namespace

TEST_CASE("the list holds one device, which opens and says what it is", "[soft]") {
  int count = -1;
  auto** const list = ibv().get_device_list(&count);
  REQUIRE(list != nullptr);
  CHECK(count == 1);
  CHECK(std::string{list[0]->name} == "soft0");
  CHECK(list[0]->transport_type == IBV_TRANSPORT_IB);
  CHECK(list[1] == nullptr);
  ibv().free_device_list(list);
  ibv_device other{};
  CHECK(ibv().open_device(&other) == nullptr);
  CHECK(errno == ENODEV);
}

TEST_CASE("device, port and GID answer sensibly and refuse what is not there", "[soft]") {
  auto const context = open_context();
  ibv_device_attr device{};
  REQUIRE(ibv().query_device(context.get(), &device) == 0);
  CHECK(device.max_qp >= 1024);
  CHECK(device.max_qp_wr >= 1024);
  CHECK(device.max_sge >= 4);
  CHECK(device.max_cqe >= 2 * device.max_qp_wr);
  CHECK(device.max_mr >= 1024);
  CHECK(device.max_qp_rd_atom > 0);
  CHECK(device.phys_port_cnt == 1);
  CHECK(device.atomic_cap == IBV_ATOMIC_HCA);

  ibv_port_attr port{};
  REQUIRE(ibv().query_port(context.get(), 1, &port) == 0);
  CHECK(port.state == IBV_PORT_ACTIVE);
  CHECK(port.lid == 1);
  CHECK(port.active_mtu == IBV_MTU_4096);
  CHECK(port.gid_tbl_len == 1);
  CHECK(port.max_msg_sz == 1u << 30);
  ibv_port_attr by_inline{};
  REQUIRE(ibv_query_port(context.get(), 1, &by_inline) == 0);
  CHECK(by_inline.max_msg_sz == port.max_msg_sz);
  ibv_device_attr_ex extended{};
  REQUIRE(ibv_query_device_ex(context.get(), nullptr, &extended) == 0);
  CHECK(extended.orig_attr.max_qp == device.max_qp);

  ibv_gid gid{};
  REQUIRE(ibv().query_gid(context.get(), 1, 0, &gid) == 0);
  CHECK(gid.global.interface_id == device.node_guid);
  CHECK(device.node_guid != 0);

  for (std::uint8_t const number : {std::uint8_t{0}, std::uint8_t{2}})
    CHECK(ibv().query_port(context.get(), number, &port) == EINVAL);
  CHECK(ibv().query_gid(context.get(), 1, 1, &gid) != 0);
  CHECK(ibv().query_gid(context.get(), 2, 0, &gid) != 0);
  CHECK(ibv().last_reason() != nullptr);
}

TEST_CASE("opening, connecting, moving bytes and closing leave nothing behind", "[soft]") {
  Rendezvous const rendezvous;
  open_context().reset();  // what a process keeps for good
  auto const before = Holdings::now();
  for (int round = 0; round < 3; ++round) {
    Link link{GENERATE(Reach::one_context, Reach::two_contexts), Terms{}};
    Memory const from{link.a.domain.get(), 4096, all_access, Where::allocated};
    Memory const large{link.b.domain.get(), std::size_t{17} << 20, all_access, Where::allocated};
    Memory const small{link.b.domain.get(), 4096, all_access, Where::allocated};
    for (auto const* to : {&large, &small}) {
      REQUIRE(post(link.a, {.opcode = IBV_WR_RDMA_WRITE,
                            .pieces = {from.piece(0, 4096)},
                            .remote_address = to->address(),
                            .remote_key = to->key()}) == 0);
      CHECK(await_one(link.a.sends).status == IBV_WC_SUCCESS);
    }
    CHECK(rendezvous.slot_files() == (link.second ? 2 : 1));
    CHECK(std::filesystem::exists(rendezvous.slot(link.a.qp->qp_num >> 12)));
    CHECK(Holdings::now().memory_files > before.memory_files);
  }
  CHECK(Holdings::now() == before);
  CHECK(rendezvous.slot_files() == 0);
}

TEST_CASE("a queue pair that forgets its peer lets go of it", "[soft]") {
  Rendezvous const rendezvous;
  Link link{Reach::two_contexts};
  auto const before = Holdings::now();
  link.connect();
  CHECK(Holdings::now().memory_files == before.memory_files + 2);
  for (auto* const qp : {link.a.qp.get(), link.b.qp.get()})
    REQUIRE(move(qp, IBV_QPS_RESET, {}, IBV_QP_STATE) == 0);
  CHECK(Holdings::now() == before);
}

TEST_CASE("contexts of one process have slots, queue pair numbers and memory of their own",
          "[soft]") {
  Link link{Reach::two_contexts, Terms{}};
  CHECK(link.a.qp->qp_num != link.b.qp->qp_num);
  CHECK(link.a.qp->qp_num >> 12 != link.b.qp->qp_num >> 12);
  ibv_gid gids[2] = {};
  REQUIRE(ibv().query_gid(link.first.get(), 1, 0, &gids[0]) == 0);
  REQUIRE(ibv().query_gid(link.second.get(), 1, 0, &gids[1]) == 0);
  CHECK(std::memcmp(&gids[0], &gids[1], sizeof gids[0]) == 0);
}

TEST_CASE("a parent outlives its children or says that it is busy", "[soft]") {
  auto const context = open_context();
  End end{context.get()};
  CHECK(ibv().destroy_cq(end.sends.get()) == EBUSY);
  CHECK(ibv().last_reason() != nullptr);
  CHECK(ibv().dealloc_pd(end.domain.get()) == EBUSY);
  CHECK(ibv().last_reason() != nullptr);
  CHECK(ibv().close_device(context.get()) == EBUSY);
  CHECK(ibv().last_reason() != nullptr);
  end.qp.reset();
  Memory memory{end.domain.get(), 64};
  CHECK(ibv().dealloc_pd(end.domain.get()) == EBUSY);
}

TEST_CASE("a device grants all that it says, each alone and all at once", "[soft]") {
  auto const context = open_context();
  auto const domain = make_domain(context.get());
  ibv_device_attr limits{};
  REQUIRE(ibv().query_device(context.get(), &limits) == 0);
  auto const queue = make_queue(context.get(), limits.max_cqe);
  CHECK(queue->cqe >= limits.max_cqe);
  ibv_srq_init_attr pool_asked{};
  pool_asked.attr = {static_cast<std::uint32_t>(limits.max_srq_wr),
                     static_cast<std::uint32_t>(limits.max_srq_sge), 0};
  auto* const pool = ibv().create_srq(domain.get(), &pool_asked);
  REQUIRE(pool != nullptr);
  auto const pieces = static_cast<std::uint32_t>(limits.max_sge);
  auto const depth = static_cast<std::uint32_t>(limits.max_qp_wr);
  {
    auto const qp =
        make_queue_pair(domain.get(), queue.get(), queue.get(),
                        {.sends = depth, .receives = depth, .pieces = pieces, .signals_all = true});
    ibv_qp_init_attr with_pool{};
    with_pool.send_cq = with_pool.recv_cq = queue.get();
    with_pool.srq = pool;
    with_pool.qp_type = IBV_QPT_UC;
    with_pool.cap = {1, 0, 1, 0, 0};
    HeldQueuePair const other{ibv().create_qp(domain.get(), &with_pool)};
    REQUIRE(other);
    Terms terms;
    terms.reads_out = static_cast<std::uint8_t>(limits.max_qp_init_rd_atom);
    terms.reads_in = static_cast<std::uint8_t>(limits.max_qp_rd_atom);
    bring_to(qp.get(), IBV_QPS_RTS, qp->qp_num, terms);

    ibv_qp_attr answer{};
    ibv_qp_init_attr made{};
    REQUIRE(ibv().query_qp(qp.get(), &answer, 0, &made) == 0);
    for (auto const& cap : {answer.cap, made.cap}) {
      CHECK(cap.max_send_wr == depth);
      CHECK(cap.max_recv_wr == depth);
      CHECK(cap.max_send_sge == pieces);
      CHECK(cap.max_recv_sge == pieces);
    }
    CHECK(made.sq_sig_all == 1);
    CHECK(made.srq == nullptr);
    REQUIRE(ibv().query_qp(other.get(), &answer, 0, &made) == 0);
    CHECK(made.srq == pool);
    CHECK(made.qp_type == IBV_QPT_UC);
    CHECK(made.sq_sig_all == 0);
    CHECK(made.cap.max_recv_wr == 0);
  }
  CHECK(ibv().destroy_srq(pool) == 0);
}

TEST_CASE("a queue pair beyond the limits is refused with a reason", "[soft]") {
  auto const context = open_context();
  End const end{context.get()};
  auto const holdings = Holdings::now();
  ibv_qp_init_attr good{};
  good.send_cq = end.sends.get();
  good.recv_cq = end.receives.get();
  good.qp_type = IBV_QPT_RC;
  good.cap = {1, 1, 1, 1, 0};
  ibv_srq queue{};
  auto const refused = [&](ibv_qp_init_attr asked, int error) {
    errno = 0;
    CHECK(ibv().create_qp(end.domain.get(), &asked) == nullptr);
    CHECK(errno == error);
    CHECK(ibv().last_reason() != nullptr);
  };
  auto asked = good;
  asked.cap.max_send_wr = (1u << 14) + 1;
  refused(asked, EINVAL);
  asked = good;
  asked.cap.max_recv_wr = UINT32_MAX;
  refused(asked, EINVAL);
  asked = good;
  asked.cap.max_send_sge = 31;
  refused(asked, EINVAL);
  asked = good;
  asked.cap.max_recv_sge = 31;
  refused(asked, EINVAL);
  asked = good;
  asked.cap.max_inline_data = 257;
  refused(asked, EINVAL);
  asked = good;
  asked.send_cq = nullptr;
  refused(asked, EINVAL);
  asked = good;
  asked.qp_type = IBV_QPT_XRC_SEND;
  refused(asked, EOPNOTSUPP);
  asked = good;
  asked.srq = &queue;  // of no device
  refused(asked, EINVAL);
  CHECK(Holdings::now() == holdings);
  HeldQueuePair const made{ibv().create_qp(end.domain.get(), &good)};
  CHECK(made);
}

TEST_CASE("a completion queue beyond the limits is refused with a reason", "[soft]") {
  auto const context = open_context();
  for (int const entries : {-1, 0, (1 << 16) + 1}) {
    errno = 0;
    CHECK(ibv().create_cq(context.get(), entries, nullptr, nullptr, 0) == nullptr);
    CHECK(errno == EINVAL);
    CHECK(ibv().last_reason() != nullptr);
  }
  CHECK(ibv().create_cq(context.get(), 1, nullptr, nullptr, 1) == nullptr);
  CHECK(errno == EINVAL);
  auto const queue = make_queue(context.get(), 5);
  CHECK(queue->cqe >= 5);
  CHECK(ibv_req_notify_cq(queue.get(), 0) == 0);  // with no channel, nobody is told
}

TEST_CASE("memory for queues runs out with a reason and comes back", "[soft]") {
  auto const context = open_context();
  auto const domain = make_domain(context.get());
  auto const queue = make_queue(context.get());
  ibv_qp_init_attr asked{};
  asked.send_cq = asked.recv_cq = queue.get();
  asked.qp_type = IBV_QPT_RC;
  asked.cap = {1, 1u << 14, 1, 30, 0};
  std::size_t made_before = 0;
  for (int round = 0; round < 2; ++round) {
    std::vector<HeldQueuePair> all;
    while (HeldQueuePair made{ibv().create_qp(domain.get(), &asked)})
      all.push_back(std::move(made));
    CHECK(errno == ENOMEM);
    REQUIRE(ibv().last_reason() != nullptr);
    CHECK(all.size() > 10);
    if (round == 1) CHECK(all.size() == made_before);
    made_before = all.size();
  }
}

TEST_CASE("as many queue pairs as the device says can be made, and not one more", "[soft]") {
  auto const context = open_context();
  auto const domain = make_domain(context.get());
  auto const queue = make_queue(context.get());
  ibv_device_attr limits{};
  REQUIRE(ibv().query_device(context.get(), &limits) == 0);
  ibv_qp_init_attr asked{};
  asked.send_cq = asked.recv_cq = queue.get();
  asked.qp_type = IBV_QPT_RC;
  asked.cap = {1, 1, 1, 1, 0};
  std::vector<HeldQueuePair> all;
  std::set<std::uint32_t> numbers;
  while (HeldQueuePair made{ibv().create_qp(domain.get(), &asked)}) {
    numbers.insert(made->qp_num);
    all.push_back(std::move(made));
  }
  CHECK(errno == ENOMEM);
  CHECK(ibv().last_reason() != nullptr);
  CHECK(all.size() == static_cast<std::size_t>(limits.max_qp));
  CHECK(numbers.size() == all.size());
  all.pop_back();
  CHECK(HeldQueuePair{ibv().create_qp(domain.get(), &asked)});
}

TEST_CASE("hundreds of connected pairs work side by side, each idle one below 2 MiB", "[soft]") {
  constexpr std::size_t pairs = 200;
  auto const first = open_context();
  auto const second = open_context();
  Depths const depths{.sends = 128, .receives = 128, .pieces = 4, .completions = 256};
  std::vector<std::pair<End, End>> all;
  all.reserve(pairs);
  auto const before = resident_bytes();
  for (std::size_t i = 0; i < pairs; ++i) {
    auto& [a, b] = all.emplace_back(End{first.get(), depths}, End{second.get(), depths});
    bring_to(a.qp.get(), IBV_QPS_RTS, b.qp->qp_num);
    bring_to(b.qp.get(), IBV_QPS_RTS, a.qp->qp_num);
  }
  auto const after = resident_bytes();
  REQUIRE(before > 0);
  INFO("bytes per queue pair: " << (after - before) / (2 * pairs));
  CHECK(after - before < 2 * pairs * (std::size_t{2} << 20));

  for (std::size_t i = 0; i < pairs; ++i) REQUIRE(post_receive(all[i].second, i) == 0);
  for (std::size_t i = pairs; i-- > 0;) REQUIRE(post(all[i].first, {.id = i}) == 0);
  for (std::size_t i = 0; i < pairs; ++i) {
    CHECK(await_one(all[i].first.sends).wr_id == i);
    CHECK(await_one(all[i].second.receives).wr_id == i);
  }
}
