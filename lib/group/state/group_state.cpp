// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes a group, runs the calls that block, and ends it.
#include <base/giving_up.hpp>
#include <group/state/group_state.hpp>

#include <chrono>
#include <cstring>
#include <string>
#include <utility>

namespace lend::group {

namespace {

constexpr std::chrono::seconds leaving_bound{1};
constexpr std::chrono::milliseconds telling_bound{200};
// Calls that find everything there look for nothing else. After so many one does, for events of the
// device, keep-alives and links that have ended.
constexpr std::uint32_t calls_per_poll = 256;

}  // namespace

// ---- together ----

GroupState::GroupState(ProtectionDomain const& domain, WaitSet set, OwnStatus status,
                       std::optional<MemoryRegion> landing, Ranks ranks,
                       GroupOptions const& options)
    : status_{std::move(status)},
      buffers_{status_, std::move(landing)},
      links_{domain, std::move(set), ranks, options},
      teams_{ranks, links_.neighbours()},
      progress_{links_, arrivals_, options, buffers_} {}

Result<std::shared_ptr<GroupState>> GroupState::prepare(ProtectionDomain const& domain, Ranks ranks,
                                                        GroupOptions const& options) {
  LEND_TRY(set, WaitSet::create(domain.context(), options.wait));
  bool const is_alone = ranks.size <= 1;
  LEND_TRY(status, OwnStatus::create(domain, is_alone ? 0 : LongBuffers::total_bytes));
  std::optional<MemoryRegion> landing;
  if (!is_alone) {
    LEND_TRY(memory, domain.allocate(LongBuffers::total_bytes));
    landing = std::move(memory);
  }
  LEND_TRY(remote, status.remote());
  auto state = std::make_shared<GroupState>(domain, std::move(set), std::move(status),
                                            std::move(landing), ranks, options);
  LEND_TRYV(state->links_.prepare(remote));
  return state;
}

void GroupState::keep(std::span<std::uint32_t const> ranks) {
  if (ranks.size() == links_.ranks().size) return;
  links_.keep(ranks);
  teams_ = {links_.ranks(), links_.neighbours()};
}

Result<Membership*> GroupState::team(std::span<std::uint32_t const> members) {
  if (has_left_) return Error{Errc::stale_handle, "the Group of the team has ended"};
  return teams_.find(members);
}

// ---- one call ----

Error GroupState::why_unusable() const noexcept {
  if (has_left_) return Error{Errc::stale_handle, "the Group of the team has ended"};
  if (is_inherited())  // and so is the memory of its messages
    return Error{Errc::system_failed, "the group was made before fork(): it is the parent's"};
  std::string why = "the group is broken";
  if (auto const lost = lost_rank())
    why += ": rank " + std::to_string(*lost) + " is lost or has left";
  return Error{Errc::channel_broken, why}.with_cause(*first_cause());
}

Error GroupState::is_under_way() const {
  return {Errc::invalid_argument,
          ongoing().text() + " is still under way: " +
              (posted_.is_empty() || run_ != 0
                   ? "make that call again, with the same arguments, until it is over"
                   : "it was posted in a GroupScope; wait for it, and for what was posted after")};
}

Result<void> GroupState::begin(Membership& team, Call const& call) noexcept {
  LEND_TRYV(ongoing().begin(team, call));
  status_.enter(team, call);
  return arrivals_.check_agreement();
}

Result<void> GroupState::poll_at_times() noexcept {
  if (++calls_ % calls_per_poll != 0) return success();
  LEND_TRY(ready, links_.poll());
  return arrivals_.take(ready);
}

Result<void> GroupState::run(Membership& team, Call const& call, Deadline deadline) noexcept {
  if (!is_usable()) return why_unusable();
  if (ongoing().exists() && (!posted_.is_empty() || !ongoing().goes_on_with(team, call)))
    return is_under_way();
  auto const is_new = !ongoing().exists();
  if (is_new) count_begin();
  auto const polled = is_new ? poll_at_times() : success();
  if (polled.has_error()) {
    break_by(polled.error());
    return polled;
  }
  if (is_new && short_calls_.run(team, call, deadline) == ShortCalls::Outcome::over) {
    finish(team, call.collective);
    return success();
  }
  arrivals_.begin_waiting(deadline);
  auto const done = [&]() -> Result<void> {
    if (!ongoing().exists()) {
      LEND_TRYV(begin(team, call));
    } else if (is_new) {
      LEND_TRYV(arrivals_.check_agreement());
    } else {
      ongoing().go_on(call);
    }
    for (;;) {
      LEND_TRY(is_over, progress_.advance());
      if (is_over) return success();
      LEND_TRYV(arrivals_.wait(deadline, "; it is still under way: make the same call again"));
    }
  }();
  if (done.has_value()) {
    finish(team, call.collective);
    ongoing().end();
  } else if (!base::is_given_up(done.error())) {
    break_by(done.error());
  }
  return done;
}

Result<void> GroupState::run_on_value(Membership& team, Call call, std::span<std::byte> value,
                                      Deadline deadline) noexcept {
  std::span<std::byte> const kept{value_.data(), value.size()};
  if (!call.in.empty()) call.in = kept;
  call.out = kept;
  if (!ongoing().exists()) std::memcpy(kept.data(), value.data(), value.size());
  LEND_TRYV(run(team, call, deadline));
  std::memcpy(value.data(), kept.data(), value.size());
  return success();
}

Result<void> GroupState::run_from_value(Membership& team, Call call, Deadline deadline) noexcept {
  std::span<std::byte> const kept{value_.data(), call.in.size()};
  if (!ongoing().exists()) std::memcpy(kept.data(), call.in.data(), call.in.size());
  call.in = kept;
  return run(team, call, deadline);
}

// ---- apart ----

void GroupState::leave() noexcept {
  if (std::exchange(has_left_, true)) return;
  auto const* const cause = first_cause();
  if (cause == nullptr && !is_inherited()) {
    for (auto const rank : links_.linked())
      static_cast<void>(links_[rank].take_arrivals());  // the peer may have left before
    // In the middle of a call it is missed.
    auto const own = ranks().rank;
    links_.end(ongoing().exists() ? MessageHead::of({Fault::Reason::left, own, own})
                                  : MessageHead{.kind = MessageHead::Kind::left},
               within(leaving_bound));
  }
  if (!is_inherited())
    peers_.end_all(cause != nullptr
                       ? *cause
                       : Error{Errc::channel_broken, "the Group of these peers has ended"});
  bool const is_kept = end_reads().has_value();
  links_.clear();
  posted_.fail(is_kept);
}

std::optional<Error> GroupState::end_reads() noexcept {
  if (posted_.is_empty() || is_inherited()) return {};
  return progress_.end_reads();
}

void GroupState::break_by(Error const& error) noexcept {
  if (tally_ && first_cause() == nullptr && ongoing().exists())
    tally_->fail(static_cast<std::size_t>(ongoing().call().collective));
  failure_.set(error);
  status_.set(RankStatus::State::broken);
  links_.end(failure_.last_message(ranks().rank), within(telling_bound));
  peers_.end_all(error);
  auto const kept = end_reads();
  if (kept) failure_.set(kept->with_cause(error));
  posted_.fail(kept.has_value());
}

void GroupState::abandon() noexcept {
  if (ongoing().exists()) abandon({});
}

void GroupState::abandon(std::string_view why) noexcept {
  if (first_cause() != nullptr || is_gone()) return;
  auto text = "this rank has abandoned " + (ongoing().exists() ? ongoing().text() : "the group");
  if (!why.empty()) text.append(": ").append(why);
  auto const own = ranks().rank;
  break_by(failure_.detected({Fault::Reason::abandoned, own, own},
                             {Errc::channel_broken, std::move(text)}));
  ongoing().end();
}

// ---- between calls ----

Result<void> GroupState::wait_for_any(Deadline deadline,
                                      std::function<bool()> const& has_come) noexcept {
  if (first_cause() != nullptr) return *first_cause();
  LEND_TRY(has_news, look());
  if (has_news) return success();
  auto const waited = arrivals_.wait_for_any(deadline, has_come);
  if (waited.has_error() && !base::is_given_up(waited.error())) break_by(waited.error());
  return waited;
}

Result<bool> GroupState::arm() noexcept {
  LEND_TRY(has_come, look());
  if (has_come) return false;
  return links_.set().arm();
}

int GroupState::descriptor() const noexcept {
  return links_.set().descriptor();
}

Deadline GroupState::look_again() const noexcept {
  // PeerWords are written to those that sleep by events, too.
  bool const is_woken =
      options().wait == Wait::event && domain().context().capabilities().waits_for_receives;
  return is_woken ? Deadline::never() : within(Arrivals::look_pause_max);
}

}  // namespace lend::group
