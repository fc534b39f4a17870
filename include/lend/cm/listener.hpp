// SPDX-License-Identifier: MIT OR Apache-2.0
// Accepts connections by rdma_cm. One thread at a time per object.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/cm/connecting.hpp>
#include <lend/cm/connection.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lend {

/// A peer's connection request. Accept or reject it; the destructor rejects it.
///
/// Independent of its listener: requests may be answered in any order, on any thread, and after the
/// listener is gone.
class LEND_EXPORT CmRequest {
 public:
  CmRequest(CmRequest&&) noexcept;
  CmRequest& operator=(CmRequest&&) noexcept;
  ~CmRequest();

  [[nodiscard]] CmPeer const& peer() const noexcept;
  /// The device and port on which it arrived; accept() needs a queue pair of these.
  [[nodiscard]] std::string const& device() const noexcept;
  [[nodiscard]] std::uint8_t port() const noexcept;

  /// Connects `queue_pair` to the peer; both sides are connected when this returns. The peer finds
  /// `private_data` in its CmPeer. Consumes both, also when it fails. The peer learns the reason of
  /// an error that is found before it is answered; if the kernel refuses rdma_accept, or the
  /// deadline passes, it learns only that there is no connection.
  ///
  /// Errors:  as cm_connect(), and
  ///          stale_handle  the request was answered or moved from before.
  /// Source:  rdma_accept(3); Linux drivers/infiniband/core/cma.c, rdma_accept(), which rejects.
  [[nodiscard]] Result<CmConnection> accept(PreparedQueuePair queue_pair, Deadline deadline,
                                            std::span<std::byte const> private_data = {}) &&;
  /// The same without waiting: answers the peer, and the rest is up to CmConnecting::advance().
  ///
  /// Errors:  those of accept() that are found before the peer is answered, or by rdma_accept.
  [[nodiscard]] Result<CmConnecting> begin_accept(PreparedQueuePair queue_pair, Deadline deadline,
                                                  std::span<std::byte const> private_data = {}) &&;
  /// Rejects the peer, whose error shows `reason`, cut at cm_reason_bytes_max.
  /// Errors:  peer_lost     the peer is gone already.
  ///          stale_handle  the request was answered or moved from before.
  /// Source:  rdma_reject(3).
  [[nodiscard]] Result<void> reject(std::string_view reason) &&;

 private:
  friend class CmListener;
  struct State;
  explicit CmRequest(std::unique_ptr<State> state) noexcept;
  [[nodiscard]] State& state() const noexcept;  // stops where it was moved from
  std::unique_ptr<State> state_;
};

/// An address at which peers are accepted.
class LEND_EXPORT CmListener {
 public:
  /// Binds to `address`, "host:port": the host is an address of this machine with an RDMA device,
  /// or 0.0.0.0 or [::] for any; port 0 lets the system choose.
  ///
  /// Shape:   backlog  requests that may wait for next().
  /// Errors:  invalid_argument  not a host and a port.
  ///          not_found         no such host, or no RDMA device of this machine has the address.
  ///          denied            this process may not open /dev/infiniband/rdma_cm.
  ///          exhausted         out of descriptors or memory.
  ///          system_failed     from rdma_bind_addr or rdma_listen, for example: in use.
  ///          unsupported       no rdma_cm in this kernel or container; the message says why.
  /// Source:  rdma_bind_addr(3), rdma_listen(3).
  [[nodiscard]] static Result<CmListener> open(std::string_view address, int backlog = 128);
  CmListener(CmListener&&) noexcept;
  CmListener& operator=(CmListener&&) noexcept;
  ~CmListener();

  /// Its address, with the chosen port.
  [[nodiscard]] std::string const& address() const noexcept;

  /// Readable while poll() has something to do; level-triggered, for poll(2) or epoll. -1 where the
  /// listener was moved from.
  /// Source:  rdma_get_cm_event(3).
  [[nodiscard]] int descriptor() const noexcept;

  /// Takes a peer's request, or nothing if none waits. A client whose private data is not lend's is
  /// rejected with the reason, at most 64 in one call.
  ///
  /// Errors:  those of next(), except timed_out and cancelled.
  [[nodiscard]] Result<std::optional<CmRequest>> poll();

  /// Waits for a peer. A client whose private data is not lend's is rejected with the reason and
  /// does not end the wait.
  ///
  /// Errors:  timed_out, cancelled  no peer came; the message says why the last client was
  ///                     rejected, if one was. The listener is as before.
  ///          peer_lost  the device it listens on was removed.
  ///          exhausted  no descriptor for a peer's connection; the peer is rejected.
  ///          stale_handle  the listener was moved from.
  [[nodiscard]] Result<CmRequest> next(Deadline deadline);

 private:
  struct State;
  explicit CmListener(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace lend
