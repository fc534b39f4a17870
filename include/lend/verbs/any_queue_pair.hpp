// SPDX-License-Identifier: MIT OR Apache-2.0
// What queue pairs of every service have, and how they post: QueuePairOf says which may. One thread
// at a time.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/completion_queue.hpp>
#include <lend/verbs/datagram.hpp>
#include <lend/verbs/endpoint.hpp>
#include <lend/verbs/memory_window.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <lend/verbs/queue_pair_change.hpp>
#include <lend/verbs/queue_pair_options.hpp>
#include <lend/verbs/service.hpp>
#include <lend/verbs/work_request.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

struct ibv_qp;

namespace lend {

class ReceiveQueue;
namespace verbs {
struct QueuePairAccess;
struct QueuePairHandle;
struct ReceiveQueueHandle;
}  // namespace verbs

/// Where the work of a queue pair completes: in one queue, or its receives in another one.
struct CompletionQueues {
  CompletionQueue const& sends;  ///< writes, reads and atomic operations, too
  CompletionQueue const& receives;

  // NOLINTNEXTLINE(google-explicit-constructor): so that one queue says both.
  CompletionQueues(CompletionQueue const& both LEND_LIFETIMEBOUND) noexcept
      : sends{both}, receives{both} {}
  CompletionQueues(CompletionQueue const& of_sends LEND_LIFETIMEBOUND,
                   CompletionQueue const& of_receives LEND_LIFETIMEBOUND) noexcept
      : sends{of_sends}, receives{of_receives} {}
};

/// A queue pair that is not connected yet: PreparedQueuePairOf.
class LEND_EXPORT AnyPreparedQueuePair {
 public:
  /// This end's address, which the peer needs.
  [[nodiscard]] Endpoint const& endpoint() const noexcept;
  /// Null after it was consumed or moved from.
  [[nodiscard]] ibv_qp* native() const noexcept;

 protected:
  struct Kind {
    Service service = Service::reliable_connection;
    std::uint32_t queue_key = 0;  ///< of datagrams
  };
  using Handle = std::shared_ptr<verbs::QueuePairHandle>;

  explicit AnyPreparedQueuePair(Handle handle) noexcept;
  AnyPreparedQueuePair(AnyPreparedQueuePair&&) noexcept;
  AnyPreparedQueuePair& operator=(AnyPreparedQueuePair&&) noexcept;
  ~AnyPreparedQueuePair();
  [[nodiscard]] static Result<Handle> make(ProtectionDomain const& domain,
                                           CompletionQueues completions,
                                           QueuePairOptions const& options, Kind kind);
  [[nodiscard]] static Result<Handle> make(ProtectionDomain const& domain,
                                           CompletionQueues completions,
                                           QueuePairOptions const& options, Kind kind,
                                           ReceiveQueue const& receives);
  [[nodiscard]] Result<Handle> connect_to(Endpoint const& peer);
  [[nodiscard]] Result<Handle> consume();
  [[nodiscard]] Result<Handle> activate_it();

 private:
  friend struct verbs::QueuePairAccess;
  [[nodiscard]] static Result<Handle> make(
      ProtectionDomain const& domain, CompletionQueues completions, QueuePairOptions const& options,
      Kind kind, std::shared_ptr<verbs::ReceiveQueueHandle> const& shared_receives);
  Handle handle_;
};

/// A queue pair in use: QueuePairOf.
class LEND_EXPORT AnyQueuePair {
 public:
  /// Moves the queue pair to the error state: every outstanding request completes with
  /// WR_FLUSH_ERR. Not MPI_Win_flush: it aborts the work and waits for nothing. One in RESET has
  /// no requests, and stays there.
  /// Errors:  system_failed.
  /// Source:  ibv_modify_qp(3), any state but RESET to ERR; Linux drivers/infiniband/core/verbs.c,
  ///          qp_state_table.
  [[nodiscard]] Result<void> abort_all() noexcept;

  /// Destroys the queue pair now. Then the device no longer accesses bytes that were posted here,
  /// and no completion of it comes.
  /// Errors:  system_failed  the device kept it and may access those bytes at any time; the
  ///                         destructor does not try again.
  /// Source:  ibv_destroy_qp(3).
  [[nodiscard]] Result<void> destroy() && noexcept;

  /// Queries the device. Costs a system call except on the soft device.
  [[nodiscard]] QueuePairState state() const noexcept;

  /// Changes attributes and state by hand.
  ///
  /// The caller owes: what lend assumes of a connection, where its calls go on being used: RESET
  /// drops the requests that are outstanding. Completions that were not polled before may come
  /// afterwards, or not.
  /// Errors:  invalid_argument  names each attribute that the transition lacks or does not take,
  ///                            or the value that is out of range; or there is no such transition,
  ///                            or the queue pair is not in the state `from`, or its port is not
  ///                            the path's. The device was not asked.
  ///          unsupported       iWARP, whose queue pairs only rdma_cm moves.
  ///          system_failed     the device refused it, with its errno.
  /// Source:  ibv_modify_qp(3).
  [[nodiscard]] Result<void> unsafe_modify(QueuePairChange const& change);
  /// Errors:  system_failed  the device could not be asked.
  /// Source:  ibv_query_qp(3).
  [[nodiscard]] Result<QueuePairFacts> query() const;

  /// Whether the device reports that its port is not active. Costs a system call, as state() does.
  [[nodiscard]] bool port_is_down() const noexcept;

  [[nodiscard]] Service service() const noexcept;
  [[nodiscard]] QueuePairNumber number() const noexcept;
  [[nodiscard]] Endpoint const& endpoint() const noexcept;
  /// Sends and writes of up to so many bytes are copied when they are posted: as many as were asked
  /// for, or, if none were, of inline_bytes_unasked as many as the device takes.
  [[nodiscard]] std::uint32_t inline_bytes() const noexcept;
  [[nodiscard]] std::uint32_t elements() const noexcept;
  [[nodiscard]] std::uint32_t receive_elements() const noexcept;
  /// The largest message, as this port reports it; of datagrams its MTU.
  [[nodiscard]] std::uint64_t message_bytes_max() const noexcept;
  /// Null after a move.
  [[nodiscard]] ibv_qp* native() const noexcept;

  enum class Probe : std::uint8_t {
    posted,
    refused,
    unclear,  ///< the device failed and does not say whether it took it: abort_all()
  };

 protected:
  using Handle = std::shared_ptr<verbs::QueuePairHandle>;

  explicit AnyQueuePair(Handle handle) noexcept;
  AnyQueuePair(AnyQueuePair&&) noexcept;
  AnyQueuePair& operator=(AnyQueuePair&&) noexcept;
  ~AnyQueuePair();
  [[nodiscard]] Result<void> post(std::uint64_t id, Send const& work) noexcept;
  [[nodiscard]] Result<void> post(std::uint64_t id, Write const& work) noexcept;
  [[nodiscard]] Result<void> post(std::uint64_t id, Read const& work) noexcept;
  [[nodiscard]] Result<void> post(std::uint64_t id, Atomic const& work) noexcept;
  [[nodiscard]] Result<void> post(std::uint64_t id, Receive const& work) noexcept;
  [[nodiscard]] Result<void> post_to(std::uint64_t id, Send const& work,
                                     Destination const& to) noexcept;
  [[nodiscard]] Result<RemoteRegion> post_bind(std::uint64_t id, MemoryWindow& window,
                                               GatherElement bytes, RemoteAccess access) noexcept;
  [[nodiscard]] Result<void> post_invalidate(std::uint64_t id, std::uint32_t key) noexcept;
  [[nodiscard]] Probe post_probe(std::uint64_t id) noexcept;
  [[nodiscard]] Result<Destination> destination_at(Endpoint const& peer) const;
  [[nodiscard]] Result<Destination> destination_back(DatagramSender const& sender,
                                                     std::span<std::byte const> header,
                                                     std::uint32_t queue_key) const;
  [[nodiscard]] bool is_answered() const noexcept;
  [[nodiscard]] Endpoint const& connected_peer() const noexcept;
  [[nodiscard]] std::optional<Error> lost_before(Deadline deadline) noexcept;
  [[nodiscard]] bool has_keeper() const noexcept;
  [[nodiscard]] verbs::QueuePairHandle const& batch_owner() const noexcept { return handle(); }

 private:
  friend struct verbs::QueuePairAccess;
  [[nodiscard]] verbs::QueuePairHandle& handle() const noexcept;  // stops where it was moved from
  Handle handle_;                                                 // one owner; others watch
};

}  // namespace lend
