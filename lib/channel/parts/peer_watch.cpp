// SPDX-License-Identifier: MIT OR Apache-2.0
// When to check the peer, and what it means if nothing comes back. The thread of the channel.
#include <channel/parts/peer_watch.hpp>

namespace lend::channel {

namespace {

// For a program that polls rarely and may never reach 512 empty polls.
constexpr std::chrono::milliseconds longest_between_looks{10};
// Of a connection manager whose event does not wake the program, by one that sleeps.
constexpr std::chrono::milliseconds longest_between_asking{20};
// How long the reason for a flush may take through the kernel.
constexpr std::chrono::milliseconds explanation_bound{200};

}  // namespace

PeerWatch::PeerWatch(Connection& connection, QueueRoom const& room, FailureLog const& failures,
                     std::chrono::nanoseconds keep_alive, bool has_pool) noexcept
    : connection_{connection},
      room_{room},
      failures_{failures},
      has_pool_{has_pool},
      interval_{keep_alive},
      next_question_{within(interval_)},
      next_look_{Deadline::Clock::now()} {}

void PeerWatch::begin(bool is_watched, bool is_heard) noexcept {
  is_watched_ = is_watched;
  is_heard_ = is_heard;
  next_question_ = within(interval_);
}

bool PeerWatch::is_time_to_look() noexcept {
  if (!is_on() || !next_look_.has_passed()) return false;
  next_look_ = within(longest_between_looks);
  return true;
}

Finding PeerWatch::look() noexcept {
  Finding found;
  if (is_watched_) found = ask_manager();
  Deadline unused = Deadline::never();
  if (!found && asks()) found = ask_peer_if_due(unused);
  return found;
}

Deadline PeerWatch::next_look() const noexcept {
  Deadline next = Deadline::never();
  if (is_to_be_asked()) next = within(longest_between_asking);
  if (asks() && is_question_wanted()) next = sooner(next, next_question_);
  return next.at() < next_look_.at() ? next_look_ : next;  // is_time_to_look() not before
}

Finding PeerWatch::look_between(Waiter& waiter) noexcept {
  Finding found;
  if (is_watched_ && waiter.just_slept()) found = ask_manager();
  // A check reads the clock, which a spinning wait must not pay for each time; it checks every so
  // many polls.
  if (found || waiter.is_spinning()) return found;
  Deadline look_again = Deadline::never();
  if (asks()) found = ask_peer_if_due(look_again);
  // It sleeps on completions alone.
  if (is_watched_) look_again = sooner(look_again, within(longest_between_asking));
  if (looks_beside_) look_again = sooner(look_again, within(longest_between_looks));
  waiter.look_at(look_again);
  return found;
}

Finding PeerWatch::ask_manager() noexcept {
  // A flush is not a reason: it may have come before the actual one.
  if (failures_.first_cause() != nullptr && !failures_.is_unexplained()) return {};
  return connection_.lost(Deadline{Deadline::Clock::now()});
}

bool PeerWatch::is_question_wanted() const noexcept {
  // Work in the send queue detects a lost peer by itself.
  bool const awaits_any = has_pool_ || awaits_beside || room_.outstanding(Operation::receive) > 0;
  bool const is_needed = awaits_any && room_.outstanding(Operation::send) == 0;
  return is_needed && failures_.first_cause() == nullptr && connection_.is_connected() &&
         !is_asking_;
}

Finding PeerWatch::ask_peer_if_due(Deadline& look_again) noexcept {
  if (!is_question_wanted()) return {};
  if (!next_question_.has_passed()) {
    look_again = next_question_;
    return {};
  }
  look_again = next_question_ = within(interval_);
  // SAFETY: no slot has this id, and one entry of the completion queue is reserved for it: there is
  // one at a time. The same in the send queue, so that only a broken queue pair refuses it.
  auto const probe = connection_.unsafe_post_probe(probe_id);
  is_asking_ = probe != QueuePair::Probe::refused;
  if (probe == QueuePair::Probe::unclear)
    return Error{Errc::system_failed,
                 "the device failed when the channel's keep-alive was posted, and does not say "
                 "whether it took it"};
  return {};
}

[[gnu::cold]] Finding PeerWatch::keep_alive_ended(FailedWork const* failed) noexcept {
  is_asking_ = false;
  // A flushed keep-alive says no more than the work that was flushed with it.
  if (failed == nullptr || failed->status == WorkStatus::flushed) return {};

  WorkFailure subject = connection_.subject();
  subject.operation = Operation::write;
  subject.status = failed->status;
  subject.vendor_code = failed->vendor_code;
  subject.queue_pair_state = connection_.state();
  subject.port_is_down = connection_.port_is_down();
  Error const answer = Error::from_work(subject);
  if (class_of(failed->status) != FailureClass::delivery)
    return answer;  // the peer exists and refuses
  return Error{Errc::peer_lost,
               "the peer did not answer the channel's keep-alive: " + answer.message()}
      .with_cause(answer);
}

bool PeerWatch::may_be_explained() const noexcept {
  // iWARP flushes by itself when the connection ends, before the reason arrives.
  return is_watched_ && !connection_.is_gone() && failures_.is_unexplained();
}

Finding PeerWatch::explanation(Deadline deadline) noexcept {
  if (!explanation_until_) explanation_until_ = within(explanation_bound);
  return connection_.lost(sooner(deadline, *explanation_until_));
}

bool PeerWatch::has_waited_for_explanation() const noexcept {
  return explanation_until_ && explanation_until_->has_passed();
}

}  // namespace lend::channel
