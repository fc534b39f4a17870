// SPDX-License-Identifier: MIT OR Apache-2.0
// Carries out what was posted, one after the other: by scopes, or by a call that blocks. The thread
// of the group.
#include <base/giving_up.hpp>
#include <group/state/group_state.hpp>
#include <verbs/memory/region_state.hpp>

namespace lend::group {

Result<PostedCalls::Id> GroupState::post(Membership& team, Call const& call, GatherElement in,
                                         ScatterElement out) noexcept {
  if (!is_usable()) return why_unusable();
  if (ongoing().exists() && (posted_.is_empty() || run_ != 0)) return is_under_way();
  return add(team, call, in, out);
}

Result<void> GroupState::run_lent(Membership& team, Call const& call, GatherElement in,
                                  ScatterElement out, Deadline deadline) noexcept {
  if (!is_usable()) return why_unusable();
  if (!ongoing().exists()) {
    LEND_TRY(id, add(team, call, in, out));
    run_ = id;
  } else if (run_ == 0 || !ongoing().goes_on_with(team, call)) {
    return is_under_way();
  }
  auto done = wait_for(run_, deadline, "; it is still under way: make the same call again");
  if (done.has_value() || !base::is_given_up(done.error())) run_ = 0;
  return done;
}

Result<bool> GroupState::look() noexcept {
  if (!is_usable()) return why_unusable();
  bool has_any = false;
  auto const done = [&]() -> Result<void> {
    for (int rounds = 0; rounds < Arrivals::rounds_max; ++rounds) {
      // A call that blocks is ended by its caller alone, who makes it again.
      if (run_ == 0) {
        LEND_TRYV(go_on());
      }
      LEND_TRY(has_come, arrivals_.take());
      // What has come counts before what was lost.
      if (!has_come) return arrivals_.check_for_losses();
      has_any = true;
    }
    return success();
  }();
  if (done.has_value()) return has_any;
  break_by(done.error());
  return done.error();
}

Result<PostedCalls::Id> GroupState::add(Membership& team, Call const& call, GatherElement in,
                                        ScatterElement out) noexcept {
  bool const do_links_write =
      out.region != nullptr && out.region->protection_domain == domain().native();
  LEND_TRY(id, posted_.add(team, call, in, out, do_links_write));
  // The handle says what comes of it.
  if (auto const gone_on = go_on(); gone_on.has_error()) break_by(gone_on.error());
  return id;
}

Result<bool> GroupState::poll(PostedCalls::Id id) noexcept {
  if (posted_.has_ended(id)) return true;
  if (!is_usable()) return why_not_ended(id);
  auto const done = [&]() -> Result<void> {
    for (int rounds = 0; rounds < Arrivals::rounds_max; ++rounds) {
      LEND_TRYV(go_on());
      if (posted_.is_empty()) return success();
      LEND_TRY(has_come, arrivals_.take());
      // What has come counts before what was lost.
      if (!has_come) return arrivals_.check_for_losses();
    }
    return success();
  }();
  if (done.has_error()) break_by(done.error());
  if (posted_.has_ended(id)) return true;
  if (done.has_error()) return why_not_ended(id);
  return false;
}

Result<void> GroupState::wait_for(PostedCalls::Id id, Deadline deadline,
                                  std::string_view then) noexcept {
  if (posted_.has_ended(id)) return success();
  if (!is_usable()) return why_not_ended(id);
  arrivals_.begin_waiting(deadline);
  auto const done = [&]() -> Result<void> {
    for (;;) {
      LEND_TRYV(go_on());
      if (posted_.has_ended(id)) return success();
      LEND_TRYV(arrivals_.wait(deadline, then));
    }
  }();
  if (done.has_value() || base::is_given_up(done.error())) return done;
  break_by(done.error());
  return why_not_ended(id);
}

Result<void> GroupState::drain(PostedCalls::Id id, Deadline deadline) noexcept {
  if (is_inherited()) posted_.fail();  // the bytes are lent in the parent
  auto const done =
      wait_for(id, deadline, "; it was abandoned with its scope, and the group is broken");
  if (done.has_error() && base::is_given_up(done.error())) abandon();
  if (posted_.keeps_bytes()) return *first_cause();
  return done;
}

Result<void> GroupState::go_on() noexcept {
  while (!posted_.is_empty()) {
    {
      PostedCall const& posted = posted_.front();
      PostedCall::Touch const touch{posted};
      if (!ongoing().exists()) {
        count_begin();
        LEND_TRYV(begin(*posted.team, posted.call));
      }
      LEND_TRY(is_over, progress_.advance());
      if (!is_over) return success();
    }
    finish(ongoing().team(), ongoing().call().collective);
    ongoing().end();
    posted_.end_front();
  }
  return success();
}

Error GroupState::why_not_ended(PostedCalls::Id id) const noexcept {
  if (first_cause() == nullptr) return why_unusable();
  if (posted_.is_first_failed(id)) return *first_cause();
  return Error{Errc::channel_broken, "the group broke in a collective that was posted before"}
      .with_cause(*first_cause());
}

}  // namespace lend::group
