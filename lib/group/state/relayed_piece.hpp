// SPDX-License-Identifier: MIT OR Apache-2.0
// A piece of a collective over few links: the caller's values in the slots of a Relay, by the ranks
// that they are of. The thread of the group.
#pragma once

#include <group/schedule/hop_schedule.hpp>
#include <group/values/call.hpp>
#include <group/values/relay.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace lend::group {

class RelayedPiece {
 public:
  [[nodiscard]] static bool is_of(Membership const& team, Collective collective) noexcept {
    return team.has_few_links && HopSchedule::has_relays(collective);
  }

  /// Room for all pieces of `call`.
  /// Throws std::bad_alloc.
  void reserve(Membership const& team, Call const& call, std::size_t message_bytes);
  /// Of HopSchedule.
  [[nodiscard]] std::uint32_t blocks_per_message() const noexcept { return blocks_per_message_; }

  /// Before the first round: copies what this rank gives. `piece` is in each part of `call`, which
  /// stays until end().
  void begin(Call const& call, Ranks ranks, ByteRange piece) noexcept;
  [[nodiscard]] Relay& relay() noexcept { return relay_; }
  [[nodiscard]] Relay const& relay() const noexcept { return relay_; }
  /// After the last round: what came of `rank`'s.
  [[nodiscard]] std::span<std::byte const> values_of(std::uint32_t rank) noexcept {
    return relay_.slot(behind(rank));
  }
  /// The same of a call that does not combine: copies what this rank gets.
  void end() noexcept;

 private:
  /// Whose values are in a slot: the rank so much further, or before.
  [[nodiscard]] std::uint32_t ahead(std::uint32_t slot) const noexcept {
    return (ranks_.rank + slot) % ranks_.size;
  }
  [[nodiscard]] std::uint32_t behind(std::uint32_t slot) const noexcept {
    return (ranks_.rank + ranks_.size - slot) % ranks_.size;
  }
  [[nodiscard]] std::size_t offset_of(std::uint32_t block) const noexcept {
    return piece_.offset + block * call_->block_bytes;
  }
  void copy_in(std::uint32_t slot, std::uint32_t block) noexcept;
  void copy_out(std::uint32_t slot, std::uint32_t block) noexcept;

  Relay relay_{};
  std::uint32_t blocks_per_message_ = 1;
  Call const* call_ = nullptr;
  Ranks ranks_{};
  ByteRange piece_{};
};

}  // namespace lend::group
