// SPDX-License-Identifier: MIT OR Apache-2.0
// Long values: the rank that has them says where they wait, the one that needs them reads them, and
// says so. Each copies between its stage and the caller's memory, which no device touches. The
// thread of the group.
#include <group/group_state.hpp>

#include <algorithm>
#include <cstring>
#include <string>

namespace lend::group {

namespace {

/// The index of the round's message of that kind; none has come yet.
std::optional<std::size_t> find_note(UnderWay const& call, Link const& link,
                                     Note::Kind kind) noexcept {
  auto const arrived = link.arrived();
  auto const it = std::ranges::find_if(arrived, [&](Link::Arrived const& each) {
    return each.note.kind == kind && call.is_of_round(each.note);
  });
  if (it == arrived.end()) return {};
  return static_cast<std::size_t>(it - arrived.begin());
}

Note of_kind(Note note, Note::Kind kind) noexcept {
  note.kind = kind;
  return note;
}

}  // namespace

Result<bool> GroupState::advance_long_round() noexcept {
  auto const steps = call_.steps();
  bool is_over = true, are_combined = true;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (call_.is_done(i)) continue;
    auto const kind = steps[i].kind;
    bool is_done = false;
    if (kind == Step::Kind::send) {
      LEND_TRY(is_taken, offer(i));
      is_done = is_taken;
    } else if (kind == Step::Kind::receive || are_combined) {
      // An accumulator that this round sends was copied before: its step is the first.
      LEND_TRY(is_fetched, fetch(i));
      is_done = is_fetched;
      are_combined &= is_done;
    }
    if (is_done) call_.set_done(i);
    is_over &= is_done;
  }
  return is_over;
}

Result<bool> GroupState::offer(std::size_t index) noexcept {
  Step const& step = call_.steps()[index];
  auto const rank = call_.rank_of(step);
  auto& [slot, is_told] = call_.offer(index);
  if (!slot) slot = stage_.put(step, call_.piece_of(step));
  if (!slot) return false;
  if (!is_told) {
    std::uint32_t const offset = Stage::offset_of(*slot);
    LEND_TRY(is_sent, tell(rank, of_kind(call_.head(), Note::Kind::offer),
                           std::as_bytes(std::span{&offset, 1})));
    is_told = is_sent;
    if (!is_told) return false;
  }
  Link& link = *links_[rank];
  auto const taken = find_note(call_, link, Note::Kind::taken);
  if (!taken) return false;
  stage_.give_back(*slot);
  LEND_TRYV(release(link, *taken));
  return true;
}

Result<bool> GroupState::fetch(std::size_t index) noexcept {
  Step const& step = call_.steps()[index];
  auto const own = call_.piece_of(step);
  if (step.kind == Step::Kind::combine_own) {
    call_.take(step, own);
    return true;
  }
  auto const rank = call_.rank_of(step);
  Link& link = *links_[rank];
  if (!stage_.fetch) {
    LEND_TRY(has_begun, begin_fetch(index));
    if (!has_begun) return false;
  }
  if (stage_.fetch->step != index) return false;
  if (!stage_.fetch->is_read) {
    auto const is_read = link.has_fetched();
    if (!is_read) {
      LEND_TRYV(check_for_losses());
      return is_read.error();
    }
    if (!is_read.value()) return false;
    call_.take(step, stage_.fetched(own.size()));
    stage_.fetch->is_read = true;
  }
  LEND_TRY(is_sent, tell(rank, of_kind(call_.head(), Note::Kind::taken), {}));
  if (!is_sent) return false;
  stage_.fetch.reset();
  return true;
}

/// False: nothing was offered yet.
Result<bool> GroupState::begin_fetch(std::size_t index) noexcept {
  Step const& step = call_.steps()[index];
  auto const rank = call_.rank_of(step);
  Link& link = *links_[rank];
  auto const offered = find_note(call_, link, Note::Kind::offer);
  if (!offered) return false;
  std::uint32_t offset = 0;
  auto const bytes = link.bytes_of(link.arrived()[*offered]);
  bool const has_offset = bytes.size() == sizeof offset;
  if (has_offset) std::memcpy(&offset, bytes.data(), sizeof offset);
  if (!has_offset || offset % Stage::slot_bytes != 0 || offset >= Stage::offered_bytes)
    return found(Fault::Reason::failed, rank,
                 {Errc::incompatible_peer,
                  "rank " + std::to_string(rank) + " offers values where it has none"});
  LEND_TRYV(release(link, *offered));
  auto const begun = link.fetch(offset, stage_.target(call_.piece_of(step).size()));
  if (!begun) {
    LEND_TRYV(check_for_losses());
    return begun.error();
  }
  stage_.fetch = {index, false};
  return true;
}

}  // namespace lend::group
