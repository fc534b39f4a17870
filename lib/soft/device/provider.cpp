// SPDX-License-Identifier: MIT OR Apache-2.0
// The soft device behind the seam.
#include <soft/device/provider.hpp>

#include <soft/device/answers.hpp>
#include <soft/device/device.hpp>
#include <soft/device/queries.hpp>
#include <soft/engine/datagram.hpp>
#include <soft/engine/extended.hpp>
#include <soft/engine/modify.hpp>
#include <soft/engine/peer_bytes.hpp>
#include <soft/engine/post.hpp>
#include <soft/objects/address_handle.hpp>
#include <soft/objects/async_events.hpp>
#include <soft/objects/completion_channel.hpp>
#include <soft/objects/completion_queue.hpp>
#include <soft/objects/context.hpp>
#include <soft/objects/domain.hpp>
#include <soft/objects/queue_pair.hpp>
#include <soft/objects/receive_pool.hpp>
#include <soft/objects/window.hpp>
#include <soft/platform/reason.hpp>

#include <type_traits>

namespace lend::soft {
namespace {

int planned_for(ibv_context* context) noexcept {
  return planned_failure(context);
}
template <class Object>
int planned_for(Object* object) noexcept {
  return planned_failure(object->context);
}

/// A control call that fails where a test ordered it; see faults.hpp. Then it returns null, or
/// `failure`, or the errno if that is 0.
template <auto call, int failure>
struct Meddlesome;
template <class Answer, class Object, class... More, Answer (*call)(Object*, More...) noexcept,
          int failure>
struct Meddlesome<call, failure> {
  static Answer entry(Object* object, More... more) noexcept {
    auto const error = planned_for(object);
    if (error == 0) return call(object, more...);
    if constexpr (std::is_pointer_v<Answer>)
      return nullptr;
    else
      return failure != 0 ? failure : error;
  }
};
template <auto call, int failure = 0>
constexpr auto meddlesome = &Meddlesome<call, failure>::entry;

}  // namespace

verbs::Provider const& provider() noexcept {
  static constexpr verbs::Provider table{
      .name = "soft",
      .is_soft = true,
      .get_device_list = get_device_list,
      .free_device_list = free_device_list,
      .get_device_guid = [](ibv_device*) -> __be64 { return device_guid(); },
      // Source: ibv_get_device_index(3): -1 where the kernel gave it none.
      .get_device_index = [](ibv_device*) { return -1; },
      .open_device = open_device,
      .close_device = close_device,
      .query_device = meddlesome<query_device>,
      .query_port = meddlesome<query_port>,
      .query_gid_ex = meddlesome<query_gid_ex>,
      .query_device_ex = query_all_of_device,
      .query_rt_values_ex = meddlesome<query_rt_values>,
      .query_pkey = query_pkey,
      .get_async_event = get_async_event,
      .ack_async_event = ack_async_event,
      .alloc_pd = meddlesome<alloc_pd>,
      .dealloc_pd = dealloc_pd,
      .reg_mr = meddlesome<reg_mr>,
      .reg_dmabuf_mr = meddlesome<reg_dmabuf_mr>,
      .dereg_mr = dereg_mr,
      .reg_shown = meddlesome<reg_shown>,
      .show = show,
      .hide = hide,
      .advise_mr = meddlesome<advise_mr>,
      .alloc_mw = meddlesome<alloc_mw>,
      .dealloc_mw = dealloc_mw,
      .create_comp_channel = meddlesome<create_comp_channel>,
      .destroy_comp_channel = destroy_comp_channel,
      .get_cq_event = get_cq_event,
      .ack_cq_events = ack_cq_events,
      .create_cq = meddlesome<create_cq>,
      .create_cq_ex = meddlesome<create_cq_ex>,
      .destroy_cq = destroy_cq,
      .create_srq = meddlesome<create_srq>,
      .modify_srq = meddlesome<modify_srq>,
      .destroy_srq = destroy_srq,
      .create_qp = meddlesome<create_qp>,
      .modify_qp = meddlesome<modify_qp>,
      .query_qp = meddlesome<query_qp>,
      .destroy_qp = destroy_qp,
      .create_ah = meddlesome<create_ah>,
      .destroy_ah = destroy_ah,
      .create_ah_from_wc = meddlesome<create_ah_from_wc>,
      .allocate = meddlesome<allocate>,
      .allocate_apart = meddlesome<allocate_apart>,
      .release = release,
      .peer_bytes = peer_bytes,
      .write_at_once = write_at_once,
      .last_reason = last_reason,
      .query_gid = meddlesome<query_gid, -1>,
      .resize_cq = meddlesome<resize_cq>,
      .create_srq_ex = meddlesome<create_srq_ex>,
      .query_srq = meddlesome<query_srq>,
      .create_qp_ex = meddlesome<create_qp_ex>,
      .qp_to_qp_ex = qp_to_qp_ex,
      .init_ah_from_wc = init_ah_from_wc,
  };
  return table;
}

}  // namespace lend::soft
