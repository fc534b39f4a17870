// SPDX-License-Identifier: MIT OR Apache-2.0
// What must be so between two steps of a program of peer loans. One thread.
#include <algorithm>

#include "soft/programs/loan_run.hpp"
#include "support/two_ends.hpp"

namespace lend::test {

bool LoanRun::meets_a_loan(ByteRange bytes, bool exclusively) const {
  return std::ranges::any_of(loans_, [&](Lent const& lent) {
    return lent.state == State::lent && (exclusively || lent.is_written) &&
           overlap(lent.bytes, bytes);
  });
}

void LoanRun::note_end_of(std::size_t number) {
  // A poll that failed did not bring the return, and the end of the scope has recalled the loan.
  is_blurred_ |= std::ranges::any_of(loans_, [&](Lent const& lent) {
    return lent.state == State::lent && lent.returned_by != 0 &&
           spy_.polls_failed > lent.polls_failed;
  });
  look_at_connection();
  bool const has_broken = !lender_ || lender_->first_cause() != nullptr;
  // On a broken channel the end of one scope with loans ends the connection, and so all loans.
  bool has_loans = false;
  for (auto& lent : loans_) {
    if (lent.scope != number || lent.state != State::lent) continue;
    has_loans = true;
    lent.state = has_broken ? State::ended : State::recalled;
  }
  if (has_loans && has_broken) note_end_of_connection();
}

void LoanRun::note_end_of_connection() {
  for (auto& lent : loans_)
    if (lent.state == State::lent) lent.state = State::ended;
}

void LoanRun::look_at_connection() {
  for (auto& lent : loans_) {
    if (lent.state != State::lent || lent.returned_by == 0 || lent.is_recalling) continue;
    bool const has_come = std::ranges::any_of(spy_.works(), [&](Accepted const& work) {
      return work.is_receive && work.id == lent.returned_by && work.has_succeeded();
    });
    if (has_come) lent.state = State::returned;
  }
  if (lender_ && spy_.has_destroyed(lender_->endpoint().queue_pair_number.value()))
    note_end_of_connection();
}

void LoanRun::check() {
  look_at_connection();
  if (lender_ && lender_->first_cause() != nullptr && !may_break_)
    complain("a channel is broken, and nothing went wrong: " + lender_->first_cause()->message());
  check_bytes();
  check_metrics();
}

void LoanRun::check_bytes() {
  if (!memory_) return;
  auto const lent = static_cast<std::size_t>(std::ranges::count(loans_, State::lent, &Lent::state));
  if (memory_->loans() != lent)
    return complain("a region has " + std::to_string(memory_->loans()) + " loans where " +
                    std::to_string(lent) + " are lent to the peer");
  for (std::size_t i = 0; i < bytes_of_region; ++i) {
    auto const bytes = memory_->bytes(i, 1);
    if (bytes.has_value() == meets_a_loan({i, 1}, false))
      return complain("byte " + std::to_string(i) + " is readable, or not, against its loans");
    if (memory_->mutable_bytes(i, 1).has_value() == meets_a_loan({i, 1}, true))
      return complain("byte " + std::to_string(i) + " is writable, or not, against its loans");
    if (!bytes.has_value()) continue;
    if (is_unknown_[i]) expected_[i] = bytes.value()[0];
    is_unknown_[i] = false;
    if (bytes.value()[0] != expected_[i])
      return complain("byte " + std::to_string(i) +
                      " was changed by a peer that had no loan of it");
  }
}

void LoanRun::check_metrics() {
  if (!lender_) return;
  auto const& counted = lender_->metrics()->peer_loans;
  auto const count = [this](State state) {
    return static_cast<std::uint64_t>(std::ranges::count(loans_, state, &Lent::state));
  };
  if (counted.lent != loans_.size() || counted.refused != refused_ ||
      (!is_blurred_ && counted.returned != count(State::returned)) ||
      counted.returned + counted.recalled + counted.ended != loans_.size() - count(State::lent) ||
      // Where the channel breaks in the middle of it, some are recalled and some are not.
      (lender_->first_cause() == nullptr && counted.ended != 0))
    complain("the metrics count " + std::to_string(counted.lent) + " lent, " +
             std::to_string(counted.returned) + " returned, " + std::to_string(counted.recalled) +
             " recalled, " + std::to_string(counted.ended) + " ended, " +
             std::to_string(counted.refused) + " refused instead of " +
             std::to_string(loans_.size()) + ", " + std::to_string(count(State::returned)) + ", " +
             std::to_string(count(State::recalled)) + ", " + std::to_string(count(State::ended)) +
             ", " + std::to_string(refused_));
}

}  // namespace lend::test
