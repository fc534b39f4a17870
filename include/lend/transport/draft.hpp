// SPDX-License-Identifier: MIT OR Apache-2.0
// A message that is being written where it will be sent from. The thread of the transport.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/lifetime.hpp>
#include <lend/base/result.hpp>

#include <cstddef>
#include <span>
#include <utility>

namespace lend {

namespace transport {
class Held;
}

/// Room for one message in memory of the transport, or no room. A transport has one at a time.
///
/// Dropped, it sends nothing. It may outlive its transport; its bytes may not be used then.
///
///     LEND_TRY(draft, transport.try_draft(5, 5));
///     if (!draft) …  // no room now
///     std::memcpy(draft.bytes().data(), "hello", 5);
///     LEND_TRYV(std::move(draft).send(5));
class [[nodiscard]] LEND_EXPORT Draft {
 public:
  Draft() noexcept = default;  ///< no room
  Draft(Draft&& other) noexcept
      : held_{std::exchange(other.held_, nullptr)}, bytes_{std::exchange(other.bytes_, {})} {}
  Draft& operator=(Draft&& other) noexcept {
    Draft old{std::move(other)};
    (std::swap)(held_, old.held_);
    (std::swap)(bytes_, old.bytes_);
    return *this;
  }
  ~Draft() {
    if (held_ != nullptr) drop();
  }

  /// Whether there is room.
  [[nodiscard]] explicit operator bool() const noexcept { return held_ != nullptr; }
  [[nodiscard]] std::span<std::byte> bytes() & noexcept LEND_LIFETIMEBOUND { return bytes_; }
  std::span<std::byte> bytes() && = delete;

  /// Posts the first `used` bytes as one message. Never waits, for there is room. Consumes this,
  /// also when it fails.
  /// Errors:  invalid_argument  more than there is room for, or this has none; nothing was sent.
  ///          finished          finish_sending() was called meanwhile.
  ///          peer_lost         the connection is gone; it was not sent.
  ///          stale_handle      the transport is gone.
  ///          And the first cause of a transport that is broken otherwise.
  [[nodiscard]] Result<void> send(std::size_t used) && noexcept;

 private:
  friend class transport::Held;
  void drop() noexcept;

  transport::Held* held_ = nullptr;
  std::span<std::byte> bytes_{};
};

}  // namespace lend
