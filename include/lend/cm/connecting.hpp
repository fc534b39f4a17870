// SPDX-License-Identifier: MIT OR Apache-2.0
// A connection that rdma_cm is making, for an event loop. One thread at a time per object.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/cm/connection.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lend {

namespace cm {
class ConnectingState;
}  // namespace cm

/// Options of cm_connect() and CmConnecting::begin().
struct CmOptions {
  std::span<std::byte const> private_data{};  ///< up to cm_private_bytes_max; the listener sees it
  /// The local address, "host" or "host:port"; it selects the device if several reach the peer.
  /// Empty: the routing table decides.
  std::string source{};
};

/// A queue pair that is being connected, by either side. No call waits for the network or the peer,
/// so one thread makes any number at a time:
///
///     LEND_TRY(connecting, CmConnecting::begin("10.0.0.1:7471", prepared.take_queue_pair(),
///                                              within(5s)));
///     // Then whenever connecting.descriptor() is readable, until there is a connection:
///     LEND_TRY(connected, connecting.advance());
///     if (connected) channel = std::move(prepared).adopt(std::move(connected->queue_pair));
///
/// The listener's side begins by CmRequest::begin_accept(). cm_connect() and CmRequest::accept() do
/// the same and wait.
///
/// Shape:   three descriptors; one is left once it is connected.
/// Borrows: the Cancellation of the deadline, until it is over.
/// The destructor gives up, at any step: it returns the queue pair and all of rdma_cm's objects,
/// and the peer learns that there is no connection. It waits for no peer. Where destroying the id
/// would, on iWARP until the peer has answered, a thread does it.
/// Source:  Linux drivers/infiniband/core/iwcm.c, destroy_cm_id().
class LEND_EXPORT CmConnecting {
 public:
  /// Begins to connect `queue_pair` to the CmListener at `address`, as cm_connect(): an attempt
  /// that finds no listener is repeated until the deadline. Consumes `queue_pair`, also when it
  /// fails.
  ///
  /// Hosts in `address` and in `options` are IP addresses, because looking up a name may take any
  /// time.
  ///
  /// Errors:  invalid_argument  a host is a name; and as cm_connect().
  ///          denied, exhausted, not_found, system_failed, unsupported  as cm_connect().
  [[nodiscard]] static Result<CmConnecting> begin(std::string_view address,
                                                  PreparedQueuePair queue_pair, Deadline deadline,
                                                  CmOptions const& options = {});
  CmConnecting(CmConnecting&&) noexcept;
  CmConnecting& operator=(CmConnecting&&) noexcept;
  ~CmConnecting();

  /// Readable while advance() has something to do, also because the deadline has passed; for
  /// poll(2), or epoll in either mode. A cancellation does not make it readable. -1 once it is over
  /// or was moved from: it is closed then, and an epoll forgets it by itself.
  /// Source:  rdma_get_cm_event(3), timerfd_create(2), epoll(7).
  [[nodiscard]] int descriptor() const noexcept;

  /// Does what is due. Nothing: it is not connected yet. A connection or an error is the last
  /// answer: it is over, and after an error everything has been given back.
  ///
  /// SoftiWARP is an exception to not waiting: its kernel module opens the TCP connection within
  /// rdma_connect(), which takes until the peer's kernel has answered.
  ///
  /// Errors:  those of cm_connect(), or of CmRequest::accept(); the first cause.
  ///          stale_handle  it is over, or was moved from.
  /// Source:  rdma_cm(7); Linux drivers/infiniband/sw/siw/siw_cm.c, siw_connect().
  [[nodiscard]] Result<std::optional<CmConnection>> advance();

 private:
  friend class CmRequest;
  explicit CmConnecting(std::unique_ptr<cm::ConnectingState> state) noexcept;
  std::unique_ptr<cm::ConnectingState> state_;
};

}  // namespace lend
