// SPDX-License-Identifier: MIT OR Apache-2.0
// Connecting to a listener by rdma_cm. Any thread.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/cm/connecting.hpp>
#include <lend/cm/connection.hpp>

#include <string_view>

namespace lend {

/// Connects `queue_pair` to the CmListener at `address`; retries until the deadline.
///
///     LEND_TRY(prepared, lend::channel_builder().protection_domain(domain).build());
///     LEND_TRY(connected, cm_connect("10.0.0.1:7471", prepared.take_queue_pair(), within(5s)));
///     LEND_TRY(channel, std::move(prepared).adopt(std::move(connected.queue_pair)));
///
/// Use it if the fabric needs rdma_cm (iWARP), or if no TCP port is open; otherwise connect() does
/// the same over TCP. CmConnecting does the same without waiting. Consumes `queue_pair`, also when
/// it fails. A name in `address` is looked up again while it is not known or no listener is there.
/// The deadline does not bound the system's resolver.
///
/// Errors:  timed_out, cancelled  the message says which step was not finished, that the host was
///                             not known, or that no listener was there; nothing is connected.
///          denied             the listener rejected it, and the message has its reason; or this
///                             process may not open /dev/infiniband/rdma_cm.
///          exhausted          out of descriptors or memory.
///          system_failed      a call of rdma_cm, or a transition, which the message names.
///          incompatible_peer  the listener is not lend, has another version, or its answer is
///                             damaged.
///          peer_lost          the peer or the device is gone.
///          not_found          no RDMA device has a route to the host.
///          invalid_argument   an address, too much private data, a consumed queue pair, or one of
///                             another device than the route's; the message has both names.
///          unsupported        a soft device, or a kernel without rdma_cm.
/// Source:  rdma_cm(7), client operation; rdma_establish(3).
[[nodiscard]] LEND_EXPORT Result<CmConnection> cm_connect(std::string_view address,
                                                          PreparedQueuePair queue_pair,
                                                          Deadline deadline,
                                                          CmOptions const& options = {});

}  // namespace lend
