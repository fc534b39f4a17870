// SPDX-License-Identifier: MIT OR Apache-2.0
// Awaiting connections by rdma_cm. One thread at a time per object.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>
#include <lend/cm/connection.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace lend {

/// A peer that wants to connect. Accept or reject it; dropped, it is rejected.
///
/// It depends on its listener no more: requests may be answered in any order, on any thread, and
/// after the listener is gone.
class CmRequest {
 public:
  CmRequest(CmRequest&&) noexcept;
  CmRequest& operator=(CmRequest&&) noexcept;
  ~CmRequest();

  [[nodiscard]] CmPeer const& peer() const noexcept;
  /// The device and port on which it came in: the queue pair to accept it with must be of these.
  [[nodiscard]] std::string const& device() const noexcept;
  [[nodiscard]] std::uint8_t port() const noexcept;

  /// Connects `queue_pair` to the peer; both sides are connected when this returns. `private_data`
  /// is what the peer finds in its CmPeer. Consumes both, also when it fails. What is found wrong
  /// before the peer is answered it is told; where the kernel refuses rdma_accept, or the deadline
  /// passes, it only learns that there is no connection.
  ///
  /// Errors:  as cm_connect(), and stale_handle  the request was answered or moved from before.
  /// Source:  rdma_accept(3); Linux drivers/infiniband/core/cma.c, rdma_accept(), which rejects.
  [[nodiscard]] Result<CmConnection> accept(PreparedQueuePair queue_pair, Deadline deadline,
                                            std::span<std::byte const> private_data = {}) &&;
  /// Turns the peer away. Its error shows `reason`, cut at cm_reason_bytes_max.
  /// Errors:  peer_lost     it is gone already. stale_handle.
  /// Source:  rdma_reject(3).
  [[nodiscard]] Result<void> reject(std::string_view reason) &&;

 private:
  friend class CmListener;
  struct State;
  explicit CmRequest(std::unique_ptr<State> state) noexcept;
  [[nodiscard]] State& state() const noexcept;  // stops where it was moved from
  std::unique_ptr<State> state_;
};

/// An address at which peers are awaited.
class CmListener {
 public:
  /// Binds to `address`, "host:port": host one of this machine's with an RDMA device, or 0.0.0.0 or
  /// [::] for any; port 0 lets the system choose.
  ///
  /// Shape:   backlog  requests that may wait to be looked at.
  /// Errors:  invalid_argument  not a host and a port.
  ///          not_found         no such host, or it is none of this machine's RDMA addresses.
  ///          denied            this process may not open /dev/infiniband/rdma_cm.
  ///          exhausted         out of descriptors or memory.
  ///          system_failed     from rdma_bind_addr or rdma_listen; in use, for example.
  ///          unsupported       no rdma_cm in this kernel or container; the message says why.
  /// Source:  rdma_bind_addr(3), rdma_listen(3).
  [[nodiscard]] static Result<CmListener> open(std::string_view address, int backlog = 128);
  CmListener(CmListener&&) noexcept;
  CmListener& operator=(CmListener&&) noexcept;
  ~CmListener();

  /// Where it listens, with the port that was chosen.
  [[nodiscard]] std::string const& address() const noexcept;

  /// Waits for a peer. Strangers, whose private data is not lend's contract, are rejected with the
  /// reason and do not end the wait.
  ///
  /// Errors:  timed_out, cancelled  nobody came; the message says what the last stranger did
  ///                     wrong, if one came. The listener is as before.
  ///          peer_lost  the device it listens on was removed.
  ///          exhausted  no descriptor for the connection of a peer that came; it is rejected.
  ///          stale_handle  it was moved from.
  [[nodiscard]] Result<CmRequest> next(Deadline deadline);

 private:
  struct State;
  explicit CmListener(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace lend
