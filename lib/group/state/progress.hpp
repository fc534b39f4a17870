// SPDX-License-Identifier: MIT OR Apache-2.0
// Carries out the call under way as far as it goes without waiting. The thread of the group.
#pragma once

#include <group/link/links.hpp>
#include <group/state/arrivals.hpp>
#include <group/state/ongoing_call.hpp>
#include <group/state/posted_calls.hpp>
#include <lend/base/error.hpp>
#include <lend/base/result.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace lend::group {

/// All errors break the group.
class Progress {
 public:
  Progress(Links& links, Arrivals& arrivals, GroupOptions const& options, LongBuffers& buffers)
      : call_{options, buffers}, links_{links}, arrivals_{arrivals} {}

  [[nodiscard]] OngoingCall& call() noexcept { return call_; }
  [[nodiscard]] OngoingCall const& call() const noexcept { return call_; }
  /// True once the call is over.
  [[nodiscard]] Result<bool> advance() noexcept;
  /// Ends what is being read to memory that was lent, and from it. Why a device keeps some of that;
  /// otherwise nothing.
  [[nodiscard]] std::optional<Error> end_reads(KeptBytes& kept) noexcept;

 private:
  /// True once all steps of the round are done.
  [[nodiscard]] Result<bool> advance_round(MessageCall& values) noexcept;
  [[nodiscard]] Result<bool> receive(MessageCall& values, Step const& step) noexcept;
  /// Sends a message of the round to a rank that is needed.
  [[nodiscard]] Result<bool> send_to(std::uint32_t rank, MessageHead const& head,
                                     std::span<std::byte const> bytes) noexcept;
  /// Done with a message that came.
  [[nodiscard]] Result<void> release(Link& link, std::size_t index) noexcept;

  // long_progress.cpp: values that are read

  [[nodiscard]] Result<bool> advance_long() noexcept;
  [[nodiscard]] Result<bool> advance_round_of(LongCall::Lane& lane) noexcept;
  [[nodiscard]] Result<bool> take_steps(LongCall::Lane& lane) noexcept;
  [[nodiscard]] Result<bool> take_step(LongCall::Lane& lane, std::size_t index) noexcept;
  [[nodiscard]] Result<bool> take_signal(LongCall::Lane& lane, LongStep const& step) noexcept;
  [[nodiscard]] Result<bool> read(LongCall::Lane& lane, std::size_t index) noexcept;
  [[nodiscard]] Result<void> begin_read(LongCall::Lane& lane, LongStep const& step) noexcept;
  /// Whether what was begun last is there.
  [[nodiscard]] Result<bool> has_read(LongCall::Lane const& lane, LongStep const& step) noexcept;

  OngoingCall call_;
  Links& links_;
  Arrivals& arrivals_;
};

}  // namespace lend::group
