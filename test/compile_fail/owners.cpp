// SPDX-License-Identifier: MIT OR Apache-2.0
// Owners are moved, not copied, and what a call uses up is named as moved where the call is.
#include <lend/cm/listener.hpp>
#include <lend/lend.hpp>

extern lend::MemoryRegion& memory;
extern lend::Exposure& exposure;
extern lend::PeerLoan& loan;
extern lend::PendingWork& work;
extern lend::Message& message;
extern lend::WaitSet& set;

// excerpt copy
void copy_channel(lend::Channel& channel) {
  lend::Channel moved{std::move(channel)};
#ifdef CASE_channel_is_not_copyable
  // error: use of deleted function|call to implicitly-deleted copy constructor
  lend::Channel copied{channel};
#endif
}
// end of excerpt

void copy_of_channel() {
  static_cast<void>(lend::PendingWork{std::move(work)});
#ifdef CASE_pending_work_is_not_copyable
  // error: use of deleted function|call to (implicitly-deleted copy|deleted) constructor
  static_cast<void>(lend::PendingWork{work});
#endif

  static_cast<void>(lend::PeerLoan{std::move(loan)});
#ifdef CASE_peer_loan_is_not_copyable
  // error: use of deleted function|call to (implicitly-)?deleted|implicitly deleted
  static_cast<void>(lend::PeerLoan{loan});
#endif

  static_cast<void>(lend::Message{std::move(message)});
#ifdef CASE_message_is_not_copyable
  // error: use of deleted function|call to (implicitly-)?deleted
  static_cast<void>(lend::Message{message});
#endif

  static_cast<void>(lend::WaitSet{std::move(set)});
#ifdef CASE_wait_set_is_not_copyable
  // error: use of deleted function|call to implicitly-deleted copy constructor
  static_cast<void>(lend::WaitSet{set});
#endif
}

void copy_memory() {
  static_cast<void>(lend::MemoryRegion{std::move(memory)});
#ifdef CASE_memory_region_is_not_copyable
  // error: use of deleted function|call to implicitly-deleted copy constructor
  static_cast<void>(lend::MemoryRegion{memory});
#endif

  static_cast<void>(lend::Exposure{std::move(exposure)});
#ifdef CASE_exposure_is_not_copyable
  // error: use of deleted function|call to (deleted|implicitly-deleted copy) constructor
  static_cast<void>(lend::Exposure{exposure});
#endif
}

void consume(lend::Channel& channel, lend::PreparedChannel& prepared, lend::Endpoint const& peer,
             lend::PreparedQueuePair& bare, lend::QueuePair& connected, lend::CmRequest& request) {
  auto const never = lend::Deadline::never();
  static_cast<void>(lend::PreparedChannel{std::move(prepared)});
#ifdef CASE_prepared_channel_is_not_copyable
  // error: use of deleted function|call to implicitly-deleted copy constructor
  static_cast<void>(lend::PreparedChannel{prepared});
#endif

  static_cast<void>(std::move(prepared).handshake(peer));
#ifdef CASE_handshake_consumes
  // error: is an lvalue|discards qualifiers|passing .* as .this. argument
  static_cast<void>(prepared.handshake(peer));
#endif

  static_cast<void>(std::move(channel).prepare_again());
  static_cast<void>(std::move(prepared).adopt(std::move(connected)));
  static_cast<void>(std::move(bare).connect(peer));
  static_cast<void>(std::move(request).accept(std::move(bare), never));
  static_cast<void>(std::move(request).begin_accept(std::move(bare), never));
  static_cast<void>(std::move(request).reject("no"));
#ifdef CASE_consuming_calls_say_move
  // error: is an lvalue|discards qualifiers|passing .* as .this. argument
  static_cast<void>(channel.prepare_again());                       // refused
  static_cast<void>(prepared.adopt(std::move(connected)));          // refused
  static_cast<void>(bare.connect(peer));                            // refused
  static_cast<void>(request.accept(std::move(bare), never));        // refused
  static_cast<void>(request.begin_accept(std::move(bare), never));  // refused
  static_cast<void>(request.reject("no"));                          // refused
#endif
}
