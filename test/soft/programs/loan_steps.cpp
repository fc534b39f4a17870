// SPDX-License-Identifier: MIT OR Apache-2.0
// What happens to the loans of a peer: lent, used, returned and recalled, in time or not. One
// thread.
#include <algorithm>
#include <utility>

#include "soft/programs/loan_run.hpp"
#include "support/two_ends.hpp"

namespace lend::test {

using namespace std::chrono_literals;

namespace {

Deadline loan_deadline(std::uint32_t number, Cancellation const& cancelled) {
  if (number % 8 == 0) return within(10s).unless(cancelled);
  if (number % 8 == 1) return within(std::chrono::microseconds{number / 8 % 4 * 60});
  return within(10s);
}

}  // namespace

bool LoanRun::is_whole(std::optional<Channel> const& channel) const {
  return channel && channel->first_cause() == nullptr;
}

LoanRun::Before LoanRun::before() {
  auto const number = lender_ ? lender_->endpoint().queue_pair_number.value() : 0;
  auto const sends = std::ranges::count_if(spy_.works(), [&](Accepted const& work) {
    return work.queue_pair == number && !work.is_receive && work.is_in_progress();
  });
  return {.polls_failed = spy_.polls_failed,
          .was_broken = !is_whole(lender_),
          .had_room = std::cmp_less(sends, program_.send_depth)};
}

/// Mostly one that is lent.
LoanRun::Lent* LoanRun::chosen(std::uint32_t number, std::uint32_t may_be_over) {
  std::vector<Lent*> some;
  for (auto& lent : loans_)
    if (lent.state == State::lent || may_be_over % 32 == 0) some.push_back(&lent);
  return some.empty() ? nullptr : some[number % some.size()];
}

void LoanRun::lend(Step const& step) {
  if (open_.empty() || !memory_) return;
  Open& scope = open_[step.numbers[0] % 4 == 0 ? 0 : open_.size() - 1];
  if (scope.has_ended) return;
  bool const is_written = step.numbers[1] % 2 == 0;
  ByteRange bytes{step.numbers[2] % (bytes_of_region - 16), 1 + step.numbers[3] % 16};
  auto const oddity = step.numbers[4] % 32;
  if (oddity == 0) bytes.length = 0;
  if (oddity == 1) bytes.length = bytes_of_region + 1 - bytes.offset;
  bool const is_wrong = oddity <= 1;
  bool const meets = !is_wrong && meets_a_loan(bytes, is_written);
  auto const state = before();
  auto const deadline = loan_deadline(step.numbers[5], cancelled_);
  auto const noted = [&] { return spy_.polls_failed; };
  auto lent = is_written
                  ? scope.scope->post_lend(memory_->scatter(bytes.offset, bytes.length), deadline)
                  : scope.scope->post_lend(memory_->gather(bytes.offset, bytes.length), deadline);
  tell("lend [" + std::to_string(bytes.offset) + ",+" + std::to_string(bytes.length) +
       (is_written ? ") to be written: " : ") to be read: ") + words_of(lent));
  look_at_connection();  // one that found no room has polled
  if (lent.has_value()) {
    if (is_wrong || meets_a_loan(bytes, is_written) || state.was_broken)
      complain("bytes were lent that could not be");
    auto const remote = lent.value().remote();
    if (remote.size() != bytes.length) complain("a loan tells of other bytes than were lent");
    loans_.push_back({std::move(lent).value(), bytes, is_written, scope.number, remote});
    return;
  }
  auto const& error = lent.error();
  if (lender_ && error != Errc::stale_handle) ++refused_;
  bool const is_so = [&] {
    switch (error.code()) {
      case Errc::stale_handle: return !lender_;
      case Errc::channel_broken: return !is_whole(lender_);
      case Errc::already_borrowed: return meets_a_loan(bytes, is_written);
      case Errc::invalid_argument: return is_wrong;
      case Errc::timed_out:
      case Errc::cancelled: return !state.had_room;
      case Errc::system_failed: return noted() > state.polls_failed;
      default: return false;
    }
  }();
  if (!is_so) complain("bytes were not lent for no reason that there is: " + error.message());
  if (state.had_room && !state.was_broken && !is_wrong && !meets)
    complain("bytes were not lent though nothing is in the way");
}

void LoanRun::note_early_use() {
  is_early_ =
      !program_.faults.empty() && std::ranges::any_of(spy_.works(), [](Accepted const& work) {
        return !work.is_receive && work.is_in_progress();
      });
}

/// The peer lost its connection, and so has the lender.
void LoanRun::note_peer_error(Lent& lent, ByteRange written, Error const& error) {
  bool const is_refused =
      error.work() != nullptr && (error.work()->status == WorkStatus::remote_access ||
                                  error.work()->status == WorkStatus::remote_invalid_request);
  bool const is_dead = !lent.is_the_peers() || lent.is_recalling;
  if (is_refused && !is_dead && !is_early_)
    complain("a peer was refused what it was lent: " + error.message());
  if (!is_refused && !may_break_) complain("a peer failed for no reason: " + error.message());
  may_break_ = true;
  // How far it came, nobody knows, where it was not refused.
  if (is_refused) return;
  for (auto i = written.offset; i < written.offset + written.length; ++i) is_unknown_[i] = true;
}

/// The peer writes what it was lent to be written, and reads the rest.
void LoanRun::use(Step const& step) {
  Lent* const lent = chosen(step.numbers[0], step.numbers[1]);
  if (lent == nullptr || !is_whole(peer_)) return;
  auto const length = 1 + step.numbers[2] % lent->bytes.length;
  auto const offset = step.numbers[3] % (lent->bytes.length - length + 1);
  auto const source = step.numbers[4] % (bytes_of_region - 16);
  bool const was_whole = is_whole(lender_);
  bool const is_dead = !lent->is_the_peers();
  if (is_dead || !was_whole) may_break_ = true;
  auto const slice = lent->remote.slice(offset, length);
  note_early_use();
  auto const result = lent->is_written
                          ? peer_->write({own_->gather(source, length), slice}, within(10s))
                          : peer_->read({own_->scatter(source, length), slice}, within(10s));
  tell(std::string{lent->is_written ? "the peer writes" : "the peer reads"} +
       (is_dead ? " what it has no more: " : ": ") + words_of(result));
  ByteRange const touched{lent->bytes.offset + offset, lent->is_written ? length : 0};
  if (!result.has_value()) return note_peer_error(*lent, touched, result.error());
  if (is_dead) return complain("a peer used what it has no more");
  auto const there = must(own_->bytes(source, length));
  for (std::size_t i = 0; i < length; ++i) {
    auto& here = expected_[lent->bytes.offset + offset + i];
    if (lent->is_written)
      here = there[i];
    else if (here != there[i] && !is_unknown_[lent->bytes.offset + offset + i])
      return complain("a peer has read other bytes than it was lent");
  }
  if (!lent->is_written)  // so that its bytes stay others than the lender's
    for (auto& byte : must(own_->mutable_bytes(source, length))) byte ^= std::byte{0x80};
}

void LoanRun::give_back(Step const& step) {
  Lent* const lent = chosen(step.numbers[0], step.numbers[1]);
  if (lent == nullptr || !is_whole(peer_) || !is_whole(lender_)) return;
  bool const is_dead = !lent->is_the_peers();
  if (is_dead) may_break_ = true;
  note_early_use();
  if (!is_dead && step.numbers[2] % 2 == 0 && !open_.empty() && !open_.back().has_ended)
    return give_back_unseen(*lent);
  std::uint64_t id = 0;
  {
    PollingScope scope{*lender_};
    scope.drain_within(100ms);
    auto const arrival = scope.post_receive(Receive::only_immediate(), within(10s));
    if (!arrival.has_value()) {
      if (!may_break_) complain("there is no room for a return: " + arrival.error().message());
      return;
    }
    id = arrival.value().id();
    auto const sent = peer_->send(Send::only_returning(lent->remote), within(10s));
    tell(std::string{"the peer returns"} + (is_dead ? " what it has no more: " : ": ") +
         words_of(sent));
    if (!sent.has_value()) note_peer_error(*lent, {}, sent.error());
  }
  look_at_connection();
  auto const came = std::ranges::find_if(spy_.works(), [&](Accepted const& work) {
    return work.is_receive && work.id == id && work.has_succeeded();
  });
  if (came == spy_.works().end()) {
    if (!may_break_) complain("a return does not come");
    return;
  }
  if (is_dead) complain("a return came of what the peer has no more");
  // What is being recalled ends when that is known to be over.
  if (lent->state == State::lent && !lent->is_recalling) lent->state = State::returned;
}

/// Nobody asks for the receive that says so.
void LoanRun::give_back_unseen(Lent& lent) {
  auto& scope = *open_.back().scope;
  std::uint64_t id = 0;
  {
    auto const arrival = scope.try_post_receive(Receive::only_immediate());
    if (!arrival.has_value()) return;
    id = arrival.value().id();
  }
  auto const sent = peer_->send(Send::only_returning(lent.remote), within(10s));
  tell("the peer returns unseen: " + words_of(sent));
  lent.returned_by = id;
  lent.polls_failed = spy_.polls_failed;
  if (sent.has_value()) return;
  scope.drain_within(short_bound);
  note_peer_error(lent, {}, sent.error());
}

void LoanRun::recall(Step const& step) {
  Lent* const lent = chosen(step.numbers[0], step.numbers[1]);
  if (lent == nullptr) return;
  auto const state = before();
  auto const result = lent->loan.recall(loan_deadline(step.numbers[5], cancelled_));
  tell("recall: " + words_of(result));
  if (lent->returned_by != 0 && (lent->is_recalling || spy_.polls_failed > state.polls_failed))
    is_blurred_ = true;
  look_at_connection();
  if (result.has_value()) {
    if (!lender_) complain("a loan of a channel that is gone was recalled");
    if (lent->state != State::lent) return;
    if (is_whole(lender_))
      lent->state = State::recalled;
    else
      note_end_of_connection();
    return;
  }
  auto const& error = result.error();
  if (error == Errc::stale_handle) {
    if (lender_) complain("a loan is stale, and its channel is there");
    return;
  }
  lent->is_recalling = spy_.has_invalidated(lent->remote.key());
  bool const by_time = error == Errc::timed_out || error == Errc::cancelled;
  bool const by_queue = error == Errc::system_failed && spy_.polls_failed > state.polls_failed;
  if (!by_time && !by_queue)
    complain("a recall fails for no reason that there is: " + error.message());
  if (lent->state != State::lent) complain("what is over cannot be recalled in time");
}

void LoanRun::ask(Step const& step) {
  Lent* const lent = chosen(step.numbers[0], step.numbers[1] % 4 == 0 ? 0 : 1);
  if (lent == nullptr) return;
  auto const state = before();
  auto const is_over = lent->loan.is_over();
  tell(std::string{"is it over: "} + (!is_over.has_value()
                                          ? std::string{name_of(is_over.error().code())}
                                      : is_over.value() ? "yes"
                                                        : "no"));
  if (!is_over.has_value()) {
    bool const by_end = is_over.error() == Errc::stale_handle && !lender_;
    bool const by_queue =
        is_over.error() == Errc::system_failed && spy_.polls_failed > state.polls_failed;
    if (!by_end && !by_queue) complain("nobody says whether a loan is over");
    return;
  }
  if (!lender_) complain("a loan of a channel that is gone is not stale");
  look_at_connection();
  if (lent->is_recalling && lent->state == State::lent && is_whole(lender_)) {
    // This poll has seen the end of the recall, if it has begun.
    bool const is_lost = std::ranges::any_of(
        spy_.works(), [](Accepted const& work) { return work.is_in_progress(); });
    if (is_over.value()) lent->state = State::recalled;
    if (!is_over.value() && !is_lost)
      complain("a recall that the device has confirmed is not over");
    return;
  }
  if (is_over.value() != (lent->state != State::lent))
    complain("a loan is over, or not, against what happened to it");
}

void LoanRun::destroy_channel(bool is_lender) {
  auto& channel = is_lender ? lender_ : peer_;
  if (!channel) return;
  channel.reset();
  tell(is_lender ? "destroy the lender" : "destroy the peer");
  if (is_lender) note_end_of_connection();
}

}  // namespace lend::test
