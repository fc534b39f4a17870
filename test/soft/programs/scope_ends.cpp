// SPDX-License-Identifier: MIT OR Apache-2.0
// Holding how scopes end, and what they tell, against what the spy has seen. One program at a time,
// one thread.
#include <algorithm>
#include <utility>

#include "soft/programs/model.hpp"

namespace lend::test {

namespace {

/// Of work that the device never had.
bool is_of_unposted(Error const& error) noexcept {
  return error.work() == nullptr;
}

}  // namespace

std::vector<Posted*> Model::untold_failures(std::size_t scope) {
  std::vector<Posted*> failures;
  for (auto& post : posts)
    if (post.scope == scope && !post.told && device_side(post).has_failed())
      failures.push_back(&post);
  return failures;
}

void Model::retire(std::size_t scope) {
  scopes[scope].has_ended = true;
  for (auto& post : posts) {
    if (post.scope != scope) continue;
    post.retired = true;
    if (is_in_progress(post)) complain("a scope ended with its work in progress");
  }
}

void Model::check_told(std::span<Error const> told, std::vector<Posted*> expected,
                       std::optional<std::size_t> unposted) {
  std::uint64_t last_seen = 0;
  auto const of_unposted = std::ranges::count_if(told, is_of_unposted);
  if (unposted && std::cmp_not_equal(of_unposted, *unposted))
    complain("of " + std::to_string(*unposted) + " failures of work that was not posted " +
             std::to_string(of_unposted) + " are told");
  for (auto const& error : told) {
    if (is_of_unposted(error)) continue;
    auto const found = std::ranges::find_if(
        expected, [&](Posted* post) { return tells_of(error, *post, device_side(*post)); });
    if (found == expected.end()) {
      if (unposted)
        complain("a failure is told that this scope has not, or for a second time: " +
                 error.message());
      continue;
    }
    auto const seen = device_side(**found).seen_at;
    if (seen < last_seen) complain("failures are not told in the order in which they were seen");
    last_seen = seen;
    (*found)->told = true;
    expected.erase(found);
  }
  for (auto const* lost : expected)
    complain("the failure of the " + std::string{name_of(lost->operation)} + " in slot " +
             std::to_string(device_side(*lost).slot()) + " was never told");
}

ScopeEnd Model::before_end_of(std::size_t scope, std::optional<Errc> closure_error) {
  ScopeEnd before;
  before.closure_error = closure_error;
  before.is_manual = scopes[scope].is_manual;
  before.was_bounded = scopes[scope].is_bounded;
  before.untold = static_cast<std::size_t>(std::ranges::count_if(
      posts, [&](Posted const& post) { return post.scope == scope && !post.told; }));
  before.untold += scopes[scope].failed_unposted;
  before.polls_failed = spy_.polls_failed;
  before.was_broken = is_broken(scopes[scope].end);
  return before;
}

void Model::after_end_of(std::size_t scope, ScopeEnd const& before,
                         std::optional<Error> const& error) {
  auto const failures = untold_failures(scope);
  retire(scope);
  check_code(scope, before, error, failures);
  if (error) {
    check_told(error->drained(), failures, scopes[scope].failed_unposted);
  } else if (!failures.empty() || scopes[scope].failed_unposted > 0) {
    complain("a scope whose work failed ended well");
  }
}

void Model::after_end_of_set(std::span<SetMember const> members,
                             std::optional<Error> const& error) {
  bool is_explained = !error;
  std::size_t told = 0;
  if (error)
    told = static_cast<std::size_t>(std::ranges::count(error->drained(), nullptr, &Error::work));
  for (auto const& [scope, before] : members) {
    auto const failures = untold_failures(scope);
    retire(scope);
    End const& end = ends[scopes[scope].end];
    if (!error) {
      if (!failures.empty() || scopes[scope].failed_unposted > 0)
        complain("a scope of a set whose work failed ended well");
      continue;
    }
    Error const* const cause = end.channel->first_cause();
    bool const may_be_cut_short = !before.was_broken && cause != nullptr &&
                                  error->work() == nullptr &&
                                  (!is_lends_own(*cause) || *cause == error->code());
    bool const has_failures = !failures.empty() || scopes[scope].failed_unposted > 0;
    if (!is_explained && (has_failures || may_be_cut_short)) {
      check_code(scope, before, error, failures);
      is_explained = true;
    }
    std::vector<Error> of_this;
    for (auto const& failure : error->drained())
      if (failure.work() != nullptr && failure.work()->queue_pair_number == end.queue_pair)
        of_this.push_back(failure);
    check_told(of_this, failures, 0);  // the others count as told
    told += of_this.size();
  }
  if (!is_explained) complain("a scope of a set failed for no reason: " + error->message());
  if (error && told != error->drained().size())
    complain("a scope of a set tells of a channel that it has not");
}

void Model::check_code(std::size_t scope, ScopeEnd const& before, std::optional<Error> const& error,
                       std::vector<Posted*> const& failures) {
  End const& end = ends[scopes[scope].end];
  auto const must_be = [&](std::optional<Errc> code) {
    if (error.has_value() == code.has_value() && (!error || error->code() == *code)) return;
    complain("a scope ended with " + std::string{error ? name_of(error->code()) : "success"} +
             " where the table says " + std::string{code ? name_of(*code) : "success"});
  };
  if (before.closure_error) return must_be(before.closure_error);
  if (end.is_gone) return must_be(Errc::stale_handle);
  Error const* const cause = end.channel->first_cause();
  bool const is_own = cause != nullptr && !before.was_broken && is_lends_own(*cause);
  // Of work that a batch could not post, which is seen before what broke the channel later.
  bool const tells_of_batch = scopes[scope].failed_unposted > 0 && error &&
                              is_of_unposted(*error) &&
                              std::ranges::any_of(error->drained(), [&](Error const& failure) {
                                return is_of_unposted(failure) && failure.code() == error->code();
                              });
  // The flush may have brought a better cause to light.
  bool const is_weaker = cause != nullptr && !before.was_broken && error &&
                         error->work() == nullptr && error->code() != Errc::unpolled_work &&
                         !tells_of_batch;
  if (is_own || is_weaker) {
    // The drain was cut short.
    Error const& reason = is_own ? *cause : *error;
    bool const by_time = reason == Errc::timed_out && before.was_bounded;
    bool const by_hand = reason == Errc::cancelled && scopes[scope].may_be_cancelled;
    bool const by_queue = reason == Errc::system_failed && spy_.polls_failed > before.polls_failed;
    if (!by_time && !by_hand && !by_queue)
      complain("a drain was cut short without a reason: " + reason.message());
    return must_be(reason.code());
  }
  if (before.is_manual && before.untold > 0) return must_be(Errc::unpolled_work);
  if (tells_of_batch) return;
  must_be(failures.empty() && scopes[scope].failed_unposted == 0 ? std::optional<Errc>{}
                                                                 : Errc::work_failed);
  if (failures.empty() || !error) return;
  bool const all_flushed = std::ranges::all_of(
      failures, [&](Posted* post) { return device_side(*post).status == IBV_WC_WR_FLUSH_ERR; });
  if (!all_flushed && is_flush(*error)) complain("a scope told of a flush, not of its cause");
}

void Model::allow_replaced_failures(std::size_t end) {
  for (auto& post : posts)
    if (post.end == end && !post.lends && !post.held && device_side(post).has_failed())
      post.told = true;
}

void Model::after_destruction_of(std::size_t scope, bool by_exception) {
  auto const failures = untold_failures(scope);
  bool const had_ended = scopes[scope].has_ended;
  retire(scope);
  End& end = ends[scopes[scope].end];
  if (had_ended || end.is_gone) return;
  Error const* const cause = end.channel->first_cause();
  if (cause != nullptr && !scopes[scope].was_broken && cause->work() == nullptr) {
    bool const was_left = *cause == Errc::channel_broken;
    if (was_left && !(by_exception && scopes[scope].had_work))
      complain("a scope was flushed as one left by an exception with work in progress");
  }
  if (by_exception && scopes[scope].had_receives && !scopes[scope].was_broken && cause != nullptr &&
      *cause == Errc::timed_out)
    complain("an exception waited for the peer to answer a receive");
  if (by_exception && scopes[scope].had_receives && cause == nullptr)
    complain("an exception left a receive in progress, and nothing was flushed");
  // What scopes inside this one left stays.
  if (scope >= end.kept_at) end.kept.clear();
  end.kept_at = scopes.size();
  for (auto const* failure : failures)
    end.kept.push_back(static_cast<std::size_t>(failure - posts.data()));
  std::vector<Posted*> kept;
  for (auto const index : end.kept) kept.push_back(&posts[index]);
  check_told(end.channel->last_failures(), kept, std::nullopt);
}

}  // namespace lend::test
