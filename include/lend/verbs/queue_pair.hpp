// SPDX-License-Identifier: MIT OR Apache-2.0
// Queue pairs by their service, before and after they are connected: what a service lacks does not
// compile. One thread at a time.
#pragma once

#include <lend/verbs/any_queue_pair.hpp>
#include <lend/verbs/unsafe_batch.hpp>

#include <utility>

namespace lend {

template <IsService S>
class QueuePairOf;

/// A queue pair that is not connected yet. `PreparedQueuePair` is a reliable one.
template <IsService S>
class PreparedQueuePairOf : public AnyPreparedQueuePair {
 public:
  /// Shape:   depths of 1 to work_requests_max; elements of 1 to the smaller of the device's limit
  ///          and elements_max. The completion queue of the sends needs room for their depth and
  ///          the probes, that of the receives for theirs, in addition to other queue pairs'.
  /// Errors:  invalid_argument  names the option, its value and its limit; that of inline_bytes is
  ///                            found by trying, because no query reports it. Or the completion
  ///                            queue belongs to another Context, or has too little room left.
  ///          exhausted         too many queue pairs, or one too large; says which. Or no memory
  ///                            may be locked (RLIMIT_MEMLOCK is 0).
  ///          denied            the kernel refuses even the smallest with EPERM for another reason.
  ///          not_found         the port is not active, is Ethernet without a GID, or does not have
  ///                            the GID or partition of the options; the message lists those that
  ///                            exist.
  ///          unsupported       options.gid or another service than Rc on iWARP; or the device
  ///                            numbers queue pairs beyond 24 bits.
  ///          system_failed     a call failed otherwise, for instance reading the GID table; its
  ///                            errno may give a more specific code.
  /// Source:  ibv_create_qp(3), ibv_modify_qp(3), ibv_query_gid_ex(3).
  [[nodiscard]] static Result<PreparedQueuePairOf> create(ProtectionDomain const& domain,
                                                          CompletionQueues completions,
                                                          OptionsOf<S> const& options) {
    LEND_TRY(handle, make(domain, completions, complete(options), kind_of(options)));
    return PreparedQueuePairOf{std::move(handle)};
  }

  /// The same, but messages take the receives of `receives`, which other queue pairs share:
  /// receive_depth is not used, and the queue pair takes no receives of its own. The completion
  /// queue needs room for all of `receives`, once for all queue pairs that share both.
  /// Errors:  invalid_argument  `receives` belongs to another Context, or was moved from.
  /// Source:  ibv_create_qp(3), srq.
  [[nodiscard]] static Result<PreparedQueuePairOf> create(
      ProtectionDomain const& domain, CompletionQueues completions, OptionsOf<S> const& options,
      ReceiveQueue const& receives) requires IsConnected<S> {
    LEND_TRY(handle, make(domain, completions, complete(options), kind_of(options), receives));
    return PreparedQueuePairOf{std::move(handle)};
  }

  /// Connects to `peer`'s address, locally: no network round trip. The peer must do the same with
  /// this end's endpoint(). Consumes this queue pair: after an error it is gone. Takes no deadline:
  /// PreparedChannel::handshake() says what bounds it.
  ///
  /// Errors:  incompatible_peer  another kind of device, link, host, address form, RoCE version or
  ///                             service; the message has both.
  ///          not_found          the port is no longer active.
  ///          exhausted, system_failed  names the refused transition, and a descriptor limit.
  ///          invalid_argument   it was consumed or moved from before.
  ///          unsupported        an iWARP device, which only rdma_cm can connect (lend/cm).
  /// Source:  ibv_modify_qp(3), transitions of a connection.
  [[nodiscard]] Result<QueuePairOf<S>> connect(Endpoint const& peer) && requires IsConnected<S> {
    LEND_TRY(handle, connect_to(peer));
    return QueuePairOf<S>{std::move(handle)};
  }

  /// Lets it send and receive datagrams. Consumes this queue pair: after an error it is gone.
  /// Errors:  as connect().
  /// Source:  ibv_modify_qp(3), transitions of IBV_QPT_UD.
  [[nodiscard]] Result<QueuePairOf<S>> activate() && requires IsAddressed<S> {
    LEND_TRY(handle, activate_it());
    return QueuePairOf<S>{std::move(handle)};
  }

  /// The queue pair as it is, in INIT, for a program that moves it by unsafe_modify(). Consumes
  /// this object. Posts are refused by the device until the states allow them.
  /// Errors:  invalid_argument  it was consumed or moved from before.
  [[nodiscard]] Result<QueuePairOf<S>> unsafe_unconnected() && {
    LEND_TRY(handle, consume());
    return QueuePairOf<S>{std::move(handle)};
  }

 private:
  friend struct verbs::QueuePairAccess;
  explicit PreparedQueuePairOf(Handle handle) noexcept : AnyPreparedQueuePair{std::move(handle)} {}
  [[nodiscard]] static QueuePairOptions complete(OptionsOf<S> const& options) {
    if constexpr (std::same_as<S, Rc>)
      return options;
    else
      return options.complete();
  }
  [[nodiscard]] static Kind kind_of(OptionsOf<S> const& options) noexcept {
    if constexpr (IsAddressed<S>)
      return {S::service, options.queue_key};
    else
      return {S::service};
  }
};

/// A queue pair in use; `QueuePair` is a reliable one. Posts here lend nothing: the caller keeps
/// every buffer valid.
///
/// unsafe_post_…() post one signaled work request under `id` and return at once.
///
/// Shape:   empty elements are skipped; a list of empty elements is a message without bytes,
///          which verbs allow for all but atomic operations. An empty list needs an immediate, or
///          Receive::only_immediate().
/// The caller owes: every byte stays registered, and is accessed only as the operation allows, and
/// the Destination exists, until the completion with `id` was polled or this queue pair is
/// destroyed. Without acknowledgements a send or write completes once it left, whether it arrives
/// or not.
/// Errors:  invalid_argument  a range out of bounds, a region or Destination of another domain, an
///          empty list, too many elements, lengths that differ, or above message_bytes_max();
///          nothing posted.
///          queue_full        the depth is used up; nothing posted.
///          unsupported       an immediate on iWARP, an atomic operation on a device without;
///                            nothing posted.
///          system_failed     the device refused, nothing posted; or it does not say whether it
///                            took the work: then abort_all() before the bytes are accessed.
/// Source:  ibv_post_send(3), ibv_post_recv(3).
template <IsService S>
class QueuePairOf : public AnyQueuePair {
 public:
  [[nodiscard]] Result<void> unsafe_post_send(std::uint64_t id,
                                              Send const& work) noexcept requires IsConnected<S> {
    return post(id, work);
  }
  /// A datagram, which has one packet, and may arrive or not.
  [[nodiscard]] Result<void> unsafe_post_send(
      std::uint64_t id, Send const& work, Destination const& to) noexcept requires IsAddressed<S> {
    return post_to(id, work, to);
  }
  [[nodiscard]] Result<void> unsafe_post_write(std::uint64_t id,
                                               Write const& work) noexcept requires CanWrite<S> {
    return post(id, work);
  }
  [[nodiscard]] Result<void> unsafe_post_read(std::uint64_t id,
                                              Read const& work) noexcept requires CanRead<S> {
    return post(id, work);
  }
  [[nodiscard]] Result<void> unsafe_post_atomic(
      std::uint64_t id, Atomic const& work) noexcept requires HasAtomics<S> {
    return post(id, work);
  }
  /// Binds `window`, which is not bound, to `bytes`: the peer may read what is to be gathered, and
  /// write where is to be scattered. The answer is good for work of the peer behind a message
  /// that is posted here next; by other ways it may be told only after the completion of the bind.
  ///
  /// The caller owes: the bytes stay registered, and are accessed only as that allows, until an
  /// invalidation of the window completed, here or by a receive (CompletedWork::returned), or this
  /// queue pair is destroyed.
  /// Errors:  as the other posts, and
  ///          unsupported  the device has no windows: capabilities().windows.
  /// Source:  ibv_post_send(3), IBV_WR_BIND_MW.
  [[nodiscard]] Result<RemoteRegion> unsafe_post_bind(
      std::uint64_t id, MemoryWindow& window, GatherElement bytes) noexcept requires HasWindows<S> {
    return post_bind(id, window, bytes, RemoteAccess::read);
  }
  [[nodiscard]] Result<RemoteRegion> unsafe_post_bind(std::uint64_t id, MemoryWindow& window,
                                                      ScatterElement bytes) noexcept requires
      HasWindows<S> {
    return post_bind(id, window, {bytes.region, bytes.range}, RemoteAccess::write);
  }
  /// Invalidates the key of a window that this queue pair has bound: when it completes, the peer
  /// accesses the bytes no more. The caller owes: not a key that is invalid already, with which the
  /// kernel of SoftRoCE crashes; a card may refuse it, and break the connection.
  /// Source:  ibv_post_send(3), IBV_WR_LOCAL_INV; Linux drivers/infiniband/sw/rxe/rxe_mw.c,
  ///          rxe_do_invalidate_mw().
  [[nodiscard]] Result<void> unsafe_post_invalidate(
      std::uint64_t id, std::uint32_t key) noexcept requires HasWindows<S> {
    return post_invalidate(id, key);
  }
  [[nodiscard]] Result<void> unsafe_post_receive(
      std::uint64_t id, Receive const& work) noexcept requires IsConnected<S> {
    return post(id, work);
  }
  [[nodiscard]] Result<void> unsafe_post_receive(
      std::uint64_t id, DatagramRoom const& room) noexcept requires IsAddressed<S> {
    return post(id, Receive{room.element()});
  }

  /// An empty batch, which posts several requests with one doorbell; see there.
  [[nodiscard]] UnsafeBatchOf<S> unsafe_batch() const noexcept {
    return UnsafeBatchOf<S>{batch_owner()};
  }

  /// Posts a signaled zero-byte write under `id`, which the peer's device acknowledges. It needs no
  /// key and no memory, and the peer's program does not see it. The peer's queue pair must allow
  /// remote writes, as lend's do. The caller owes: an `id` that no other work of this queue pair
  /// has, and room for its completion in the completion queue.
  /// Source:  InfiniBand Architecture Specification vol. 1, C9-88; Linux
  ///          drivers/infiniband/sw/rxe/rxe_resp.c, check_rkey().
  [[nodiscard]] Probe unsafe_post_probe(std::uint64_t id) noexcept requires Acknowledges<S> {
    return post_probe(id);
  }
  /// Whether a probe's completion comes from the peer: not on iWARP, where a write completes once
  /// sent.
  [[nodiscard]] bool is_acknowledged() const noexcept requires Acknowledges<S> {
    return is_answered();
  }

  /// Where the datagram queue pair is whose endpoint() is `peer`.
  /// Errors:  incompatible_peer  as PreparedQueuePairOf::connect().
  ///          exhausted, system_failed  the device refused.
  /// Source:  ibv_create_ah(3).
  [[nodiscard]] Result<Destination> destination(Endpoint const& peer) const requires
      IsAddressed<S> {
    return destination_at(peer);
  }
  /// Back to the sender of a datagram. `header`: the room's first 40 bytes. `queue_key`: the
  /// sender's, which no datagram says.
  /// Errors:  invalid_argument  the header is not of a datagram that came to this port.
  ///          exhausted, system_failed  the device refused.
  /// Source:  ibv_create_ah_from_wc(3).
  [[nodiscard]] Result<Destination> destination(
      DatagramSender const& sender, std::span<std::byte const> header,
      std::uint32_t queue_key) const requires IsAddressed<S> {
    return destination_back(sender, header, queue_key);
  }

  /// Why the connection has ended, if a connection manager reports it before `deadline`: the peer
  /// disconnected, or the device was removed. Nothing for a connection made by connect(). Costs a
  /// system call.
  [[nodiscard]] std::optional<Error> lost(Deadline deadline) noexcept requires IsConnected<S> {
    return lost_before(deadline);
  }
  [[nodiscard]] bool is_watched() const noexcept requires IsConnected<S> { return has_keeper(); }
  [[nodiscard]] Endpoint const& peer() const noexcept requires IsConnected<S> {
    return connected_peer();
  }

 private:
  friend class PreparedQueuePairOf<S>;
  friend struct verbs::QueuePairAccess;
  explicit QueuePairOf(Handle handle) noexcept : AnyQueuePair{std::move(handle)} {}
};

using PreparedQueuePair = PreparedQueuePairOf<Rc>;
using PreparedUnreliableQueuePair = PreparedQueuePairOf<Uc>;
using PreparedDatagramQueuePair = PreparedQueuePairOf<Ud>;
using QueuePair = QueuePairOf<Rc>;
using UnreliableQueuePair = QueuePairOf<Uc>;
using DatagramQueuePair = QueuePairOf<Ud>;

}  // namespace lend
