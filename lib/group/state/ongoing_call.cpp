// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the group.
#include <group/state/ongoing_call.hpp>

#include <algorithm>
#include <new>

namespace lend::group {

OngoingCall::OngoingCall(GroupOptions const& options, LongBuffers& buffers)
    : message_call_{options.message_bytes}, long_call_{buffers} {}

Result<void> OngoingCall::begin(Membership& team, Call const& call) noexcept try {
  // Long values are read from each rank by each, which few links do not reach.
  is_long_ = !team.has_few_links &&
             call.block_bytes > std::max(message_call_.message_bytes(), longest_in_messages) &&
             can_be_read(call.collective, team.ranks.size, call.op.element_bytes);
  message_call_.prepare(team, call);
  call_ = call;
  if (is_long_) long_call_.begin(call_, team.ranks);
  team_ = &team;
  ++team.number;
  signature_ = call.signature();
  if (!is_long_) message_call_.begin(team, call_);
  return success();
} catch (std::bad_alloc const&) {
  return Error{Errc::exhausted, "no memory for the steps of a collective"};
}

void OngoingCall::begin_within(Membership& team, Call const& call, std::uint32_t round,
                               std::size_t done, std::span<std::byte const> accumulated) noexcept {
  --team.number;  // which begin() counts
  static_cast<void>(begin(team, call));
  message_call_.go_on_within(round, done, accumulated);
}

std::uint32_t OngoingCall::awaited() const noexcept {
  return rank_of(is_long_ ? long_call_.awaited().value_or(team_->ranks.rank)
                          : message_call_.awaited());
}

MessageHead OngoingCall::head(Step const& step) const noexcept {
  auto head = this->head(message_call_.piece(), message_call_.round());
  if (call_.is_uneven())
    head.call_bytes = static_cast<std::uint32_t>(message_call_.part_bytes(step));
  return head;
}

MessageHead OngoingCall::head(std::uint32_t piece, std::uint16_t round) const noexcept {
  return {.signature = signature_,
          .team = team_->id,
          .number = team_->number,
          .piece = piece,
          .round = round,
          .collective = call_.collective,
          .call_bytes = static_cast<std::uint32_t>(call_.block_bytes)};
}

}  // namespace lend::group
