// SPDX-License-Identifier: MIT OR Apache-2.0
// Carries out calls: one that blocks, or what was posted, one after the other.
#include <base/giving_up.hpp>
#include <group/state/calls.hpp>
#include <group/state/group_state.hpp>
#include <verbs/memory/region_state.hpp>

#include <cstring>
#include <utility>

namespace lend::group {

namespace {

// Calls that find everything there look for nothing else. After so many one does, for events of the
// device, keep-alives and links that have ended.
constexpr std::uint32_t calls_per_poll = 256;

}  // namespace

Calls::Calls(GroupState& group, OwnStatus& status, LongBuffers& buffers)
    : group_{group},
      status_{status},
      progress_{group.links(), arrivals_, group.links().options(), buffers},
      arrivals_{group.links(), progress_.call(), status, group.peers(), group.failure()},
      short_calls_{group.links(), status, progress_.call()} {}

// ---- one call ----

inline Result<void> Calls::count_begin() noexcept {
  if (tally_) [[unlikely]]
    began_ = clock_.now();
  if (++calls_ % calls_per_poll != 0) [[likely]]
    return success();
  return without_value(poll_set());
}

inline void Calls::finish(Membership const& team, Collective collective) noexcept {
  if (team.is_whole) ++group_.history().finished;
  if (tally_) [[unlikely]]
    tally_->succeed(static_cast<std::size_t>(collective), clock_.nanoseconds_since(began_));
  status_.leave();
}

void Calls::count_failure() noexcept {
  if (tally_ && has_one()) tally_->fail(static_cast<std::size_t>(current().collective));
}

std::string Calls::text() const {
  return ongoing().exists() ? ongoing().text() : current().text(short_calls_.posted()->team());
}

void Calls::end() noexcept {
  ongoing().end();
  short_calls_.end();
}

Error Calls::is_under_way() const {
  return {Errc::invalid_argument,
          text() + " is still under way: " +
              (posted_.is_empty() || run_ != 0
                   ? "make that call again, with the same arguments, until it is over"
                   : "it was posted in a GroupScope; wait for it, and for what was posted after")};
}

Result<void> Calls::begin(Membership& team, Call const& call) noexcept {
  LEND_TRYV(ongoing().begin(team, call));
  status_.enter(team, call);
  return arrivals_.check_agreement();
}

Result<bool> Calls::poll_set() noexcept {
  LEND_TRY(ready, group_.links().poll());
  LEND_TRYV(arrivals_.take(ready));
  return !ready.empty();
}

Result<void> Calls::run(Membership& team, Call const& call, Deadline deadline) noexcept {
  if (!group_.is_usable()) return group_.why_unusable();
  if (!posted_.is_empty() || (ongoing().exists() && !ongoing().goes_on_with(team, call)))
    return is_under_way();
  auto const is_new = !ongoing().exists();
  if (is_new) {
    if (auto const counted = count_begin(); counted.has_error()) [[unlikely]] {
      group_.break_by(counted.error());
      return counted;
    }
    if (short_calls_.run(team, call, deadline) == ShortCalls::Outcome::over) {
      finish(team, call.collective);
      return success();
    }
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
    group_.break_by(done.error());
  }
  return done;
}

Result<void> Calls::run_on_value(Membership& team, Call call, Deadline deadline) noexcept {
  std::span<std::byte> const kept{value_.data(), call.block_bytes};
  if (!ongoing().exists()) std::memcpy(kept.data(), call.in.data(), kept.size());
  call.in = kept;
  if (call.layout().in != Parts::in_place) return run(team, call, deadline);
  auto* const value = std::exchange(call.out, kept).data();
  LEND_TRYV(run(team, call, deadline));
  std::memcpy(value, kept.data(), kept.size());
  return success();
}

// ---- what was posted ----

Result<PostedCalls::Id> Calls::post(Membership& team, Call const& call, GatherElement const& in,
                                    ScatterElement const& out) noexcept {
  if (!group_.is_usable()) return group_.why_unusable();
  if (ongoing().exists() && (posted_.is_empty() || run_ != 0)) return is_under_way();
  bool const do_links_write =
      out.region != nullptr && out.region->protection_domain == group_.links().domain().native();
  LEND_TRY(id, posted_.add(team, call, in, out, do_links_write));
  // The handle says what comes of it.
  if (auto const gone_on = go_on(); gone_on.has_error()) group_.break_by(gone_on.error());
  return id;
}

Result<void> Calls::run_lent(Membership& team, Call const& call, GatherElement const& in,
                             ScatterElement const& out, Deadline deadline) noexcept {
  if (!group_.is_usable()) return group_.why_unusable();
  if (!has_one()) {
    LEND_TRY(id, post(team, call, in, out));
    run_ = id;
  } else if (run_ == 0 || !ongoing().goes_on_with(team, call)) {
    return is_under_way();
  }
  auto done = wait_for(run_, deadline, "; it is still under way: make the same call again");
  if (done.has_value() || !base::is_given_up(done.error())) run_ = 0;
  return done;
}

Result<bool> Calls::poll(PostedCalls::Id id) noexcept {
  if (posted_.has_ended(id)) return true;
  if (!group_.is_usable()) return why_not_ended(id);
  auto const done = [&]() -> Result<void> {
    for (int rounds = 0; rounds < Arrivals::rounds_max; ++rounds) {
      LEND_TRYV(go_on());
      if (posted_.is_empty()) return success();
      LEND_TRY(has_come, short_calls_.posted() != nullptr ? poll_set() : arrivals_.take());
      if (has_come) continue;
      // What has come counts before what was lost: the short way looks only where it waits.
      if (short_calls_.posted() == nullptr || !arrivals_.has_lost_any())
        return arrivals_.check_for_losses();
      LEND_TRYV(leave_short_way());
    }
    return success();
  }();
  if (done.has_error()) group_.break_by(done.error());
  if (posted_.has_ended(id)) return true;
  if (done.has_error()) return why_not_ended(id);
  return false;
}

Result<void> Calls::wait_for(PostedCalls::Id id, Deadline deadline,
                             std::string_view then) noexcept {
  if (posted_.has_ended(id)) return success();
  if (!group_.is_usable()) return why_not_ended(id);
  arrivals_.begin_waiting(deadline);
  auto const done = [&]() -> Result<void> {
    auto const spins_for = deadline.has_passed() ? PostedCalls::Id{0} : id;
    for (;;) {
      LEND_TRYV(go_on_generally(spins_for));
      if (posted_.has_ended(id)) return success();
      LEND_TRYV(arrivals_.wait(deadline, then));
    }
  }();
  if (done.has_value() || base::is_given_up(done.error())) return done;
  group_.break_by(done.error());
  return why_not_ended(id);
}

std::optional<Error> Calls::end_reads(KeptBytes& kept) noexcept {
  if (posted_.is_empty() || group_.is_inherited()) return {};
  return progress_.end_reads(kept);
}

Result<void> Calls::drain(PostedCalls::Id id, Deadline deadline) noexcept {
  if (group_.is_inherited()) posted_.fail();  // the bytes are lent in the parent
  auto const done =
      wait_for(id, deadline, "; it was abandoned with its scope, and the group is broken");
  if (done.has_error() && base::is_given_up(done.error())) group_.abandon();
  if (posted_.keeps_bytes()) return *group_.failure().cause();
  return done;
}

Result<void> Calls::go_on(PostedCalls::Id awaited) noexcept {
  using Outcome = ShortCalls::Outcome;
  while (!posted_.is_empty()) {
    PostedCall& posted = posted_.front();
    {
      PostedCall::Touch const touch{posted};
      if (!ongoing().exists()) {
        if (short_calls_.posted() == nullptr) {
          LEND_TRYV(count_begin());
        }
        auto const outcome =
            short_calls_.go_on(*posted.team, posted.call, !posted_.has_ended(awaited));
        if (outcome == Outcome::waits) return success();
        if (outcome == Outcome::not_begun) {
          LEND_TRYV(begin(*posted.team, posted.call));
        } else if (outcome == Outcome::left) {
          LEND_TRYV(arrivals_.check_agreement());
        }
      }
      if (ongoing().exists()) {
        LEND_TRY(is_over, progress_.advance());
        if (!is_over) return success();
        ongoing().end();
      }
    }
    finish(*posted.team, posted.call.collective);
    posted_.end_front();
  }
  return success();
}

Result<void> Calls::go_on_generally(PostedCalls::Id awaited) noexcept {
  for (;;) {
    LEND_TRYV(go_on(awaited));
    if (short_calls_.posted() == nullptr || (awaited != 0 && posted_.has_ended(awaited)))
      return success();
    LEND_TRYV(leave_short_way());
  }
}

Result<void> Calls::leave_short_way() noexcept {
  PostedCall::Touch const touch{posted_.front()};
  short_calls_.leave();
  return arrivals_.check_agreement();
}

Error Calls::why_not_ended(PostedCalls::Id id) const noexcept {
  if (group_.failure().cause() == nullptr) return group_.why_unusable();
  if (posted_.is_first_failed(id)) return *group_.failure().cause();
  return Error{Errc::channel_broken, "the group broke in a collective that was posted before"}
      .with_cause(*group_.failure().cause());
}

// ---- between calls ----

Result<bool> Calls::look() noexcept {
  if (!group_.is_usable()) return group_.why_unusable();
  bool has_any = false;
  auto const done = [&]() -> Result<void> {
    for (int rounds = 0; rounds < Arrivals::rounds_max; ++rounds) {
      // A call that blocks is ended by its caller alone, who makes it again.
      if (run_ == 0) {
        LEND_TRYV(go_on_generally());
      }
      LEND_TRY(has_come, arrivals_.take());
      // What has come counts before what was lost.
      if (!has_come) return arrivals_.check_for_losses();
      has_any = true;
    }
    return success();
  }();
  if (done.has_value()) return has_any;
  group_.break_by(done.error());
  return done.error();
}

Result<void> Calls::wait_for_any(Deadline deadline,
                                 std::function<bool()> const& has_come) noexcept {
  if (group_.failure().cause() != nullptr) return *group_.failure().cause();
  LEND_TRY(has_news, look());
  if (has_news) return success();
  auto const waited = arrivals_.wait_for_any(deadline, has_come);
  if (waited.has_error() && !base::is_given_up(waited.error())) group_.break_by(waited.error());
  return waited;
}

Result<bool> Calls::arm() noexcept {
  LEND_TRY(has_come, look());
  if (has_come) return false;
  return group_.links().set().arm();
}

}  // namespace lend::group
