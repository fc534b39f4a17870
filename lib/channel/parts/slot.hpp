// SPDX-License-Identifier: MIT OR Apache-2.0
// The channel's record of one work request. The thread of the channel.
#pragma once

#include <base/slot_table.hpp>
#include <channel/parts/scope_record.hpp>
#include <lend/channel/pending_work.hpp>
#include <verbs/memory/loan_row.hpp>
#include <verbs/queue/polling.hpp>

#include <bit>
#include <cstdint>
#include <optional>
#include <utility>

namespace lend::channel {

using base::SlotId;

/// How far a request is; one word, so that the usual states take one instruction to set or compare.
struct alignas(8) SlotState {
  std::uint16_t loans = 0;   // entries of the row that may be on loan
  bool follows = false;      // there may be a request `before` this one
  bool unposted = false;     // in a batch
  bool held = false;         // a handle may still take the result
  bool finished = false;     // the completion was seen
  bool failed = false;       // with a failure
  bool is_datagram = false;  // a receive of one

  [[nodiscard]] bool is(SlotState const& other) const noexcept {
    return std::bit_cast<std::uint64_t>(*this) == std::bit_cast<std::uint64_t>(other);
  }
};

/// Of a plain request with a handle. Its loan may be none: see LoanRow.
inline constexpr SlotState plain_and_held{.loans = 1, .held = true};

/// Of a plain request without a handle.
inline constexpr SlotState plain_and_unheld{.loans = 1};

/// Of one of a batch, which was posted unsignaled and has no handle any more.
inline constexpr SlotState silent_and_unheld{.loans = 1, .follows = true};

/// What is known of a request: as WorkSuccess, but smaller.
struct SlotWork {
  Operation operation{};
  bool has_returned = false;  // then `immediate` is the key
  std::uint32_t slot = 0;     // its own index, always
  std::uint64_t bytes = 0;    // requested, then received
  std::optional<std::uint32_t> immediate{};

  /// Of a receive that succeeded.
  void note(verbs::CompletionEntry entry) noexcept {
    bytes = entry.bytes();
    immediate = entry.immediate();
    if (!entry.has_returned()) return;
    has_returned = true;
    immediate = entry.returned();
  }
  /// For the next request.
  void forget_message() noexcept {
    has_returned = false;
    immediate.reset();
  }
};

/// One work request from its post until a handle takes its result, or, without a handle, until its
/// end.
///
/// The states: unposted (only in a batch), outstanding (neither unposted nor finished), finished
/// (maybe failed), free. Batching posts it, or fails it if the device refused; InFlight has the
/// steps: succeed() and fail() finish it, cancel() frees it without either. A finished slot is
/// freed at once, unless it is `held`: then when the handle takes the result or is dropped, or when
/// the scope ends.
struct Slot : SlotState {
  ScopeRecord* scope = nullptr;
  verbs::LentPiece* pieces = nullptr;  // the slot's row in the loan table
  SlotId before{};                     // if it follows: the unsignaled one, which ends with it
  SlotWork work{};
  // Ticks of its post where that is counted, else 0; of a failed one instead the sequence number of
  // its failure in the channel.
  std::uint64_t posted_or_failed = 0;
  Error failure{};

  [[nodiscard]] SlotState& state() noexcept { return *this; }
  /// The one call that lent all its bytes, maybe for the post only; a null file if it lent none.
  [[nodiscard]] SourceLine posted_at() const noexcept {
    auto const where = pieces->loan.where();
    return where.file != nullptr ? where : SourceLine{nullptr, 0};
  }
  void follow(SlotId unsignaled) noexcept {
    follows = unsignaled.is_valid();
    before = unsignaled;
  }
  /// No slot if it follows none.
  [[nodiscard]] SlotId unfollow() noexcept {
    return std::exchange(follows, false) ? before : SlotId{};
  }
};

}  // namespace lend::channel
