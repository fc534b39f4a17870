// SPDX-License-Identifier: MIT OR Apache-2.0
// Stands where libibverbs would: has one device, card0, and notes every call. One thread.
#include "pretended_verbs.hpp"

#include <infiniband/verbs.h>

#include <cstring>

using lend::test::ForwardedCall;
using lend::test::pretended_answer;

namespace {

ibv_device card = [] {
  ibv_device made{};
  std::strcpy(made.name, "card0");
  return made;
}();
ibv_device* cards[] = {&card, nullptr};

}  // namespace

std::vector<ForwardedCall>* pretended_verbs_calls() {
  static std::vector<ForwardedCall> calls;
  return &calls;
}

ibv_device** ibv_get_device_list(int* count) {
  *count = 1;
  return cards;
}

// All in one shape, whatever the header says of them: hence the names of the assembler.
using Word = std::uint64_t;
#define PRETEND(name)                                                                  \
  extern "C" Word pretended_##name(Word, Word, Word, Word, Word, Word) __asm__(#name); \
  Word pretended_##name(Word a, Word b, Word c, Word d, Word e, Word f) {              \
    pretended_verbs_calls()->push_back({#name, {a, b, c, d, e, f}});                   \
    return pretended_answer;                                                           \
  }

PRETEND(ibv_free_device_list)
PRETEND(ibv_get_device_index)
PRETEND(ibv_get_device_guid)
PRETEND(ibv_open_device)
PRETEND(ibv_close_device)
PRETEND(ibv_query_device)
PRETEND(ibv_query_port)
PRETEND(ibv_query_gid)
PRETEND(_ibv_query_gid_ex)
PRETEND(_ibv_query_gid_table)
PRETEND(ibv_query_gid_type)
PRETEND(ibv_query_pkey)
PRETEND(ibv_get_pkey_index)
PRETEND(ibv_get_async_event)
PRETEND(ibv_alloc_pd)
PRETEND(ibv_dealloc_pd)
PRETEND(ibv_import_pd)
PRETEND(ibv_reg_mr)
PRETEND(ibv_reg_mr_iova)
PRETEND(ibv_reg_mr_iova2)
PRETEND(ibv_reg_dmabuf_mr)
PRETEND(ibv_rereg_mr)
PRETEND(ibv_dereg_mr)
PRETEND(ibv_import_mr)
PRETEND(ibv_import_dm)
PRETEND(ibv_create_comp_channel)
PRETEND(ibv_destroy_comp_channel)
PRETEND(ibv_get_cq_event)
PRETEND(ibv_ack_cq_events)
PRETEND(ibv_create_cq)
PRETEND(ibv_resize_cq)
PRETEND(ibv_destroy_cq)
PRETEND(ibv_create_srq)
PRETEND(ibv_modify_srq)
PRETEND(ibv_query_srq)
PRETEND(ibv_destroy_srq)
PRETEND(ibv_create_qp)
PRETEND(ibv_modify_qp)
PRETEND(ibv_query_qp)
PRETEND(ibv_query_qp_data_in_order)
PRETEND(ibv_qp_to_qp_ex)
PRETEND(ibv_set_ece)
PRETEND(ibv_query_ece)
PRETEND(ibv_attach_mcast)
PRETEND(ibv_detach_mcast)
PRETEND(ibv_destroy_qp)
PRETEND(ibv_create_ah)
PRETEND(ibv_init_ah_from_wc)
PRETEND(ibv_create_ah_from_wc)
PRETEND(ibv_destroy_ah)
PRETEND(ibv_resolve_eth_l2_from_gid)
