// SPDX-License-Identifier: MIT OR Apache-2.0
// The soft device behind the seam.
#include "provider.hpp"

#include "completion_channel.hpp"
#include "completion_queue.hpp"
#include "context.hpp"
#include "datagram.hpp"
#include "extended.hpp"
#include "queue_pair.hpp"
#include "reason.hpp"
#include "receive_pool.hpp"

namespace lend::soft {

Provider const& provider() noexcept {
  static constexpr Provider table{
      .name = "soft",
      .is_soft = true,
      .get_device_list = get_device_list,
      .free_device_list = free_device_list,
      .open_device = open_device,
      .close_device = close_device,
      .query_device = query_device,
      .query_port = query_port,
      .query_gid = query_gid,
      .query_gid_ex = query_gid_ex,
      .alloc_pd = alloc_pd,
      .dealloc_pd = dealloc_pd,
      .reg_mr = reg_mr,
      .dereg_mr = dereg_mr,
      .create_comp_channel = create_comp_channel,
      .destroy_comp_channel = destroy_comp_channel,
      .get_cq_event = get_cq_event,
      .ack_cq_events = ack_cq_events,
      .create_cq = create_cq,
      .create_cq_ex = create_cq_ex,
      .destroy_cq = destroy_cq,
      .create_srq = create_srq,
      .create_srq_ex = create_srq_ex,
      .modify_srq = modify_srq,
      .query_srq = query_srq,
      .destroy_srq = destroy_srq,
      .create_qp = create_qp,
      .create_qp_ex = create_qp_ex,
      .qp_to_qp_ex = qp_to_qp_ex,
      .modify_qp = modify_qp,
      .query_qp = query_qp,
      .destroy_qp = destroy_qp,
      .create_ah = create_ah,
      .destroy_ah = destroy_ah,
      .init_ah_from_wc = init_ah_from_wc,
      .create_ah_from_wc = create_ah_from_wc,
      .allocate = allocate,
      .release = release,
      .last_reason = last_reason,
  };
  return table;
}

}  // namespace lend::soft
