// SPDX-License-Identifier: MIT OR Apache-2.0
// A reliable connected queue pair, before and after it is connected. One thread at a time.
#pragma once

#include <lend/base/deadline.hpp>
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

/// What a queue pair is made with. Depths are what can be outstanding at once.
struct QueuePairOptions {
  std::uint32_t send_depth = 128;
  std::uint32_t receive_depth = 128;
  std::uint32_t elements = 4;      ///< gather or scatter elements of one work request, at most
  std::uint32_t inline_bytes = 0;  ///< sends and writes up to this are copied when posted
  /// How long the device waits for an acknowledgement; rounded up to 4.096 µs · 2^n.
  std::chrono::nanoseconds ack_timeout = std::chrono::milliseconds{67};
  std::uint8_t ack_retries = 6;  ///< 0 to 7; SoftRoCE takes 7 for endless (rxe_comp.c)
  /// 0 to 6, or nothing: without end. A message then waits for the peer's receive.
  std::optional<std::uint8_t> receiver_not_ready_retries{};
  /// What this end asks a sender to wait when no receive is posted; rounded up to the device's
  /// table, 0.01 ms to 655.36 ms.
  std::chrono::nanoseconds receiver_not_ready_delay = std::chrono::microseconds{640};
  std::uint32_t probes = 0;  ///< of unsafe_post_probe() outstanding at once, beside send_depth
  GidChoice gid{};           ///< the address of this end; by default the first of Context::gids()
};

/// Elements of one work request in any build.
inline constexpr std::uint32_t elements_max = 32;

struct QueuePairHandle;
class QueuePair;

/// A queue pair that is not connected yet.
class PreparedQueuePair {
 public:
  PreparedQueuePair(PreparedQueuePair&&) noexcept;
  PreparedQueuePair& operator=(PreparedQueuePair&&) noexcept;
  ~PreparedQueuePair();

  /// Shape:   depths of 1 to work_requests_max; elements of 1 to the smaller of the device's limit
  ///          and elements_max. The completion queue must have room for both depths and the probes,
  ///          besides those of the other queue pairs that use it.
  /// Errors:  invalid_argument  names the option, its value and its limit; of inline_bytes, which
  ///                            no query tells, that is found by trying. Or the completion queue
  ///                            is of another Context, or has too little room left.
  ///          exhausted         too many queue pairs, or too large a one; says which. Or no memory
  ///                            may be locked (RLIMIT_MEMLOCK is 0).
  ///          denied            the kernel refuses even the smallest with EPERM for another reason.
  ///          not_found         the port is not active now, has no GID and is Ethernet, or has not
  ///                            the one that options.gid asks for; has what there is.
  ///          unsupported       options.gid on iWARP, whose addresses rdma_cm picks; or the device
  ///                            numbers queue pairs beyond 24 bits.
  ///          system_failed     a call failed otherwise, as where the port or its GID table cannot
  ///                            be read; another code where its errno says more.
  /// Source:  ibv_create_qp(3), ibv_modify_qp(3), ibv_query_gid_ex(3).
  [[nodiscard]] static Result<PreparedQueuePair> create(ProtectionDomain const& domain,
                                                        CompletionQueue const& completions,
                                                        QueuePairOptions const& options);

  /// What the peer must know.
  [[nodiscard]] Endpoint const& endpoint() const noexcept;

  /// Connects to `peer`, whose side must do the same with this end's endpoint(). Consumes this
  /// queue pair: after an error it is gone. No deadline: PreparedChannel::handshake() says what
  /// bounds it.
  ///
  /// Errors:  incompatible_peer  another kind of device, link, host, address form or RoCE version;
  ///                             the message has both.
  ///          not_found          the port is not active any more.
  ///          exhausted, system_failed  names the refused transition; and of descriptors the limit.
  ///          invalid_argument   it was consumed or moved from before.
  ///          unsupported        an iWARP device, which only rdma_cm connects (lend/cm).
  /// Source:  ibv_modify_qp(3), transitions of a reliable connection.
  [[nodiscard]] Result<QueuePair> connect(Endpoint const& peer) &&;

  /// Null once consumed or moved from.
  [[nodiscard]] ibv_qp* native() const noexcept;

 private:
  friend struct QueuePairDoor;
  explicit PreparedQueuePair(std::unique_ptr<QueuePairHandle> handle) noexcept;
  std::unique_ptr<QueuePairHandle> handle_;
};

/// A connected queue pair. Posting here is raw: nothing is lent, the caller owes every buffer.
class QueuePair {
 public:
  QueuePair(QueuePair&&) noexcept;
  QueuePair& operator=(QueuePair&&) noexcept;
  ~QueuePair();

  /// Posts one signaled work request under `id` and returns at once.
  ///
  /// Shape:   elements of no bytes are left out; a list of nothing but these is a message of no
  ///          bytes, which the verbs allow of all four. An empty list needs an immediate, or
  ///          Receive::only_immediate().
  /// The caller owes: every byte named stays registered, and is touched only as the operation
  /// allows, until the completion with `id` was polled or this queue pair is destroyed.
  /// Errors:  invalid_argument  a range out of bounds, a region of another domain, an empty list,
  ///          too many elements, lengths that differ, or above message_bytes_max; nothing posted.
  ///          queue_full        the depth is used up; nothing posted.
  ///          unsupported       an immediate on iWARP; nothing posted.
  ///          system_failed     the device refused, nothing posted; or it does not say whether it
  ///                            took the work: then flush() before its bytes are touched.
  /// Source:  ibv_post_send(3), ibv_post_recv(3).
  [[nodiscard]] Result<void> unsafe_post_send(std::uint64_t id, Send const& work) noexcept;
  [[nodiscard]] Result<void> unsafe_post_write(std::uint64_t id, Write const& work) noexcept;
  [[nodiscard]] Result<void> unsafe_post_read(std::uint64_t id, Read const& work) noexcept;
  [[nodiscard]] Result<void> unsafe_post_receive(std::uint64_t id, Receive const& work) noexcept;

  enum class Probe : std::uint8_t {
    posted,
    refused,
    unclear,  ///< the device failed and does not say whether it took it: flush()
  };
  /// Asks the peer's device whether it is there: a signaled write of no bytes under `id`, which
  /// needs no key and no memory, and which the peer's program does not see.
  /// The peer's queue pair must allow remote writes, as lend's do.
  /// The caller owes: an `id` that no other work here has, and room for its completion in the
  /// completion queue.
  /// Source:  InfiniBand Architecture Specification vol. 1, C9-88; Linux
  ///          drivers/infiniband/sw/rxe/rxe_resp.c, check_rkey().
  [[nodiscard]] Probe unsafe_post_probe(std::uint64_t id) noexcept;
  /// Whether a probe's end tells of the peer: not on iWARP, where a write is over once it is sent.
  [[nodiscard]] bool is_acknowledged() const noexcept;

  /// Puts the queue pair in the error state: all outstanding work completes as flushed.
  /// Errors:  system_failed.
  /// Source:  ibv_modify_qp(3), any state to ERR.
  [[nodiscard]] Result<void> flush() noexcept;

  /// Destroys it now; it is not there afterwards. Then no device touches what was posted here, and
  /// no completion of it comes.
  /// Errors:  system_failed  the device kept it, and may touch those bytes at any time; the
  ///                         destructor does not try again.
  /// Source:  ibv_destroy_qp(3).
  [[nodiscard]] Result<void> destroy() && noexcept;

  /// Asks the device. Costs a system call on hardware.
  [[nodiscard]] QueuePairState state() const noexcept;

  /// Whether the device says that its port is not active. Costs a system call on hardware.
  [[nodiscard]] bool port_is_down() const noexcept;

  /// Why the connection is over, if a connection manager tells before `deadline`: the peer
  /// disconnected, or the device was removed. Never for one made by connect(), which nobody
  /// watches. Costs a system call.
  [[nodiscard]] std::optional<Error> lost(Deadline deadline) noexcept;
  [[nodiscard]] bool is_watched() const noexcept;

  [[nodiscard]] QueuePairNumber number() const noexcept;
  [[nodiscard]] Endpoint const& endpoint() const noexcept;
  [[nodiscard]] Endpoint const& peer() const noexcept;
  /// Granted, which may be more than was asked for.
  [[nodiscard]] std::uint32_t inline_bytes() const noexcept;
  [[nodiscard]] std::uint32_t elements() const noexcept;
  /// The largest message, as this port states it.
  [[nodiscard]] std::uint64_t message_bytes_max() const noexcept;
  /// Null once moved from.
  [[nodiscard]] ibv_qp* native() const noexcept;

 private:
  friend class PreparedQueuePair;
  friend struct QueuePairDoor;
  explicit QueuePair(std::unique_ptr<QueuePairHandle> handle) noexcept;
  [[nodiscard]] QueuePairHandle& handle() const noexcept;  // stops where it was moved from
  std::unique_ptr<QueuePairHandle> handle_;
};

}  // namespace lend
