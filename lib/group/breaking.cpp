// SPDX-License-Identifier: MIT OR Apache-2.0
// How a group ends, and what breaks it. The thread of the group.
#include <group/group_state.hpp>

#include <utility>

namespace lend::group {

namespace {

constexpr std::chrono::seconds leaving_bound{1};
constexpr std::chrono::milliseconds telling_bound{200};

}  // namespace

// ---- apart ----

void GroupState::leave() noexcept {
  if (std::exchange(has_left_, true)) return;
  if (!broken_ && !inheritance_.is_inherited()) {
    for (auto const rank : linked_)
      static_cast<void>(links_[rank]->take_arrivals());  // the peer may have left before
    // In the middle of a call it is missed.
    end_links(call_.exists() ? Note::of({Fault::Reason::left, ranks_.rank, ranks_.rank})
                             : Note{.kind = Note::Kind::left},
              within(leaving_bound));
  }
  if (!inheritance_.is_inherited())
    peers_.end_all(broken_ ? *broken_
                           : Error{Errc::channel_broken, "the Group of these peers has ended"});
  bool const is_kept = end_reads().has_value();
  for (auto const rank : linked_) links_[rank].reset();
  linked_.clear();
  posted_.fail(is_kept);
}

void GroupState::end_links(Note const& note, Deadline deadline) noexcept {
  for (;;) {
    bool is_over = true;
    for (auto const rank : linked_)
      is_over = links_[rank]->try_end(note) && links_[rank]->is_quiet() && is_over;
    if (is_over) return;
    auto const ready = set_.wait(ready_, deadline);
    if (!ready.has_value()) return;
    for (Ready const& one : ready.value())
      if (is_of_link(one)) static_cast<void>(links_[rank_by_tag_[one.tag]]->take_arrivals());
  }
}

// ---- what breaks it ----

Result<void> GroupState::check_for_losses() noexcept {
  // A peer says why before its links end.
  for (auto const i : linked_)
    if (links_[i]->failure() != nullptr) static_cast<void>(links_[i]->take_arrivals());
  for (auto const i : linked_)
    if (links_[i]->fault()) return told(i, *links_[i]->fault());
  for (auto const i : linked_) {
    if (links_[i]->failure() == nullptr) continue;
    // The look at another link may have found the end of this one.
    static_cast<void>(links_[i]->take_arrivals());
    if (links_[i]->fault()) return told(i, *links_[i]->fault());
    if (links_[i]->peer_has_left()) continue;
    Error const& failure = *links_[i]->failure();
    return found(
        Fault::Reason::lost, i,
        Error{Errc::peer_lost, "rank " + std::to_string(i) + " is lost: " + failure.message()}
            .with_cause(failure));
  }
  LEND_TRYV(peers_.check());
  if (!call_.exists()) return success();
  auto const rank = call_.awaited();
  if (links_[rank] != nullptr && links_[rank]->peer_has_left()) return needs_one_that_left(rank);
  return success();
}

Error GroupState::needs_one_that_left(std::uint32_t rank) noexcept {
  return found(Fault::Reason::left, rank,
               {Errc::peer_lost, "rank " + std::to_string(rank) + " has left the group, and " +
                                     call_.text() + " needs it"});
}

Error GroupState::found(Fault::Reason reason, std::uint32_t rank, Error error) noexcept {
  fault_ = {reason, rank, ranks_.rank};
  return error;
}

Error GroupState::told(std::uint32_t teller, Fault const& fault) noexcept {
  if (fault.rank >= ranks_.size || fault.by >= ranks_.size)
    return found(Fault::Reason::failed, teller,
                 {Errc::incompatible_peer,
                  "rank " + std::to_string(teller) + " names ranks that do not exist"});
  fault_ = fault;
  auto const rank = "rank " + std::to_string(fault.rank), by = "rank " + std::to_string(fault.by);
  switch (fault.reason) {
    case Fault::Reason::lost:
      if (fault.rank == ranks_.rank)
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

std::optional<std::uint32_t> GroupState::lost_rank() const noexcept {
  if (!fault_ || (fault_->reason != Fault::Reason::lost && fault_->reason != Fault::Reason::left))
    return {};
  return fault_->rank;
}

void GroupState::break_by(Error const& error) noexcept {
  if (tally_ && !broken_ && call_.exists()) tally_->fail();
  broken_ = error;
  record_.set(Record::State::broken);
  if (!fault_) fault_ = {Fault::Reason::failed, ranks_.rank, ranks_.rank};
  end_links(Note::of(*fault_), within(telling_bound));
  peers_.end_all(error);
  auto const kept = end_reads();
  if (kept) broken_ = kept->with_cause(error);
  posted_.fail(kept.has_value());
}

void GroupState::abandon() noexcept {
  if (call_.exists()) abandon({});
}

void GroupState::abandon(std::string_view why) noexcept {
  if (broken_ || has_left_ || inheritance_.is_inherited()) return;
  fault_ = {Fault::Reason::abandoned, ranks_.rank, ranks_.rank};
  auto text = "this rank has abandoned " + (call_.exists() ? call_.text() : "the group");
  if (!why.empty()) text.append(": ").append(why);
  break_by({Errc::channel_broken, std::move(text)});
  call_.end();
}

}  // namespace lend::group
