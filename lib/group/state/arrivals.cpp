// SPDX-License-Identifier: MIT OR Apache-2.0
// Takes what has come, in its order, before it looks for losses.
#include <base/giving_up.hpp>
#include <channel/work/access.hpp>
#include <group/state/arrivals.hpp>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

namespace lend::group {

namespace {

// What was written wakes no thread: one that sleeps looks after a part of the time it has waited.
constexpr int looks_per_time_waited = 64;
constexpr std::chrono::milliseconds look_pause_min{1};
// Devices answer in microseconds; one that is gone does not.
constexpr std::chrono::milliseconds query_bound{50};
constexpr int query_tries = 3;

}  // namespace

Result<void> Arrivals::wait(Deadline deadline, std::string_view then) noexcept {
  // What has come counts before what was lost.
  LEND_TRY(has_come, take());
  bool const is_over = ++rounds_ >= rounds_max && deadline.has_passed();
  if (has_come && !is_over) return success();
  if (!has_come) {
    LEND_TRYV(check_for_losses());
  }
  if (!is_over) {
    if (links_.neighbours().are_few()) status_.set_awaited(call_.awaited());
    auto const waited = wait_for_any(deadline);
    if (waited.has_value() || !base::is_given_up(waited.error())) return waited;
  }
  missing_.clear();
  auto why = "rank " + std::to_string(call_.awaited()) + " has not come as far";
  // A program that only looks, or wants to go on, does not wait for answers.
  if (!is_polling_ && !deadline.is_cancelled()) {
    LEND_TRY(found, find_missing());
    if (!found.empty()) why = std::move(found);
  }
  return base::gave_up(deadline, call_.text() + " did not complete", (": " + why).append(then));
}

Result<bool> Arrivals::take() noexcept {
  LEND_TRY(has_written, take_written());
  if (has_written) return true;
  LEND_TRY(ready, links_.poll());
  if (ready.empty()) return false;
  LEND_TRYV(take(ready));
  return true;
}

Result<void> Arrivals::wait_for_any(Deadline deadline,
                                    std::function<bool()> const& has_come) noexcept {
  using Clock = Deadline::Clock;
  auto look = [&, since = Clock::time_point::max()](channel::Waiter& waiter) mutable {
    auto has_written = take_written();
    if (!waiter.is_spinning() && (links_.options().wait != Wait::event || has_come)) {
      auto const now = Clock::now();
      since = std::min(since, now);
      waiter.look_at(within(std::clamp<Clock::duration>((now - since) / looks_per_time_waited,
                                                        look_pause_min, look_pause_max)));
    }
    if (has_come && has_written.has_value() && has_come()) return Result<bool>{true};
    return has_written;
  };
  auto const ready = channel::SetAccess{links_.set()}.wait(links_.ready(), deadline, look);
  if (!ready.has_value()) return ready.error();
  return take(ready.value());
}

Deadline Arrivals::look_again() const noexcept {
  // PeerWords are written to those that sleep by events, too.
  bool const is_woken = links_.options().wait == Wait::event &&
                        links_.domain().context().capabilities().waits_for_receives;
  return is_woken ? Deadline::never() : within(look_pause_max);
}

Result<bool> Arrivals::take_written() noexcept {
  bool has_any = false;
  for (Links const& links = links_; auto const rank : links.linked()) {
    Link& link = links[rank];
    if (!link.has_written()) continue;
    auto const taken = link.take_written();
    LEND_TRYV(check_agreement(rank));
    if (!taken.has_value()) return taken;
    has_any |= taken.assume_value();
  }
  return has_any;
}

Result<void> Arrivals::take(std::span<Ready const> ready) noexcept {
  for (Ready const& one : ready) {
    if (!is_of_link(one)) {
      peers_.note(one);
      continue;
    }
    auto const rank = links_.rank_of(one);
    Link& link = links_[rank];
    auto const taken = link.take_arrivals();
    LEND_TRYV(check_agreement(rank));
    // Its channel may break once it has left.
    if (!taken && link.failure() == nullptr) return taken;
  }
  return success();
}

// ---- what it may be ----

Result<void> Arrivals::check_agreement() noexcept {
  for (auto const rank : links_.linked()) {
    if (links_[rank].arrived().empty()) continue;
    LEND_TRYV(check_agreement(rank));
  }
  return success();
}

Result<void> Arrivals::check_agreement(std::uint32_t rank) noexcept {
  // What comes between two calls is looked at as the next one begins.
  if (!call_.exists()) return success();
  for (auto const& [head, slot, values] : links_[rank].arrived())
    if (!call_.agrees_with(head))
      return detected(
          Fault::Reason::disagreed, rank,
          {Errc::disagreement,
           "rank " + std::to_string(rank) + " called " + text_of(head.collective, head.call_bytes) +
               " as its call " + std::to_string(head.number) + ", this rank " + call_.text() +
               ": all ranks make the same calls, with the same lengths, roots and "
               "operations"});
  return success();
}

bool Arrivals::has_lost_any() const noexcept {
  return std::ranges::any_of(links_.linked(), [this](std::uint32_t rank) {
    Link const& link = std::as_const(links_)[rank];
    return link.fault() || (link.failure() != nullptr && !link.peer_has_left());
  });
}

Result<void> Arrivals::check_for_losses() noexcept {
  // A peer says why before its links end.
  for (auto const i : links_.linked())
    if (links_[i].failure() != nullptr) static_cast<void>(links_[i].take_arrivals());
  for (auto const i : links_.linked())
    if (links_[i].fault()) return failure_.reported(i, *links_[i].fault(), links_.ranks());
  for (auto const i : links_.linked()) {
    if (links_[i].failure() == nullptr) continue;
    // The look at another link may have found the end of this one.
    static_cast<void>(links_[i].take_arrivals());
    if (links_[i].fault()) return failure_.reported(i, *links_[i].fault(), links_.ranks());
    if (links_[i].peer_has_left()) continue;
    Error const& failure = *links_[i].failure();
    return detected(
        Fault::Reason::lost, i,
        Error{Errc::peer_lost, "rank " + std::to_string(i) + " is lost: " + failure.message()}
            .with_cause(failure));
  }
  LEND_TRYV(peers_.check());
  if (!call_.exists()) return success();
  auto const rank = call_.awaited();
  if (links_.has_left(rank)) return needs_one_that_left(rank);
  return success();
}

Error Arrivals::needs_one_that_left(std::uint32_t rank) noexcept {
  return detected(Fault::Reason::left, rank,
                  {Errc::peer_lost, "rank " + std::to_string(rank) + " has left the group, and " +
                                        call_.text() + " needs it"});
}

// ---- which ranks are missing ----

Result<std::string> Arrivals::find_missing() noexcept {
  auto const& members = call_.team().members;
  // Those without a whole record: a device may have read it in the middle of a change.
  auto const ask = [&] {
    bool has_asked = false;
    for (std::uint32_t const rank : members)
      if (links_.has(rank) && !links_.has_left(rank) && !links_[rank].status().answer())
        has_asked |= links_[rank].status().ask();
    return has_asked;
  };
  auto const has_answer = [this](std::uint32_t rank) {
    return !links_.has(rank) || links_[rank].status().has_answer();
  };
  for (std::uint32_t const rank : members)
    if (links_.has(rank)) links_[rank].status().forget_answer();
  Deadline const deadline = within(query_bound);
  for (int tries = 0; tries < query_tries && ask(); ++tries)
    while (!std::ranges::all_of(members, has_answer)) {
      auto const ready = links_.wait(deadline);
      if (!ready.has_value()) {
        tries = query_tries;
        break;
      }
      LEND_TRYV(take(ready.value()));
    }

  MissingRanks found{call_.team().id, call_.team().number};
  for (std::uint32_t const rank : members) {
    if (!links_.has(rank)) continue;
    if (links_[rank].peer_has_left())
      found.add_left(rank);
    else
      found.add(rank, links_[rank].status().answer());
  }
  if (links_.neighbours().are_few()) {
    // Only what it has seen itself: two ranks would repeat what they have from each other for ever.
    status_.set_missing(found.missing());
    if (found.missing().empty()) add_reported(found);
  }
  missing_ = found.missing();
  return found.text();
}

void Arrivals::add_reported(MissingRanks& found) const {
  auto const awaited_by = [this](std::uint32_t rank) -> std::optional<RankStatus::Awaited> {
    if (!links_.has(rank)) return {};
    auto const record = links_[rank].status().answer();
    if (!record) return {};
    auto const awaited = record->awaited_in(call_.team().id, call_.team().number);
    return awaited && awaited->rank < links_.ranks().size ? awaited : std::nullopt;
  };
  for (auto const rank : links_.linked())
    if (auto const awaited = awaited_by(rank); awaited && awaited->is_missing)
      if (!links_.neighbours().are_linked(links_.ranks().rank, awaited->rank) &&
          awaited->rank != links_.ranks().rank)
        found.add_reported(awaited->rank, rank);
  if (found.has_reported()) return;
  // The rank that this one waits for waits for another, and so on: as far as links lead.
  auto last = call_.awaited();
  auto next = awaited_by(last);
  for (std::size_t i = 0; i < links_.linked().size() && next; ++i) {
    if (!links_.has(next->rank) && next->rank != links_.ranks().rank)
      return found.add_waiting(last, next->rank);
    last = next->rank;
    next = awaited_by(last);
  }
}

}  // namespace lend::group
