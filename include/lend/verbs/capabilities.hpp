// SPDX-License-Identifier: MIT OR Apache-2.0
// What not every device can do. A value; any thread.
#pragma once

#include <lend/base/language.hpp>

namespace lend {

/// Check these before you rely on them. Every device has messages, writes, reads, gather and
/// scatter lists, scopes and loans. Cards of InfiniBand and RoCE mostly have all of these, the soft
/// device has all but rdma_cm, and SoftRoCE neither peer loans nor timestamps.
/// Source:  RFC 5040 and RFC 5041 for iWARP; InfiniBand Architecture, volume 1, chapter 9.
struct DeviceCapabilities {
  /// Connects by endpoints: PreparedChannel::handshake(), listen(), connect(). If false: by
  /// lend/cm.
  bool endpoints = false;
  /// Connects by cm_connect() and CmListener. Never where lend was built without librdmacm.
  bool rdma_cm = false;
  /// A send or a write may carry an immediate.
  bool immediates = false;
  /// UnreliableQueuePair and DatagramQueuePair. Not on iWARP.
  bool unreliable = false;
  bool datagrams = false;
  /// Compare-and-swap and fetch-and-add: Atomic. SoftiWARP has none, nor has iWARP's first RFC.
  bool atomics = false;
  /// MemoryWindow, and Send::returning() of the peer's. Not on SoftiWARP.
  bool windows = false;
  /// PollingScope::post_lend(). Not on SoftRoCE, although it has windows: it compares what a peer
  /// accesses with the bounds of the region, not of the window, and its kernel crashes where a
  /// window is invalidated twice, as a peer can do. Source: Linux drivers/infiniband/sw/rxe:
  /// rxe_resp.c, check_rkey(); rxe_mw.c, rxe_do_invalidate_mw().
  bool peer_loans = false;
  /// Regions whose pages need not be in memory: Paging::on_demand. Some cards, SoftRoCE since Linux
  /// 6.15, and the soft device, which never pins any.
  bool paging_on_demand = false;
  /// DeviceClock, and CompletionQueueOptions::timestamps. The soft device and most cards.
  bool timestamps = false;
  /// A message waits for a receive that the peer posts later. If false, such a message ends the
  /// connection: post receives first, as many as messages may be in flight.
  bool waits_for_receives = false;
  /// A send or write completes when the peer's device has accepted it, and fails with the reason if
  /// that refuses it. If false, it completes once it is sent, and a refusal ends the connection.
  bool acknowledges = false;
};

}  // namespace lend
