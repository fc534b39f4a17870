// SPDX-License-Identifier: MIT OR Apache-2.0
// Objects of an open device: domains, memory, queues, queue pairs. Any thread.
#include "route.hpp"

#include <soft/device/answers.hpp>
#include <soft/objects/domain.hpp>

// The header has them as macros too.
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

using namespace lend;
using namespace lend::preload;

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  return route(context, soft::provider().alloc_pd, __func__, context);
}
int ibv_dealloc_pd(ibv_pd* pd) {
  return route(pd->context, soft::provider().dealloc_pd, __func__, pd);
}

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t length, int access) {
  return route(pd->context, soft::provider().reg_mr, __func__, pd, address, length, access);
}
ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, std::size_t length, std::uint64_t io_address,
                        int access) {
  constexpr auto ours =
      +[](ibv_pd* domain, void* start, std::size_t size, std::uint64_t at, int rights) {
        return soft::reg_mr_at(domain, start, size, at, static_cast<unsigned>(rights));
      };
  return route(pd->context, ours, __func__, pd, address, length, io_address, access);
}
ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, std::size_t length, std::uint64_t io_address,
                         unsigned access) {
  return route(pd->context, soft::reg_mr_at, __func__, pd, address, length, io_address, access);
}
ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t length,
                          std::uint64_t io_address, int fd, int access) {
  return route_only_others(pd->context, ibv_reg_dmabuf_mr, __func__, pd, offset, length, io_address,
                           fd, access);
}
int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, std::size_t length, int access) {
  return route(mr->context, soft::rereg_mr, __func__, mr, flags, pd, address, length, access);
}
int ibv_dereg_mr(ibv_mr* mr) {
  return route(mr->context, soft::provider().dereg_mr, __func__, mr);
}
ibv_mr* ibv_import_mr(ibv_pd* pd, std::uint32_t handle) {
  return route_only_others(pd->context, ibv_import_mr, __func__, pd, handle);
}
ibv_pd* ibv_import_pd(ibv_context* context, std::uint32_t handle) {
  return route_only_others(context, ibv_import_pd, __func__, context, handle);
}
ibv_dm* ibv_import_dm(ibv_context* context, std::uint32_t handle) {
  return route_only_others(context, ibv_import_dm, __func__, context, handle);
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* cq_context,
                      ibv_comp_channel* channel, int vector) {
  return route(context, soft::provider().create_cq, __func__, context, entries, cq_context, channel,
               vector);
}
int ibv_resize_cq(ibv_cq* cq, int entries) {
  return route(cq->context, soft::provider().resize_cq, __func__, cq, entries);
}
int ibv_destroy_cq(ibv_cq* cq) {
  return route(cq->context, soft::provider().destroy_cq, __func__, cq);
}

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attributes) {
  return route(pd->context, soft::provider().create_srq, __func__, pd, attributes);
}
int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attributes, int mask) {
  return route(srq->context, soft::provider().modify_srq, __func__, srq, attributes, mask);
}
int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attributes) {
  return route(srq->context, soft::provider().query_srq, __func__, srq, attributes);
}
int ibv_destroy_srq(ibv_srq* srq) {
  return route(srq->context, soft::provider().destroy_srq, __func__, srq);
}

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  return route(pd->context, soft::provider().create_qp, __func__, pd, attributes);
}
int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  return route(qp->context, soft::provider().modify_qp, __func__, qp, attributes, mask);
}
int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr* made) {
  return route(qp->context, soft::provider().query_qp, __func__, qp, attributes, mask, made);
}
int ibv_query_qp_data_in_order(ibv_qp* qp, ibv_wr_opcode opcode, std::uint32_t flags) {
  // Bytes arrive in any order. Source: ibv_query_qp_data_in_order(3): 0 promises nothing.
  return route(
      qp->context, +[](ibv_qp*, ibv_wr_opcode, std::uint32_t) { return 0; }, __func__, qp, opcode,
      flags);
}
ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  return route(qp->context, soft::provider().qp_to_qp_ex, __func__, qp);
}
int ibv_set_ece(ibv_qp* qp, ibv_ece* ece) {
  return route_only_others(qp->context, ibv_set_ece, __func__, qp, ece);
}
int ibv_query_ece(ibv_qp* qp, ibv_ece* ece) {
  return route_only_others(qp->context, ibv_query_ece, __func__, qp, ece);
}
int ibv_attach_mcast(ibv_qp* qp, ibv_gid const* gid, std::uint16_t lid) {
  return route_only_others(qp->context, ibv_attach_mcast, __func__, qp, gid, lid);
}
int ibv_detach_mcast(ibv_qp* qp, ibv_gid const* gid, std::uint16_t lid) {
  return route_only_others(qp->context, ibv_detach_mcast, __func__, qp, gid, lid);
}
int ibv_destroy_qp(ibv_qp* qp) {
  return route(qp->context, soft::provider().destroy_qp, __func__, qp);
}

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
  return route(pd->context, soft::provider().create_ah, __func__, pd, attributes);
}
int ibv_init_ah_from_wc(ibv_context* context, std::uint8_t port, ibv_wc* completion,
                        ibv_grh* header, ibv_ah_attr* attributes) {
  return route(context, soft::provider().init_ah_from_wc, __func__, context, port, completion,
               header, attributes);
}
ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* completion, ibv_grh* header, std::uint8_t port) {
  return route(pd->context, soft::provider().create_ah_from_wc, __func__, pd, completion, header,
               port);
}
int ibv_destroy_ah(ibv_ah* ah) {
  return route(ah->context, soft::provider().destroy_ah, __func__, ah);
}
int ibv_resolve_eth_l2_from_gid(ibv_context* context, ibv_ah_attr* attributes, std::uint8_t mac[6],
                                std::uint16_t* vlan) {
  return route_only_others(context, ibv_resolve_eth_l2_from_gid, __func__, context, attributes, mac,
                           vlan);
}
