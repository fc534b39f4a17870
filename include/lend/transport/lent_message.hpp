// SPDX-License-Identifier: MIT OR Apache-2.0
// A message that was lent to the peer and not copied. The thread of the transport.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>

#include <memory>
#include <utility>

namespace lend {

namespace transport {
class End;
struct Lent;
}  // namespace transport

/// Bytes of the program that are one message: the peer reads them where they lie.
///
/// From TransportBase::try_send_lent(). They are on loan, shared, until the peer has read or
/// dropped the message, or the connection ends. Dropping this is harmless: the transport gives them
/// back.
///
///     LEND_TRY(lent, send_lent(transport, field.gather(), within(5s)));
///     …                                                    // compute; field may be read
///     LEND_TRYV(wait_until_over(transport, lent, within(5s)));  // and may be written again
class [[nodiscard]] LEND_EXPORT LentMessage {
 public:
  LentMessage() noexcept = default;  ///< nothing was lent: there was no room

  [[nodiscard]] explicit operator bool() const noexcept { return lent_ != nullptr; }
  /// Whether the bytes are the program's again, as far as poll() of the transport knows.
  /// Errors:  peer_lost, incompatible_peer, channel_broken  the connection ended before the peer
  ///                            had said so; the bytes are the program's again.
  ///          system_failed     the device did not invalidate their key: Exposure::finish().
  ///          invalid_argument  nothing was lent.
  [[nodiscard]] Result<bool> is_over() const noexcept;

 private:
  friend class transport::End;
  explicit LentMessage(std::shared_ptr<transport::Lent const> lent) noexcept
      : lent_{std::move(lent)} {}

  std::shared_ptr<transport::Lent const> lent_;
};

}  // namespace lend
