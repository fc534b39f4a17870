// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what native() gives of the soft device can be passed to every exported function of
// libibverbs that takes such an object, and is refused there; the object stays as it is. Method:
// each in turn on objects in use, in this process.
#include <cerrno>
#include <cstring>
#include <utility>

#include "raw_ends.hpp"

using namespace lend;
using namespace lend::test;

namespace {

// Each leaves no errno for the next.
bool is_refused(int answer) {
  int const error = std::exchange(errno, 0);
  return answer == EOPNOTSUPP || (answer == -1 && error != 0);
}
bool is_refused(void const* made) {
  return std::exchange(errno, 0) == EOPNOTSUPP && made == nullptr;
}

/// Whether libibverbs has the private interface that the device knows.
bool is_known(ibv_context* context) {
  auto const* const whole = reinterpret_cast<verbs_context const*>(
      reinterpret_cast<std::byte const*>(context) - offsetof(verbs_context, context));
  if (whole->priv == nullptr) WARN("skipped: this libibverbs has another private interface");
  return whole->priv != nullptr;
}

}  // namespace

TEST_CASE("exported functions of libibverbs refuse the native objects of the soft device",
          "[soft]") {
  RawDevice const device;
  auto* const context = device.context();
  if (!is_known(context)) return;
  auto* const domain = device.domain();
  RawMemory const memory{device, 4096};
  RawQueue const queue{device};
  RawPool const pool{device, 4};
  RawPair const pair{device, queue};
  REQUIRE(pair.connect(pair.number()) == 0);

  ibv_device_attr of_device{};
  CHECK(is_refused(::ibv_query_device(context, &of_device)));
  ibv_port_attr of_port{};
  CHECK(is_refused(
      (::ibv_query_port)(context, 1, reinterpret_cast<_compat_ibv_port_attr*>(&of_port))));
  ibv_gid gid{};
  CHECK(is_refused(::ibv_query_gid(context, 1, 0, &gid)));
  ibv_gid_entry entry{};
  CHECK(::ibv_query_gid_ex(context, 1, 0, &entry, 0) != 0);
  CHECK(::ibv_query_gid_table(context, &entry, 1, 0) < 0);
  __be16 key{};
  CHECK(is_refused(::ibv_query_pkey(context, 1, 0, &key)));
  CHECK(::ibv_get_pkey_index(context, 1, 0xffff) == -1);
  CHECK(is_refused(::ibv_alloc_pd(context)));
  CHECK(is_refused(::ibv_dealloc_pd(domain)));
  CHECK(is_refused((::ibv_reg_mr)(domain, memory.at(), 64, 0)));
  CHECK(is_refused((::ibv_reg_mr_iova)(domain, memory.at(), 64, 0, 0)));
  CHECK(is_refused(::ibv_reg_mr_iova2(domain, memory.at(), 64, 0, 0)));
  CHECK(::ibv_rereg_mr(memory.region(), IBV_REREG_MR_CHANGE_PD, domain, nullptr, 0, 0) != 0);
  CHECK(is_refused(::ibv_dereg_mr(memory.region())));
  CHECK(::ibv_create_comp_channel(context) == nullptr);
  CHECK(is_refused(::ibv_create_cq(context, 1, nullptr, nullptr, 0)));
  CHECK(is_refused(::ibv_resize_cq(queue.get(), 2)));
  CHECK(is_refused(::ibv_destroy_cq(queue.get())));
  ibv_srq_init_attr srq{nullptr, {4, 1, 0}};
  CHECK(is_refused(::ibv_create_srq(domain, &srq)));
  ibv_srq_attr of_pool{};
  CHECK(is_refused(::ibv_modify_srq(pool.get(), &of_pool, IBV_SRQ_LIMIT)));
  CHECK(is_refused(::ibv_query_srq(pool.get(), &of_pool)));
  CHECK(is_refused(::ibv_destroy_srq(pool.get())));
  ibv_qp_init_attr asked{};
  asked.send_cq = asked.recv_cq = queue.get();
  asked.qp_type = IBV_QPT_RC;
  asked.cap = {1, 1, 1, 1, 0};
  CHECK(is_refused(::ibv_create_qp(domain, &asked)));
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_ERR;
  CHECK(is_refused(::ibv_modify_qp(pair.get(), &to, IBV_QP_STATE)));
  CHECK(is_refused(::ibv_query_qp(pair.get(), &to, IBV_QP_STATE, &asked)));
  CHECK(is_refused(::ibv_destroy_qp(pair.get())));
  CHECK(is_refused(::ibv_attach_mcast(pair.get(), &gid, 1)));
  CHECK(is_refused(::ibv_detach_mcast(pair.get(), &gid, 1)));
  ibv_ah_attr address{};
  address.port_num = 1;
  address.dlid = 1;
  CHECK(is_refused(::ibv_create_ah(domain, &address)));
  auto* const handle = ibv().create_ah(domain, &address);
  REQUIRE(handle != nullptr);
  CHECK(is_refused(::ibv_destroy_ah(handle)));
  CHECK(ibv().destroy_ah(handle) == 0);
  CHECK(std::strcmp(::ibv_get_device_name(context->device), "soft0") == 0);
  CHECK(::ibv_get_device_guid(context->device) == 0);
  CHECK(::ibv_close_device(context) == 0);  // it has no way to say no

  // Nothing of it has changed anything.
  REQUIRE(pair.receive(1, memory.piece(0, 64)) == 0);
  REQUIRE(pair.send(2, memory.piece(64, 64)) == 0);
  ibv_wc wc[2]{};
  CHECK(queue.poll(2, wc) == 2);
}
