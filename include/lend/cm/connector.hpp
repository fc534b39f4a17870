// SPDX-License-Identifier: MIT OR Apache-2.0
// Connecting to a listener by rdma_cm. Any thread.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>
#include <lend/cm/connection.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace lend {

/// What a connector may say besides where to.
struct CmOptions {
  std::span<std::byte const> private_data{};  ///< up to cm_private_bytes_max; the listener sees it
  /// The local address to connect from, "host" or "host:port"; it selects the device where several
  /// reach the peer. Empty: as the routes say.
  std::string source{};
};

/// Connects `queue_pair` to the CmListener that is, or will be before the deadline, at `address`.
///
///     LEND_TRY(prepared, lend::channel_builder().protection_domain(domain).build());
///     LEND_TRY(connected, cm_connect("10.0.0.1:7471", prepared.take_queue_pair(), within(5s)));
///     LEND_TRY(channel, std::move(prepared).adopt(std::move(connected.queue_pair)));
///
/// Use it where the fabric needs rdma_cm (iWARP), or where no TCP port is open; else connect() does
/// the same over TCP, on any device. A name in `address` goes through the system's resolver,
/// which knows no deadline; numbers do not. Consumes `queue_pair`, also when it fails.
///
/// Errors:  timed_out, cancelled  which step was not over before that, or that nobody listened;
///                             nothing is connected.
///          denied             the listener rejected it, and the message has its reason; or this
///                             process may not open /dev/infiniband/rdma_cm.
///          exhausted          out of descriptors or memory.
///          system_failed      a call of rdma_cm's, or a transition, which the message names.
///          incompatible_peer  the listener is not lend, is of another version, or its answer is
///                             damaged.
///          peer_lost          the peer went away, or the device did.
///          not_found          no such host, or no RDMA device has a route to it.
///          invalid_argument   an address, too much private data, a queue pair consumed before, or
///                             one of another device than the route's; the message has both names.
///          unsupported        a soft device, or a kernel without rdma_cm.
/// Source:  rdma_cm(7), client operation; rdma_establish(3).
[[nodiscard]] Result<CmConnection> cm_connect(std::string_view address,
                                              PreparedQueuePair queue_pair, Deadline deadline,
                                              CmOptions const& options = {});

}  // namespace lend
