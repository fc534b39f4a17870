// SPDX-License-Identifier: MIT OR Apache-2.0
// Turns what ranks say of a broken group into errors.
#include <group/state/group_failure.hpp>

#include <string>

namespace lend::group {

std::optional<std::uint32_t> GroupFailure::lost_rank() const noexcept {
  if (!fault_ || (fault_->reason != Fault::Reason::lost && fault_->reason != Fault::Reason::left))
    return {};
  return fault_->rank;
}

Error GroupFailure::detected(Fault const& fault, Error error) noexcept {
  fault_ = fault;
  return error;
}

Error GroupFailure::reported(std::uint32_t by_rank, Fault const& fault, Ranks ranks) noexcept {
  if (fault.rank >= ranks.size || fault.by >= ranks.size)
    return detected({Fault::Reason::failed, by_rank, ranks.rank},
                    {Errc::incompatible_peer,
                     "rank " + std::to_string(by_rank) + " names ranks that do not exist"});
  fault_ = fault;
  auto const rank = "rank " + std::to_string(fault.rank), by = "rank " + std::to_string(fault.by);
  switch (fault.reason) {
    case Fault::Reason::lost:
      if (fault.rank == ranks.rank)
        return {Errc::peer_lost, "this rank is lost to " + by + ", which told the others so"};
      return {Errc::peer_lost, rank + " is lost, as " + by + " found out"};
    case Fault::Reason::left:
      if (fault.rank == fault.by)
        return {Errc::peer_lost, rank + " has left the group in the middle of a call"};
      return {Errc::peer_lost, rank + " has left the group, and a call of " + by + " needed it"};
    case Fault::Reason::disagreed:
      return {Errc::disagreement, rank + " and " + by + " made different calls: " + by +
                                      " has the error that names both"};
    case Fault::Reason::abandoned:
      return {Errc::channel_broken,
              rank + " has abandoned a call or the group, which broke it; its own error says why"};
    default: return {Errc::channel_broken, rank + " has broken the group; its own error says why"};
  }
}

MessageHead GroupFailure::last_message(std::uint32_t own) noexcept {
  if (!fault_) fault_ = {Fault::Reason::failed, own, own};
  return MessageHead::of(*fault_);
}

}  // namespace lend::group
