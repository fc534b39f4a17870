// SPDX-License-Identifier: MIT OR Apache-2.0
// Receives and send buffers that many transports share. The thread of the set.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/channel/wait_set.hpp>
#include <lend/verbs/protection_domain.hpp>

#include <cstdint>
#include <memory>

namespace lend {

namespace transport {
class SharedBuffers;
class PoolShare;
}  // namespace transport

struct MessagePoolOptions {
  std::uint32_t message_bytes_max = 4096;  ///< of both directions: 1 to 1,048,575
  /// Also those that are prepared and not connected, and those that ended while the program holds a
  /// message or a draft of theirs.
  std::uint32_t transports_max = 1024;
  /// Receives beyond the one for a message that each transport has. A transport that is granted
  /// more keeps them until its peer sends, so half are kept for the second message of each: with
  /// twice transports_max, each peer may always have two messages under way.
  std::uint32_t shared = 4096;
  /// Messages that all transports together may be sending; one transport at most 6.
  std::uint32_t drafts = 256;
};

/// Receives and send buffers that the transports of a set share, so that thousands of clients that
/// are mostly idle take little memory.
///
/// A transport of TransportKind::send_receive whose options name the pool and its set uses it. Its
/// peer is any transport of that kind. At first the peer may send one message. If it needs more, it
/// is granted up to TransportOptions::window of them, as far as receives are free: each message of
/// a peer that keeps to its grants finds a receive. A message that the program holds counts until
/// it goes. Where the pool has no free draft, try_draft() returns an empty one, and the set lists
/// the transport again once there is one.
///
/// The memory is that of 3 * transports_max + shared + drafts buffers, on iWARP 7 for each
/// transport, of message_bytes_max + 8 bytes rounded up to a multiple of 64: 31 MB by default. Two
/// receives of each transport are for words without bytes. The set and the pool may end before the
/// transports, which keep what they need.
///
/// The trap: a peer that sends more than it was granted takes the receives of others until the
/// program's next poll of its transport finds that out and breaks it. Connections of others may
/// break in that time.
///
///     LEND_TRY(pool, MessagePool::create(set, domain));
///     TransportOptions const options{
///         .kind = TransportKind::send_receive, .wait_set = &set, .tag = id, .pool = &pool};
class LEND_EXPORT MessagePool {
 public:
  /// Errors:  invalid_argument  one of the options is 0 or out of range, and those of
  ///                            ReceivePool::create().
  ///          exhausted, system_failed  as ProtectionDomain::allocate().
  ///          unsupported       the device has no shared receive queues.
  [[nodiscard]] static Result<MessagePool> create(WaitSet& set, ProtectionDomain const& domain,
                                                  MessagePoolOptions const& options = {});
  MessagePool(MessagePool&&) noexcept;
  MessagePool& operator=(MessagePool&&) noexcept;
  ~MessagePool();

  /// Of its options.
  [[nodiscard]] std::uint32_t message_bytes_max() const noexcept;
  /// Of transports_max.
  [[nodiscard]] std::uint32_t transports() const noexcept;
  /// Receives that are granted to no transport.
  [[nodiscard]] std::uint32_t shared_free() const noexcept;
  /// Buffers to send from that no transport has.
  [[nodiscard]] std::uint32_t drafts_free() const noexcept;

 private:
  friend class transport::PoolShare;
  explicit MessagePool(std::shared_ptr<transport::SharedBuffers> buffers) noexcept;
  // Stops where it was moved from.
  [[nodiscard]] std::shared_ptr<transport::SharedBuffers> const& buffers() const noexcept;
  std::shared_ptr<transport::SharedBuffers> buffers_;
};

}  // namespace lend
