// SPDX-License-Identifier: MIT OR Apache-2.0
// Determines the first cause, and how it explains other failures. The thread of the channel.
#include <base/error_access.hpp>
#include <channel/parts/failure_log.hpp>
#include <channel/parts/loss_source.hpp>

#include <algorithm>
#include <new>
#include <vector>

namespace lend::channel {

namespace {

template <class T>
void make_room(std::vector<T>& values, std::size_t more) {
  if (values.capacity() - values.size() < more) values.reserve(2 * values.size() + more);
}

}  // namespace

Error const& root_of(std::vector<Error> const& failures) noexcept {
  auto const told = [](Error const& failure) { return !failure.is_flush(); };
  auto const seen = [](Error const& failure) {
    return !failure.is_flush() && failure.code() != Errc::channel_broken;
  };
  auto root = std::ranges::find_if(failures, seen);
  if (root == failures.end()) root = std::ranges::find_if(failures, told);
  return root != failures.end() ? *root : failures.front();
}

Error root_with_others(std::vector<Error> failures) noexcept {
  auto const place = &root_of(failures) - failures.data();
  Error const root = failures[static_cast<std::size_t>(place)];
  failures.erase(failures.begin() + place);
  return failures.empty() ? root : root.with_drained(std::move(failures));
}

void FailureLog::add_cause(Error const& cause) noexcept {
  if (!first_cause_) {
    first_cause_ = cause;
  } else if (!cause.is_flush() && (cause_is_own_ || first_cause_->is_flush())) {
    // A flushed request shows the end, not its reason, and lend's own reason to abort is mostly a
    // timeout: a later failure that is neither is a better cause.
    base::ErrorAccess::count_flushed(
        cause, first_cause_->flushed_along() + (first_cause_->is_flush() ? 1 : 0));
    first_cause_ = cause;
    cause_is_own_ = false;
  }
}

void FailureLog::add_own_cause(Error const& reason) noexcept {
  if (first_cause_) return;
  first_cause_ = reason;
  cause_is_own_ = true;
}

void FailureLog::add_loss(Error const& loss, bool is_of_peer, bool is_iwarp) noexcept {
  if (std::exchange(has_loss_, true)) return;
  loss_is_of_peer_ = is_of_peer;
  loss_is_on_iwarp_ = is_iwarp;
  cause_is_loss_ = !first_cause_ || (!cause_is_own_ && comes_of_loss(*first_cause_));
  if (cause_is_loss_) first_cause_ = loss;
}

bool FailureLog::comes_of_loss(Error const& failure) const noexcept {
  if (shows_loss(failure) || (loss_is_of_peer_ && is_refusal(failure))) return true;
  return loss_is_on_iwarp_ && failure.work() != nullptr &&
         failure.work()->status == WorkStatus::local_queue_pair_operation;
}

Error FailureLog::broken_error() const noexcept {
  return Error{Errc::channel_broken,
               "the channel is broken; first cause: " + first_cause_->message()}
      .with_cause(*first_cause_);
}

bool FailureLog::is_cause_of(WorkStatus status) const noexcept {
  // Neither a flush nor lend's reason for an abort is the cause of a request that failed by itself.
  return first_cause_ &&
         (status == WorkStatus::flushed || !(cause_is_own_ || first_cause_->is_flush()));
}

Error FailureLog::explained(Error const& failure) const noexcept {
  if (cause_is_loss_ && comes_of_loss(failure)) {
    WorkFailure const* const of = base::ErrorAccess::request_of(failure);
    if (of == nullptr) return *first_cause_;
    WorkFailure subject = *of;
    subject.status = WorkStatus::success;  // not what failed
    return base::ErrorAccess::about(*first_cause_, subject);
  }
  bool const is_open =
      failure.is_flush() && (failure.cause() == nullptr || failure.cause()->is_flush());
  if (!is_open || !first_cause_) return failure;
  if (*first_cause_ == Errc::device_event) return failure.with_cause(*first_cause_);
  if (*first_cause_ != Errc::peer_lost) return failure;
  WorkFailure subject = *failure.work();
  subject.status = WorkStatus::success;  // not what failed
  return base::ErrorAccess::about(*first_cause_, subject);
}

void FailureLog::keep(ScopeRecord& scope, Error const& failure, std::uint64_t number) noexcept {
  auto& failures = scope.failures;
  auto& numbers = scope.seen_as;
  auto const place = std::ranges::upper_bound(numbers, number) - numbers.begin();  // mostly the end
  try {
    make_room(failures, 2);  // one for last_failures(), which reports that some were lost
    make_room(numbers, 1);
  } catch (std::bad_alloc const&) {
    // The text is lost, but not the fact that there was a failure.
    scope.has_lost_failure = true;
    return;
  }
  failures.insert(failures.begin() + place, failure);
  numbers.insert(numbers.begin() + place, number);
}

}  // namespace lend::channel
