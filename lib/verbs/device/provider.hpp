// SPDX-License-Identifier: MIT OR Apache-2.0
// The seam: the control calls of verbs, as one table. Two instances, rdma_core and soft.
//
// The data path has no seam. ibv_post_send, ibv_post_recv, ibv_poll_cq and ibv_req_notify_cq are
// inline functions that call through the public ibv_context::ops, so an object that fills those
// pointers is driven by the very same lines as a card.
// Source: rdma-core libibverbs/verbs.h.
#pragma once

#include <infiniband/verbs.h>
#include <lend/base/allocation.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace lend::verbs {

/// The dev_path of the soft device, by which lend recognises it in libibverbs' list, where the
/// preload library puts it.
constexpr std::string_view soft_device_mark = "the soft device of lend";

/// Bytes of a peer's that this process has mapped, for as long as this lives. Whether they are
/// still registered there is not asked again.
struct PeerBytes {
  std::byte* address = nullptr;  ///< null: there are none
  std::shared_ptr<void> hold{};
  /// While it is true, faults are planned for requests, which then are the only way to the bytes.
  /// It lives as long as the queue pair. Not null where there are bytes.
  std::atomic<bool> const* are_faults_planned = nullptr;
};

/// Each call has the contract of its man page (errno, return value, threads: any), except where
/// noted.
struct Provider {
  char const* name;
  bool is_soft;

  // ---- called by lend ----

  decltype(&::ibv_get_device_list) get_device_list;  // null with ENOSYS: no RDMA in this kernel
  decltype(&::ibv_free_device_list) free_device_list;
  decltype(&::ibv_get_device_guid) get_device_guid;
  decltype(&::ibv_get_device_index) get_device_index;
  decltype(&::ibv_open_device) open_device;
  decltype(&::ibv_close_device) close_device;
  decltype(&::ibv_query_device) query_device;
  int (*query_port)(ibv_context*, std::uint8_t port, ibv_port_attr*);
  /// As ibv_query_gid_ex(3), an inline function: ENODATA if the entry is empty.
  int (*query_gid_ex)(ibv_context*, std::uint32_t port, std::uint32_t index, ibv_gid_entry*);

  /// As ibv_query_device_ex(3), an inline function, of the present size.
  int (*query_device_ex)(ibv_context*, ibv_device_attr_ex*);
  /// As ibv_query_rt_values_ex(3), an inline function.
  int (*query_rt_values_ex)(ibv_context*, ibv_values_ex*);
  decltype(&::ibv_query_pkey) query_pkey;  // -1 with errno
  /// Called by verbs/device/event_reader.cpp alone, with a descriptor that does not block.
  decltype(&::ibv_get_async_event) get_async_event;
  decltype(&::ibv_ack_async_event) ack_async_event;

  decltype(&::ibv_alloc_pd) alloc_pd;
  decltype(&::ibv_dealloc_pd) dealloc_pd;
  ibv_mr* (*reg_mr)(ibv_pd*, void* address, std::size_t length, int access);
  decltype(&::ibv_reg_dmabuf_mr) reg_dmabuf_mr;
  decltype(&::ibv_dereg_mr) dereg_mr;
  /// As reg_mr, of no bytes. EOPNOTSUPP: this device shows none. Null: no device of the provider.
  ibv_mr* (*reg_shown)(ibv_pd*);
  /// Lets peers of the domain read bytes that they map, until hide(), by a key that comes back
  /// after 2^18 times. Takes nothing from the heap. EOPNOTSUPP: peers do not map them.
  int (*show)(ibv_mr*, std::byte const* address, std::size_t length);
  /// Ends the key and waits for those who read by it. Other work of the process goes on, but for
  /// making and destroying queue pairs. EBUSY as of dereg_mr: later calls of both look again, and
  /// do not wait.
  int (*hide)(ibv_mr*);
  /// As ibv_advise_mr(3), an inline function.
  int (*advise_mr)(ibv_pd*, ibv_advise_mr_advice, std::uint32_t flags, ibv_sge*,
                   std::uint32_t count);

  /// As ibv_alloc_mw(3) and ibv_dealloc_mw(3), inline functions.
  ibv_mw* (*alloc_mw)(ibv_pd*, ibv_mw_type);
  int (*dealloc_mw)(ibv_mw*);

  decltype(&::ibv_create_comp_channel) create_comp_channel;
  decltype(&::ibv_destroy_comp_channel) destroy_comp_channel;
  decltype(&::ibv_get_cq_event) get_cq_event;
  decltype(&::ibv_ack_cq_events) ack_cq_events;
  decltype(&::ibv_create_cq) create_cq;
  decltype(&::ibv_create_cq_ex) create_cq_ex;
  decltype(&::ibv_destroy_cq) destroy_cq;
  decltype(&::ibv_create_srq) create_srq;
  decltype(&::ibv_modify_srq) modify_srq;
  decltype(&::ibv_destroy_srq) destroy_srq;
  decltype(&::ibv_create_qp) create_qp;
  decltype(&::ibv_modify_qp) modify_qp;
  decltype(&::ibv_query_qp) query_qp;
  decltype(&::ibv_destroy_qp) destroy_qp;
  decltype(&::ibv_create_ah) create_ah;
  decltype(&::ibv_destroy_ah) destroy_ah;
  decltype(&::ibv_create_ah_from_wc) create_ah_from_wc;

  /// Page-aligned zeroed bytes that this device accesses best, or null with errno: settle_pages().
  /// Not registered. The pages are not prefer_huge.
  void* (*allocate)(ibv_context*, std::size_t length, AllocationOptions const&);
  /// The same in normal pages, where nothing else is allocated, now or later. A peer that has
  /// mapped them finds them after their release as they were then.
  void* (*allocate_apart)(ibv_context*, std::size_t length);
  /// Frees them, whole pages. They must no longer be registered.
  void (*release)(ibv_context*, void* address, std::size_t length);

  /// The bytes that `key` opens at a connected queue pair's peer for `access`, in flags as
  /// IBV_ACCESS_REMOTE_READ. Null: no device of this provider maps any.
  PeerBytes (*peer_bytes)(ibv_qp*, std::uint32_t key, std::uint64_t address, std::size_t length,
                          unsigned access);

  /// Posts an RDMA write of one piece, of bytes anywhere in this process and of any number, and
  /// executes it at once. False: it was not posted, and a post may do it. Null: no device of this
  /// provider does so.
  bool (*write_at_once)(ibv_qp*, ibv_send_wr const&);

  /// Why the calling thread's last failed call failed, as a sentence with a remedy, if the provider
  /// knows more than errno; otherwise null. A lack of descriptors needs none: Error::from_errno().
  /// The text lives until the thread's next call.
  char const* (*last_reason)();

  // ---- called only by the preload library and the tests of devices ----

  decltype(&::ibv_query_gid) query_gid;
  decltype(&::ibv_resize_cq) resize_cq;
  decltype(&::ibv_create_srq_ex) create_srq_ex;
  decltype(&::ibv_query_srq) query_srq;
  decltype(&::ibv_create_qp_ex) create_qp_ex;
  decltype(&::ibv_qp_to_qp_ex) qp_to_qp_ex;
  decltype(&::ibv_init_ah_from_wc) init_ah_from_wc;
};

[[nodiscard]] Provider const& rdma_core_provider() noexcept;

}  // namespace lend::verbs
