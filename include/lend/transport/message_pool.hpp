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
  std::uint32_t transports_max = 1024;
  std::uint32_t shared = 4096;  ///< receives beyond the one for a message that each transport has
  std::uint32_t drafts = 256;   ///< messages that all transports together may be sending
};

/// Receives and send buffers that the transports of a set share, so that thousands of clients that
/// are mostly idle take little memory.
///
/// A transport of TransportKind::send_receive whose options name the pool and its set uses it; its
/// peer is any transport of that kind. At first the peer may send one message. If it needs more, it
/// is granted up to TransportOptions::window of them, as far as the pool has shared receives; no
/// more is granted than is posted, so every message finds its receive. While the program holds
/// messages, their receives are not granted again: a program that holds more than one of a
/// transport may stop that peer.
///
/// A transport that finds no draft has an empty one from try_draft(): try again when the set has
/// listed any transport. The pool has 3 * transports_max + shared + drafts buffers, on iWARP 7 for
/// each transport, of message_bytes_max + 8 bytes rounded up to a multiple of 64. It may end
/// before its transports, which keep what they need of it.
///
/// The trap: a peer that sends more than it was granted takes the receives of others, until the
/// pool's program finds that out and disconnects it. Then their connections may break.
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
  /// Transports that use it; also those that ended while the program still holds a message.
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
