// SPDX-License-Identifier: MIT OR Apache-2.0
// Requests of one queue pair that are posted together, without loans. The thread of the queue pair.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/chain_storage.hpp>
#include <lend/verbs/datagram.hpp>
#include <lend/verbs/service.hpp>
#include <lend/verbs/work_request.hpp>

#include <cstdint>

namespace lend {

namespace verbs {
struct QueuePairHandle;
}  // namespace verbs

/// Whether a request completes by itself, or with the next one of its queue that does.
enum class Completes : std::uint8_t { aloud, silently };

/// What batches of every service have: UnsafeBatchOf.
class LEND_EXPORT AnyUnsafeBatch {
 public:
  AnyUnsafeBatch(AnyUnsafeBatch const&) = delete;
  AnyUnsafeBatch& operator=(AnyUnsafeBatch const&) = delete;

  /// Maximum number of requests; fewer if they have many elements.
  static constexpr std::uint32_t requests_max = 32;

  /// Posts the receives, then the other requests, each in the order of adding, with one call of
  /// the device for each of the two. Afterwards the batch is empty and may be filled again.
  ///
  /// Errors:  queue_full     the device has no room: the requests before are posted, the others
  ///                         stay; poll, then call again.
  ///          system_failed  the device refused a request: those before are posted, it and the
  ///                         others stay: drop() them, or call again. Or it does not say which it
  ///                         took: then the batch is empty, and abort_all() comes before the bytes
  ///                         are accessed.
  /// Source:  ibv_post_send(3), ibv_post_recv(3): requests before bad_wr are posted.
  [[nodiscard]] Result<void> post() noexcept;
  /// Forgets what is not posted.
  void drop() noexcept;
  /// Number of requests that were added and not posted.
  [[nodiscard]] std::uint32_t size() const noexcept;

 protected:
  explicit AnyUnsafeBatch(verbs::QueuePairHandle const& queue_pair) noexcept;
  ~AnyUnsafeBatch() = default;
  [[nodiscard]] Result<void> add(std::uint64_t id, Send const& work, Completes how) noexcept;
  [[nodiscard]] Result<void> add(std::uint64_t id, Write const& work, Completes how) noexcept;
  [[nodiscard]] Result<void> add(std::uint64_t id, Read const& work, Completes how) noexcept;
  [[nodiscard]] Result<void> add(std::uint64_t id, Atomic const& work, Completes how) noexcept;
  [[nodiscard]] Result<void> add(std::uint64_t id, Receive const& work) noexcept;
  [[nodiscard]] Result<void> add_to(std::uint64_t id, Send const& work, Destination const& to,
                                    Completes how) noexcept;

 private:
  template <class Work>
  [[nodiscard]] Result<void> append(std::uint64_t id, Work const& work, Completes how) noexcept;

  verbs::QueuePairHandle const* queue_pair_;
  bool is_cut_ = false;  // post() left requests
  verbs::ChainStorage storage_;
};

/// Collects requests and posts them with one doorbell. From QueuePairOf::unsafe_batch(); lives on
/// the stack, takes some 6 KB, and ends before its queue pair. What is not posted is dropped.
///
/// The caller owes: what QueuePairOf says of each request, from post() on; and a request that
/// completes `aloud` behind those that complete `silently`, at the latest when the send queue is
/// full: the room of a silent request comes back, and its bytes are done with, only when one behind
/// it completes. One that fails completes in any case. On iWARP a read that is to be silent
/// completes aloud, because the requests behind it may complete before it.
/// Errors of each add: as unsafe_post_…() of the queue pair, and queue_full when the batch has
///          requests_max requests, no room for the elements, or requests that a post() left.
///          Nothing was added.
/// Source:  InfiniBand Architecture Specification vol. 1, 10.7.3.1, unsignaled completions.
template <IsService S>
class [[nodiscard]] UnsafeBatchOf : public AnyUnsafeBatch {
 public:
  [[nodiscard]] Result<void> add_send(std::uint64_t id, Send const& work,
                                      Completes how = Completes::aloud) noexcept requires
      IsConnected<S> {
    return add(id, work, how);
  }
  [[nodiscard]] Result<void> add_send(std::uint64_t id, Send const& work, Destination const& to,
                                      Completes how = Completes::aloud) noexcept requires
      IsAddressed<S> {
    return add_to(id, work, to, how);
  }
  [[nodiscard]] Result<void> add_write(
      std::uint64_t id, Write const& work,
      Completes how = Completes::aloud) noexcept requires CanWrite<S> {
    return add(id, work, how);
  }
  [[nodiscard]] Result<void> add_read(
      std::uint64_t id, Read const& work,
      Completes how = Completes::aloud) noexcept requires CanRead<S> {
    return add(id, work, how);
  }
  [[nodiscard]] Result<void> add_atomic(std::uint64_t id, Atomic const& work,
                                        Completes how = Completes::aloud) noexcept requires
      HasAtomics<S> {
    return add(id, work, how);
  }
  [[nodiscard]] Result<void> add_receive(std::uint64_t id,
                                         Receive const& work) noexcept requires IsConnected<S> {
    return add(id, work);
  }
  [[nodiscard]] Result<void> add_receive(
      std::uint64_t id, DatagramRoom const& room) noexcept requires IsAddressed<S> {
    return add(id, Receive{room.element()});
  }

 private:
  template <IsService>
  friend class QueuePairOf;
  using AnyUnsafeBatch::AnyUnsafeBatch;
};

}  // namespace lend
