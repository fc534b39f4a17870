// SPDX-License-Identifier: MIT OR Apache-2.0
// The loans of a transport: messages that the program holds, and its draft. It outlives the
// transport until the last of them goes. The thread of the transport.
#pragma once

#include <base/loan.hpp>
#include <lend/base/result.hpp>
#include <lend/transport/draft.hpp>
#include <lend/transport/received.hpp>
#include <lend/verbs/memory_piece.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace lend::transport {

/// The owner of what is lent, which learns when each loan ends.
class Lender {
 public:
  virtual void take_back(std::uint32_t slot) noexcept = 0;
  virtual void drop_draft() noexcept = 0;
  [[nodiscard]] virtual Result<void> send_draft(std::size_t used) noexcept = 0;

 protected:
  Lender() = default;
  ~Lender() = default;
};

class Held {
 public:
  /// Slots 0 to `slots` - 1 can be lent; without a region any. `keeps` lives as long as the loans.
  Held(Lender& lender, std::uint32_t slots, std::shared_ptr<void const> keeps = {});
  Held(Held const&) = delete;
  Held& operator=(Held const&) = delete;

  /// The lender ends. Deletes this now, or when the last loan goes.
  void end() noexcept;

  /// Lends the bytes of a slot, shared: those of `where`, recorded in its region's ledger, or where
  /// it has no region, `bytes` as they are.
  /// Errors:  already_borrowed.
  [[nodiscard]] Result<Received> lend(std::uint32_t slot, std::span<std::byte const> bytes,
                                      GatherElement const& where) noexcept;
  /// The slot of a message that the peer has lent, and its length.
  [[nodiscard]] Received hold_lent(std::uint32_t slot, std::size_t lent_bytes) noexcept;
  [[nodiscard]] std::size_t lent_bytes(std::uint32_t slot) const noexcept {
    return lent_bytes_[slot];
  }
  /// The slot of a message that this has lent. Nothing: it is another's, or no message.
  [[nodiscard]] std::optional<std::uint32_t> slot_of(Received const& message) const noexcept {
    if (message.held_ != this) return std::nullopt;
    return message.slot_;
  }
  /// Shape: there is no draft.
  [[nodiscard]] Draft draft(std::span<std::byte> bytes) noexcept;
  [[nodiscard]] bool has_draft() const noexcept { return has_draft_; }

  void take_back(std::uint32_t slot) noexcept;
  void drop_draft() noexcept;
  /// Sends the first `used` bytes of the draft, which ends.
  [[nodiscard]] Result<void> send_draft(std::size_t used) noexcept;

 private:
  struct Slot {
    base::Loan loan{};
    verbs::RegionState* region = nullptr;
  };
  ~Held() = default;
  [[nodiscard]] static Error without_lender() noexcept;
  void end_one() noexcept;

  Lender* lender_;  // null once it has ended
  std::shared_ptr<void const> keeps_;
  std::vector<Slot> slots_;
  std::vector<std::size_t> lent_bytes_;  // by slot, of what the peer has lent
  std::uint32_t loans_ = 0;
  bool has_draft_ = false;
};

}  // namespace lend::transport
