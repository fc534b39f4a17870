// SPDX-License-Identifier: MIT OR Apache-2.0
// A reliable connected queue pair, before and after it is connected. One thread at a time.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/completion_queue.hpp>
#include <lend/verbs/endpoint.hpp>
#include <lend/verbs/gid.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <lend/verbs/work_request.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

struct ibv_qp;

namespace lend {

/// Options of a queue pair. A depth is the maximum number of outstanding requests.
struct QueuePairOptions {
  std::uint32_t send_depth = 128;
  std::uint32_t receive_depth = 128;
  std::uint32_t elements = 4;  ///< maximum gather or scatter elements of one work request
  std::optional<std::uint32_t> receive_elements{};  ///< of one receive; nothing: as `elements`
  std::uint32_t inline_bytes = 0;  ///< sends and writes up to this size are copied when posted
  /// How long the device waits for an acknowledgement; rounded up to 4.096 µs · 2^n.
  std::chrono::nanoseconds ack_timeout = std::chrono::milliseconds{67};
  std::uint8_t ack_retries = 6;  ///< 0 to 7; on SoftRoCE 7 is unlimited (rxe_comp.c)
  /// 0 to 6; nothing: unlimited, a message waits for the peer's receive.
  std::optional<std::uint8_t> receiver_not_ready_retries{};
  /// How long the peer's sender waits if no receive is posted here; rounded up to the device's
  /// table, 0.01 ms to 655.36 ms.
  std::chrono::nanoseconds receiver_not_ready_delay = std::chrono::microseconds{640};
  std::uint32_t probes = 0;  ///< maximum outstanding unsafe_post_probe(), in addition to send_depth
  GidChoice gid{};           ///< this end's address; by default the first of Context::gids()
  /// Payload of a packet, at most: 256, 512, 1024, 2048 or 4096, not above the port's; 0: the
  /// port's. Of both ends the smaller one applies.
  std::uint32_t mtu_bytes = 0;
  /// Reads and atomic operations outstanding here, at most, and those of the peer that this end
  /// serves at once: 1 to the device's limits; nothing: the smaller of those and 16.
  std::optional<std::uint8_t> reads_in_flight{};
  std::optional<std::uint8_t> reads_served{};
  /// What the peer may do here at all; each region says again what it may do there. Without `write`
  /// the keep-alives of the peer are refused. RemoteAccess{}: nothing.
  RemoteAccess remote_access = RemoteAccess::all;
  // By rdma_cm the route decides the rest, and all but the defaults are refused.
  std::uint8_t service_level = 0;  ///< 0 to 15: InfiniBand's SL, the priority of Ethernet
  std::uint8_t traffic_class = 0;  ///< of IPv6 and RoCE v2; the upper six bits are the DSCP
  /// The partition, by its key in Context::partition_keys(), which the peer needs, too; nothing:
  /// the first. Bit 15, full member, is ignored.
  std::optional<std::uint16_t> partition_key{};
};

/// Maximum elements of one work request, whatever the device.
inline constexpr std::uint32_t elements_max = 32;

class QueuePair;
class ReceiveQueue;
namespace verbs {
struct QueuePairDoor;
struct QueuePairHandle;
struct ReceiveQueueHandle;
}  // namespace verbs

/// A queue pair that is not connected yet.
class LEND_EXPORT PreparedQueuePair {
 public:
  PreparedQueuePair(PreparedQueuePair&&) noexcept;
  PreparedQueuePair& operator=(PreparedQueuePair&&) noexcept;
  ~PreparedQueuePair();

  /// Shape:   depths of 1 to work_requests_max; elements of 1 to the smaller of the device's limit
  ///          and elements_max. The completion queue needs room for both depths and the probes, in
  ///          addition to those of other queue pairs that use it.
  /// Errors:  invalid_argument  names the option, its value and its limit; that of inline_bytes is
  ///                            found by trying, because no query reports it. Or the completion
  ///                            queue belongs to another Context, or has too little room left.
  ///          exhausted         too many queue pairs, or one too large; says which. Or no memory
  ///                            may be locked (RLIMIT_MEMLOCK is 0).
  ///          denied            the kernel refuses even the smallest with EPERM for another reason.
  ///          not_found         the port is not active, is Ethernet without a GID, or does not have
  ///                            the GID or partition of the options; the message lists those that
  ///                            exist.
  ///          unsupported       options.gid on iWARP, where rdma_cm selects addresses; or the
  ///                            device numbers queue pairs beyond 24 bits.
  ///          system_failed     a call failed otherwise, for instance reading the GID table; its
  ///                            errno may give a more specific code.
  /// Source:  ibv_create_qp(3), ibv_modify_qp(3), ibv_query_gid_ex(3).
  [[nodiscard]] static Result<PreparedQueuePair> create(ProtectionDomain const& domain,
                                                        CompletionQueue const& completions,
                                                        QueuePairOptions const& options);

  /// The same, but messages take the receives of `receives`, which other queue pairs share:
  /// receive_depth is not used, and the queue pair takes no receives of its own. The completion
  /// queue needs room for all of `receives`, once for all queue pairs that share both.
  /// Errors:  invalid_argument  `receives` belongs to another Context, or was moved from.
  /// Source:  ibv_create_qp(3), srq.
  [[nodiscard]] static Result<PreparedQueuePair> create(ProtectionDomain const& domain,
                                                        CompletionQueue const& completions,
                                                        QueuePairOptions const& options,
                                                        ReceiveQueue const& receives);

  /// This end's address, which the peer needs.
  [[nodiscard]] Endpoint const& endpoint() const noexcept;

  /// Connects to `peer`'s address, locally: no network round trip. The peer must do the same with
  /// this end's endpoint(). Consumes this queue pair: after an error it is gone. Takes no deadline:
  /// PreparedChannel::handshake() says what bounds it.
  ///
  /// Errors:  incompatible_peer  another kind of device, link, host, address form or RoCE version;
  ///                             the message has both.
  ///          not_found          the port is no longer active.
  ///          exhausted, system_failed  names the refused transition, and a descriptor limit.
  ///          invalid_argument   it was consumed or moved from before.
  ///          unsupported        an iWARP device, which only rdma_cm can connect (lend/cm).
  /// Source:  ibv_modify_qp(3), transitions of a reliable connection.
  [[nodiscard]] Result<QueuePair> connect(Endpoint const& peer) &&;

  /// Null after it was consumed or moved from.
  [[nodiscard]] ibv_qp* native() const noexcept;

 private:
  friend struct verbs::QueuePairDoor;
  [[nodiscard]] static Result<PreparedQueuePair> create(
      ProtectionDomain const& domain, CompletionQueue const& completions,
      QueuePairOptions const& options,
      std::shared_ptr<verbs::ReceiveQueueHandle> const& shared_receives);
  explicit PreparedQueuePair(std::shared_ptr<verbs::QueuePairHandle> handle) noexcept;
  std::shared_ptr<verbs::QueuePairHandle> handle_;
};

/// A connected queue pair. Posts here lend nothing: the caller keeps every buffer valid.
class LEND_EXPORT QueuePair {
 public:
  QueuePair(QueuePair&&) noexcept;
  QueuePair& operator=(QueuePair&&) noexcept;
  ~QueuePair();

  /// Posts one signaled work request under `id` and returns at once.
  ///
  /// Shape:   empty elements are skipped; a list of empty elements is a message without bytes,
  ///          which verbs allow for all but atomic operations. An empty list needs an immediate, or
  ///          Receive::only_immediate().
  /// The caller owes: every byte stays registered, and is accessed only as the operation allows,
  /// until the completion with `id` was polled or this queue pair is destroyed.
  /// Errors:  invalid_argument  a range out of bounds, a region of another domain, an empty list,
  ///          too many elements, lengths that differ, or above message_bytes_max; nothing posted.
  ///          queue_full        the depth is used up; nothing posted.
  ///          unsupported       an immediate on iWARP, an atomic operation on a device without;
  ///                            nothing posted.
  ///          system_failed     the device refused, nothing posted; or it does not say whether it
  ///                            took the work: then abort_all() before the bytes are accessed.
  /// Source:  ibv_post_send(3), ibv_post_recv(3).
  [[nodiscard]] Result<void> unsafe_post_send(std::uint64_t id, Send const& work) noexcept;
  [[nodiscard]] Result<void> unsafe_post_write(std::uint64_t id, Write const& work) noexcept;
  [[nodiscard]] Result<void> unsafe_post_read(std::uint64_t id, Read const& work) noexcept;
  [[nodiscard]] Result<void> unsafe_post_atomic(std::uint64_t id, Atomic const& work) noexcept;
  [[nodiscard]] Result<void> unsafe_post_receive(std::uint64_t id, Receive const& work) noexcept;

  enum class Probe : std::uint8_t {
    posted,
    refused,
    unclear,  ///< the device failed and does not say whether it took it: abort_all()
  };
  /// Posts a signaled zero-byte write under `id`, which the peer's device acknowledges. It needs no
  /// key and no memory, and the peer's program does not see it. The peer's queue pair must allow
  /// remote writes, as lend's do. The caller owes: an `id` that no other work of this queue pair
  /// has, and room for its completion in the completion queue.
  /// Source:  InfiniBand Architecture Specification vol. 1, C9-88; Linux
  ///          drivers/infiniband/sw/rxe/rxe_resp.c, check_rkey().
  [[nodiscard]] Probe unsafe_post_probe(std::uint64_t id) noexcept;
  /// Whether a probe's completion comes from the peer: not on iWARP, where a write completes once
  /// sent.
  [[nodiscard]] bool is_acknowledged() const noexcept;

  /// Moves the queue pair to the error state: every outstanding request completes with
  /// WR_FLUSH_ERR. Not MPI_Win_flush: it aborts the work and waits for nothing.
  /// Errors:  system_failed.
  /// Source:  ibv_modify_qp(3), any state to ERR.
  [[nodiscard]] Result<void> abort_all() noexcept;

  /// Destroys the queue pair now. Then the device no longer accesses bytes that were posted here,
  /// and no completion of it comes.
  /// Errors:  system_failed  the device kept it and may access those bytes at any time; the
  ///                         destructor does not try again.
  /// Source:  ibv_destroy_qp(3).
  [[nodiscard]] Result<void> destroy() && noexcept;

  /// Queries the device. Costs a system call except on the soft device.
  [[nodiscard]] QueuePairState state() const noexcept;

  /// Whether the device reports that its port is not active. Costs a system call, as state() does.
  [[nodiscard]] bool port_is_down() const noexcept;

  /// Why the connection has ended, if a connection manager reports it before `deadline`: the peer
  /// disconnected, or the device was removed. Nothing for a connection made by connect(). Costs a
  /// system call.
  [[nodiscard]] std::optional<Error> lost(Deadline deadline) noexcept;
  [[nodiscard]] bool is_watched() const noexcept;

  [[nodiscard]] QueuePairNumber number() const noexcept;
  [[nodiscard]] Endpoint const& endpoint() const noexcept;
  [[nodiscard]] Endpoint const& peer() const noexcept;
  /// The granted number, which may exceed the requested one.
  [[nodiscard]] std::uint32_t inline_bytes() const noexcept;
  [[nodiscard]] std::uint32_t elements() const noexcept;
  [[nodiscard]] std::uint32_t receive_elements() const noexcept;
  /// The largest message, as this port reports it.
  [[nodiscard]] std::uint64_t message_bytes_max() const noexcept;
  /// Null after a move.
  [[nodiscard]] ibv_qp* native() const noexcept;

 private:
  friend class PreparedQueuePair;
  friend struct verbs::QueuePairDoor;
  explicit QueuePair(std::shared_ptr<verbs::QueuePairHandle> handle) noexcept;
  [[nodiscard]] verbs::QueuePairHandle& handle() const noexcept;  // stops where it was moved from
  std::shared_ptr<verbs::QueuePairHandle> handle_;                // one owner; others watch
};

}  // namespace lend
