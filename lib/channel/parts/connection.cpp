// SPDX-License-Identifier: MIT OR Apache-2.0
// Queries a queue pair that may be gone, and ends it. The thread of the channel.
#include <channel/parts/connection.hpp>
#include <verbs/device/event_reader.hpp>
#include <verbs/queue/adoption.hpp>

#include <new>
#include <string>
#include <utility>

namespace lend::channel {

using verbs::QueuePairAccess;

namespace {

std::string address_of(Endpoint const& end) {
  if (end.has_gid()) return text_of(end.gid);
  return end.lid != 0 ? "LID " + std::to_string(end.lid) : std::string{};
}

}  // namespace

Connection::Connection(PreparedQueuePair prepared, std::string const& peer_name) noexcept
    : number_{prepared.endpoint().queue_pair_number.value()},
      raw_{QueuePairAccess::handle_of(prepared)},
      own_{prepared.endpoint()},
      peer_name_{peer_name},
      prepared_{std::move(prepared)},
      handed_out_{QueuePairAccess::watch(prepared_)},
      is_destroyed_{QueuePairAccess::end_of(prepared_)} {}

Result<void> Connection::connect(Endpoint const& peer) {
  if (is_prepared()) phase_ = Phase::gone;  // on every error below
  return take(std::move(prepared_).connect(peer));
}

Result<void> Connection::activate() {
  phase_ = Phase::gone;  // on every error below
  return take(QueuePairAccess::activate(std::move(prepared_)));
}

Result<void> Connection::take(Result<QueuePair> connected) {
  if (!connected.has_value()) {
    keep_unless_destroyed();
    return std::move(connected).assume_error();
  }
  adopt(std::move(connected).assume_value());
  return success();
}

void Connection::keep_unless_destroyed() noexcept {
  // Acquire pairs with the release in destroy(verbs::QueuePairHandle&).
  if (!is_destroyed_->load(std::memory_order_acquire))
    kept_ = Error{Errc::system_failed,
                  "the device may still have the queue pair: the bytes of its receives stay on "
                  "loan for good"};
}

PreparedQueuePair Connection::hand_out() noexcept {
  if (is_prepared()) phase_ = Phase::handed_out;
  return std::move(prepared_);
}

bool Connection::is_own(QueuePair const& queue_pair) const noexcept {
  return handed_out_.lock().get() == &QueuePairAccess::handle_of(queue_pair);
}

void Connection::adopt(QueuePair own) noexcept {
  phase_ = Phase::connected;
  own_ = own.endpoint();
  peer_ = own.peer();
  queue_pair_ = std::move(own);
}

bool Connection::abort_all() noexcept {
  if (is_gone()) return true;
  auto const handle = handed_out_.lock();
  return handle == nullptr || verbs::abort_all(*handle).has_value();
}

void Connection::destroy() noexcept {
  if (is_gone()) return;
  if (phase_ != Phase::handed_out) {
    // Its remaining completions will not come. Source: ibv_destroy_qp(3).
    if (auto const handle = handed_out_.lock()) {
      if (auto gone = verbs::destroy(*handle); !gone.has_value())
        kept_ = std::move(gone).assume_error();
    }
    queue_pair_.reset();
    static_cast<void>(PreparedQueuePair{std::move(prepared_)});
  } else if (!handed_out_.expired()) {
    kept_ = Error{Errc::system_failed,
                  "the queue pair that take_queue_pair() handed out is still there, and its "
                  "receives could not be aborted: their bytes stay on loan for good"};
  } else {
    keep_unless_destroyed();
  }
  phase_ = Phase::gone;
}

QueuePair::Probe Connection::unsafe_post_probe(std::uint64_t id) noexcept {
  return is_connected() ? queue_pair_->unsafe_post_probe(id) : QueuePair::Probe::refused;
}

QueuePairState Connection::state() const noexcept {
  return is_connected() ? queue_pair_->state() : QueuePairState::unknown;
}

bool Connection::port_is_down() const noexcept {
  return is_connected() && queue_pair_->port_is_down();
}

void Connection::read_events() const noexcept {
  if (auto const handle = handed_out_.lock()) handle->domain->context->events.read();
}

bool Connection::has_taken_last_receive() const noexcept {
  auto const handle = handed_out_.lock();
  if (handle == nullptr) return true;
  handle->domain->context->events.read();
  return verbs::has_taken_last_receive(*handle);
}

std::optional<Error> Connection::reported() const noexcept {
  auto const handle = handed_out_.lock();
  if (handle == nullptr) return std::nullopt;
  auto const failure = verbs::failure_of(*handle);
  if (!failure) return std::nullopt;
  return about(verbs::event_error(*failure, !is_for_datagrams()));
}

std::optional<Error> Connection::lost(Deadline deadline) noexcept {
  if (!is_connected()) return std::nullopt;
  auto reason = queue_pair_->lost(deadline);
  if (!reason) return reason;
  // On iWARP the device ends the connection itself when it fails a request, and first raises the
  // event that says why. Source: Linux drivers/infiniband/sw/siw/siw_qp_rx.c, siw_proc_write().
  read_events();
  if (auto const own = reported()) return own;
  // If this side's link is pulled, the kernel reports that the peer disconnected.
  if (port_is_down())
    reason = Error{Errc::peer_lost, reason->message() +
                                        "; this side's port is down: bring its network interface "
                                        "or link up, then prepare_again()"};
  return reason;
}

WorkFailure Connection::subject(Errc code) const noexcept {
  WorkFailure subject{.queue_pair_number = own_.queue_pair_number.value(),
                      .peer_queue_pair_number = peer_.queue_pair_number.value(),
                      .slot = WorkFailure::no_slot,
                      .has_one_peer = !is_for_datagrams()};
  try {
    if (!is_for_datagrams()) subject.peer_address = address_of(peer_);
    subject.peer_name = peer_name_;
  } catch (std::bad_alloc const&) {  // without the address
  }
  // For other errors, querying the device would cost more than the call did.
  if (code == Errc::system_failed) subject.queue_pair_state = state();
  return subject;
}

}  // namespace lend::channel
