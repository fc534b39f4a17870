// SPDX-License-Identifier: MIT OR Apache-2.0
// What a transport received: a message on loan, or the peer's end. The thread of the transport.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/lifetime.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace lend {

namespace transport {
class Held;
}

/// Nothing, a message on loan, or the end of the peer's messages.
///
/// The message stays in place, in memory of the transport. Destroying it frees the room, and may
/// notify the peer. A program that holds more than TransportLimits::hold_max stops its peer. It may
/// outlive its transport: the bytes stay unchanged.
///
/// The trap: a CreditRing's peer can write into a message that is held, and so can every other peer
/// of the same ProtectionDomain that knows the ring's key: see CreditRing. A peer that keeps to the
/// protocol does not; if you do not trust it, copy the bytes before you check them. It can change
/// only bytes. With the other kinds it cannot write there.
///
/// A message that the peer lent, as TransportOptions::lent_bytes_max allows, has no bytes() here:
/// TransportBase::try_fetch() reads them. The peer has them back once the message was read or
/// dropped. If it is dropped while it is being read, its target stays on loan until that has ended.
///
///     LEND_TRY(message, transport.try_receive());
///     if (message.is_end()) return lend::success();
///     if (message) use(message.bytes());
class [[nodiscard]] LEND_EXPORT Received {
 public:
  Received() noexcept = default;  ///< nothing
  Received(Received&& other) noexcept
      : held_{std::exchange(other.held_, nullptr)},
        slot_{other.slot_},
        what_{std::exchange(other.what_, What::nothing)},
        bytes_{std::exchange(other.bytes_, {})} {}
  Received& operator=(Received&& other) noexcept {
    Received old{std::move(other)};
    (std::swap)(held_, old.held_);
    (std::swap)(slot_, old.slot_);
    (std::swap)(what_, old.what_);
    (std::swap)(bytes_, old.bytes_);
    return *this;
  }
  ~Received() {
    if (held_ != nullptr) give_back();
  }

  /// Whether there is a message or the end.
  [[nodiscard]] explicit operator bool() const noexcept { return what_ != What::nothing; }
  /// The peer has finished: nothing more comes.
  [[nodiscard]] bool is_end() const noexcept { return what_ == What::end; }
  /// A message may have none.
  [[nodiscard]] std::span<std::byte const> bytes() const& noexcept LEND_LIFETIMEBOUND {
    return bytes_;
  }
  std::span<std::byte const> bytes() && = delete;  // they would be given back
  /// Whether the peer lent it: see TransportBase::try_fetch().
  [[nodiscard]] bool is_lent() const noexcept { return what_ == What::lent; }
  /// Of the message, lent or not: what the peer says, within this end's TransportOptions.
  [[nodiscard]] std::size_t length() const noexcept {
    return is_lent() ? lent_length() : bytes_.size();
  }

  /// What try_receive() returns once the peer has finished.
  [[nodiscard]] static Received end() noexcept {
    Received end;
    end.what_ = What::end;
    return end;
  }

 private:
  friend class transport::Held;
  enum class What : std::uint8_t { nothing, message, end, lent };
  [[nodiscard]] std::size_t lent_length() const noexcept;
  void give_back() noexcept;

  transport::Held* held_ = nullptr;
  std::uint32_t slot_ = 0;
  What what_ = What::nothing;
  std::span<std::byte const> bytes_{};
};

}  // namespace lend
