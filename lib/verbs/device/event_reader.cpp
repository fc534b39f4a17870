// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads, marks and tells. Any thread.
#include <base/error_details.hpp>
#include <verbs/device/event_reader.hpp>
#include <verbs/device/handles.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <string>

namespace lend::verbs {

namespace {

using Kind = DeviceEvent::Kind;

/// What an event is about.
enum class About : std::uint8_t { queue_pair, completion_queue, receive_queue, port, device };

struct Meaning {
  About about;
  Kind kind;
};

Meaning meaning_of(ibv_event_type type) noexcept {
  switch (type) {
    case IBV_EVENT_QP_FATAL: return {About::queue_pair, Kind::queue_pair_failed};
    case IBV_EVENT_QP_REQ_ERR: return {About::queue_pair, Kind::request_refused};
    case IBV_EVENT_QP_ACCESS_ERR: return {About::queue_pair, Kind::access_refused};
    case IBV_EVENT_QP_LAST_WQE_REACHED: return {About::queue_pair, Kind::last_receive};
    case IBV_EVENT_COMM_EST: return {About::queue_pair, Kind::established};
    case IBV_EVENT_SQ_DRAINED: return {About::queue_pair, Kind::sends_drained};
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR: return {About::queue_pair, Kind::other};
    case IBV_EVENT_CQ_ERR: return {About::completion_queue, Kind::completion_queue_failed};
    case IBV_EVENT_SRQ_ERR: return {About::receive_queue, Kind::receive_queue_failed};
    case IBV_EVENT_SRQ_LIMIT_REACHED: return {About::receive_queue, Kind::receives_low};
    case IBV_EVENT_PORT_ACTIVE: return {About::port, Kind::port_active};
    case IBV_EVENT_PORT_ERR: return {About::port, Kind::port_down};
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER: return {About::port, Kind::addresses_changed};
    case IBV_EVENT_DEVICE_FATAL: return {About::device, Kind::device_failed};
    default: return {About::device, Kind::other};
  }
}

/// Whether channels break by it.
constexpr bool is_failure(Kind kind) noexcept {
  return kind == Kind::queue_pair_failed || kind == Kind::request_refused ||
         kind == Kind::access_refused || kind == Kind::completion_queue_failed ||
         kind == Kind::receive_queue_failed || kind == Kind::device_failed;
}

DeviceEvent described(ibv_async_event const& event, Meaning meaning) noexcept {
  DeviceEvent told{.kind = meaning.kind, .code = static_cast<std::uint32_t>(event.event_type)};
  switch (meaning.about) {
    case About::queue_pair:
      told.object = event.element.qp;
      told.queue_pair = event.element.qp->qp_num;
      break;
    case About::completion_queue: told.object = event.element.cq; break;
    case About::receive_queue: told.object = event.element.srq; break;
    case About::port: told.port = static_cast<std::uint8_t>(event.element.port_num); break;
    case About::device: break;
  }
  return told;
}

}  // namespace

// ---- the reader ----

EventReader::EventReader(ibv_context& context, Provider const& provider) noexcept
    : context_{context}, provider_{provider}, descriptor_{context.async_fd} {
  int const flags = ::fcntl(descriptor_, F_GETFL);
  if (flags < 0 || ::fcntl(descriptor_, F_SETFL, flags | O_NONBLOCK) != 0) descriptor_ = -1;
}

void EventReader::read() noexcept {
  if (descriptor_ < 0 || is_inherited()) return;
  std::lock_guard const lock{mutex_};
  ibv_async_event event;
  while (provider_.get_async_event(&context_, &event) == 0) {
    pass_on(event);
    provider_.ack_async_event(&event);
  }
}

void EventReader::pass_on(ibv_async_event const& event) noexcept {
  auto const meaning = meaning_of(event.event_type);
  auto const told = described(event, meaning);
  if (told.kind == Kind::device_failed) has_device_failed_.store(true, std::memory_order_relaxed);
  if (told.object != nullptr) mark(told.object, event.event_type);
  bool const is_of_device = meaning.about == About::device || meaning.about == About::port;
  for (EventQueue* const queue : queues_) {
    if (is_of_device || queue->wanted_ == EventQueue::Wanted::all) queue->add(told);
    if (is_failure(told.kind)) queue->tell(EventQueue::some_marks);
  }
}

void EventReader::mark(void const* object, ibv_event_type type) noexcept {
  auto const place = marks_.find(object);
  if (place != marks_.end()) place->second.fetch_or(1u << type, std::memory_order_relaxed);
}

// ---- marks ----

EventMarks::EventMarks(EventReader& reader, void const* object) : object_{object} {
  std::lock_guard const lock{reader.mutex_};
  marks_ = &reader.marks_.try_emplace(object, 0u).first->second;
  reader_ = &reader;
}

void EventMarks::end() noexcept {
  EventReader* const reader = std::exchange(reader_, nullptr);
  marks_ = nullptr;
  // A thread that a forked child does not have may hold the lock.
  if (reader == nullptr || reader->is_inherited()) return;
  std::lock_guard const lock{reader->mutex_};
  reader->marks_.erase(object_);
}

std::optional<DeviceEvent> failure_of(QueuePairHandle const& queue_pair) noexcept {
  auto const failed = [](ibv_event_type type) {
    return DeviceEvent{.kind = meaning_of(type).kind, .code = static_cast<std::uint32_t>(type)};
  };
  if (queue_pair.domain->context->events.has_device_failed()) return failed(IBV_EVENT_DEVICE_FATAL);
  for (auto const* const share : {&queue_pair.sends, &queue_pair.receives})
    if (share->queue().marks.have(IBV_EVENT_CQ_ERR)) return failed(IBV_EVENT_CQ_ERR);
  if (queue_pair.shared_receives != nullptr &&
      queue_pair.shared_receives->marks.have(IBV_EVENT_SRQ_ERR))
    return failed(IBV_EVENT_SRQ_ERR);
  for (auto const type : {IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_FATAL})
    if (queue_pair.marks.have(type)) return failed(type);
  return std::nullopt;
}

bool has_taken_last_receive(QueuePairHandle const& queue_pair) noexcept {
  return queue_pair.marks.have(IBV_EVENT_QP_LAST_WQE_REACHED);
}

Error event_error(DeviceEvent const& failure, bool is_connection) noexcept try {
  auto const told = [](std::string const& what) {
    return Error{Errc::device_event, "the device reported " + what};
  };
  std::string const renewal{base::renewal(is_connection)};
  switch (failure.kind) {
    case Kind::access_refused:
      return told(
          "IBV_EVENT_QP_ACCESS_ERR: the peer asked for bytes that it may not reach, by a key that "
          "has ended, beyond the end of a region, or without the right; give it the current "
          "region, then " +
          renewal);
    case Kind::request_refused:
      return told(
          "IBV_EVENT_QP_REQ_ERR: the peer sent a request that this end does not serve, such as an "
          "atomic operation off 8 bytes or more reads at once than agreed; correct the peer, "
          "then " +
          renewal);
    case Kind::completion_queue_failed:
      return told(
          "IBV_EVENT_CQ_ERR: the completion queue failed, mostly because more completed than it "
          "has room for; all its channels are broken: " +
          renewal + ", those of a WaitSet in another set");
    case Kind::receive_queue_failed:
      return told(
          "IBV_EVENT_SRQ_ERR: the shared receive queue failed; build another ReceivePool, and "
          "other channels");
    case Kind::device_failed:
      return told(
          "IBV_EVENT_DEVICE_FATAL: the device failed or was removed; destroy all that was made "
          "from it, and open it again");
    default:
      return told("IBV_EVENT_QP_FATAL: the queue pair failed, and no completion says why; " +
                  renewal);
  }
} catch (std::bad_alloc const&) {
  return Errc::device_event;
}

// ---- queues ----

EventQueue::EventQueue(Context const& context, Wanted wanted, int wake)
    : context_{context.handle_}, reader_{context_->events}, wanted_{wanted}, wake_{wake} {
  if (reader_.is_inherited()) return;  // a thread that this process does not have may hold the lock
  std::lock_guard const lock{reader_.mutex_};
  reader_.queues_.push_back(this);
}

EventQueue::~EventQueue() {
  if (reader_.is_inherited()) return;  // as above
  std::lock_guard const lock{reader_.mutex_};
  std::erase(reader_.queues_, this);
}

std::optional<DeviceEvent> EventQueue::next() noexcept {
  if (!has_events()) return std::nullopt;
  std::lock_guard const lock{reader_.mutex_};
  DeviceEvent event{.kind = Kind::missed};
  if (!events_.empty()) {
    event = events_.front();
    events_.pop_front();
  } else {
    has_missed_ = false;
  }
  if (events_.empty() && !has_missed_) news_.fetch_and(~some_events, std::memory_order_relaxed);
  return event;
}

void EventQueue::add(DeviceEvent const& event) noexcept {
  std::erase(events_, event);  // the later one is kept, so that the last state of a port is last
  try {
    if (events_.size() < events_max)
      events_.push_back(event);
    else
      has_missed_ = true;
  } catch (std::bad_alloc const&) {
    has_missed_ = true;
  }
  tell(some_events);
}

void EventQueue::tell(std::uint32_t news) noexcept {
  // Release pairs with the acquire in has_news(), and comes before the descriptor's change: a
  // thread that has read the descriptor sees this.
  news_.fetch_or(news, std::memory_order_release);
  std::uint64_t const one = 1;
  [[maybe_unused]] auto const put = ::write(wake_, &one, sizeof one);
}

}  // namespace lend::verbs
