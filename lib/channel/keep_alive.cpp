// SPDX-License-Identifier: MIT OR Apache-2.0
// How a wait that sees nothing finds out that its peer is gone. The thread of the channel.
#include <channel/channel_state.hpp>

namespace lend {

void ChannelState::attend(Waiter& waiter) noexcept {
  if (is_watched_ && waiter.just_slept()) look_at_peer();
  // A look costs a reading of the clock, which a spinning wait must not pay each time; every so
  // many polls it looks too.
  if (keep_alive_.is_on() && !waiter.is_spinning()) waiter.look_at(ask_peer_if_due());
}

void ChannelState::look_around() noexcept {
  if (is_watched_) look_at_peer();
  if (keep_alive_.is_on()) ask_peer_if_due();
}

Deadline ChannelState::ask_peer_if_due() noexcept {
  // Work of the send queue is told of a lost peer by itself.
  bool const is_needed = outstanding(Operation::receive) > 0 && outstanding(Operation::send) == 0;
  if (!is_needed || is_broken() || !queue_pair_ || keep_alive_.is_asked) return Deadline::never();
  if (!keep_alive_.next.has_passed()) return keep_alive_.next;
  keep_alive_.next = within(keep_alive_.interval);
  // SAFETY: no slot has this id, and one entry of the completion queue is kept for it: one is asked
  // at a time. In the send queue, too, so that only a queue pair that is broken already refuses it.
  auto const probe = queue_pair_->unsafe_post_probe(KeepAlive::probe_id);
  keep_alive_.is_asked = probe != QueuePair::Probe::refused;
  if (probe == QueuePair::Probe::unclear) {
    break_with(Error{Errc::system_failed,
                     "the device failed as the channel's keep-alive was posted, and does not say "
                     "whether it took it"});
    start_flush();  // tried again by the drain
  }
  return keep_alive_.next;
}

[[gnu::cold]] void ChannelState::end_without_slot(std::uint64_t id,
                                                  FailedWork const* failed) noexcept {
  if (id != KeepAlive::probe_id) {
    LEND_ASSERT(is_abandoned());
    return;
  }
  keep_alive_.is_asked = false;
  // One that was flushed tells nothing that the work flushed with it does not.
  if (failed == nullptr || failed->status == WorkStatus::flushed) return;

  WorkFailure story = story_of_connection();
  story.operation = Operation::write;
  story.status = failed->status;
  story.vendor_code = failed->vendor_code;
  story.queue_pair_state = queue_pair_ ? queue_pair_->state() : QueuePairState::unknown;
  story.port_is_down = port_is_down();
  Error const answer = Error::from_work(story);
  if (class_of(failed->status) == FailureClass::transport) {
    break_with(Error{Errc::peer_lost,
                     "the peer did not answer the channel's keep-alive: " + answer.message()}
                   .with_cause(answer));
  } else {
    break_with(answer);  // somebody is there, and refuses
  }
  start_flush();  // tried again by the drain
}

}  // namespace lend
