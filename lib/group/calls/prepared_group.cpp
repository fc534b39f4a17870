// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the group.
#include <group/state/group_state.hpp>
#include <lend/base/stop.hpp>
#include <lend/group/prepared_group.hpp>
#include <network/wire/socket.hpp>

#include <string>
#include <utility>

namespace lend {

using group::GroupState;

namespace {

Result<void> check_alike(std::uint32_t rank, RankCard const& ours, RankCard const& theirs) {
  if (theirs.message_bytes == ours.message_bytes && theirs.window == ours.window) return success();
  auto const text = [](RankCard const& card) {
    return "messages of " + std::to_string(card.message_bytes) + " bytes and a window of " +
           std::to_string(card.window);
  };
  return Error{Errc::incompatible_peer,
               "rank " + std::to_string(rank) +
                   (theirs == RankCard{} ? " gave an empty card, as to ranks without a link"
                                         : " has " + text(theirs) + ", this rank " + text(ours)) +
                   ": give all ranks the same GroupOptions"};
}

}  // namespace

PreparedGroup::PreparedGroup(std::shared_ptr<GroupState> state) noexcept
    : state_{std::move(state)} {}
PreparedGroup::PreparedGroup(PreparedGroup&&) noexcept = default;
PreparedGroup& PreparedGroup::operator=(PreparedGroup&&) noexcept = default;
PreparedGroup::~PreparedGroup() = default;

Result<PreparedGroup> PreparedGroup::prepare(ProtectionDomain const& domain, std::uint32_t rank,
                                             std::uint32_t size, GroupOptions const& options) {
  if (rank >= size)
    return Error{Errc::invalid_argument, "rank " + std::to_string(rank) + " of a group of " +
                                             std::to_string(size) + ": ranks begin with 0"};
  if (options.message_bytes < 64 || options.message_bytes > 65'536 ||
      options.message_bytes % 64 != 0)
    return Error{Errc::invalid_argument, "message_bytes is " +
                                             std::to_string(options.message_bytes) +
                                             ": it is a multiple of 64, from 64 to 65536"};
  if (options.window < 4 || options.window > 256)
    return Error{Errc::invalid_argument,
                 "the window is " + std::to_string(options.window) + ": it is 4 to 256"};
  LEND_TRY(state, GroupState::prepare(domain, {rank, size}, options));
  return PreparedGroup{std::move(state)};
}

std::span<RankCard const> PreparedGroup::cards() const noexcept {
  if (state_ == nullptr) [[unlikely]]
    stop("a PreparedGroup was used after it had been moved from");
  return state_->links().cards();
}

Result<Group> PreparedGroup::handshake(std::span<RankCard const> theirs, Deadline deadline) && {
  if (state_ == nullptr)
    return Error{Errc::stale_handle, "this PreparedGroup was moved from or connected before"};
  if (theirs.size() != state_->links().ranks().size)
    return Error{Errc::invalid_argument, "there are " + std::to_string(theirs.size()) +
                                             " cards for " +
                                             std::to_string(state_->links().ranks().size) +
                                             " ranks: give one for each, in their order"};
  for (std::uint32_t rank = 0; rank < theirs.size(); ++rank)
    if (RankCard const& ours = state_->links().cards()[rank]; ours != RankCard{}) {
      LEND_TRYV(check_alike(rank, ours, theirs[rank]));
    }
  auto state = std::move(state_);
  LEND_TRYV(state->links().connect(theirs, deadline,
                                   [](std::span<int const> descriptors, Deadline until) {
                                     return network::sleep_on(descriptors, until);
                                   }));
  return Group{std::move(state)};
}

}  // namespace lend
