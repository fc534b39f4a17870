// SPDX-License-Identifier: MIT OR Apache-2.0
// What the fake librdmacm counts, its ids and its events.
#include "cm/fake_cm.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace lend::test {

namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

template <class List, class Test>
auto taken_from(List& list, Test test) {
  auto const found = std::find_if(list.begin(), list.end(), test);
  if (found == list.end()) return typename List::value_type{};
  auto one = std::move(*found);
  list.erase(found);
  return one;
}

}  // namespace

FakeCm& FakeCm::get() {
  static FakeCm fake;
  return fake;
}

void FakeCm::reset(ibv_context* next) {
  Lock const lock{mutex};
  fail_call = fail_errno = calls = names_looked_up = 0;
  replaced.clear();
  lost.clear();
  holds_events = is_iwarp = holds_destruction = false;
  responder_resources = initiator_depth = 4;
  failed_call.clear();
  found_names.clear();
  sources.clear();
  violations.clear();
  ids_.clear();
  channels_.clear();
  held_.clear();
  unacknowledged_.clear();
  last_port_ = 4000;
  device = next;
}

std::size_t FakeCm::held() const {
  Lock const lock{mutex};
  return held_.size();
}
std::size_t FakeCm::ids() const {
  Lock const lock{mutex};
  return ids_.size();
}
std::size_t FakeCm::channels() const {
  Lock const lock{mutex};
  return channels_.size();
}
std::size_t FakeCm::unacknowledged() const {
  Lock const lock{mutex};
  return unacknowledged_.size();
}

bool FakeCm::fails(char const* call) {
  if (++calls != fail_call) return false;
  failed_call = call;
  errno = fail_errno;
  return true;
}

// ---- ids ----

rdma_event_channel* FakeCm::open() {
  auto channel = std::make_unique<Channel>();
  channel->raw.fd = ::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  if (channel->raw.fd < 0) return nullptr;
  return &channels_.emplace_back(std::move(channel))->raw;
}

void FakeCm::close(rdma_event_channel* raw) {
  for (auto const& id : ids_)
    if (id->raw.channel == raw) violations.emplace_back("a channel ended before its ids");
  auto const channel = taken_from(channels_, [&](auto const& one) { return &one->raw == raw; });
  if (!channel) return violations.emplace_back("a channel ended twice"), void();
  ::close(raw->fd);
}

FakeCm::Id* FakeCm::make_id(rdma_event_channel* channel) {
  auto& id = *ids_.emplace_back(std::make_unique<Id>());
  id.raw.channel = channel;
  id.raw.ps = RDMA_PS_TCP;
  return &id;
}

FakeCm::Id* FakeCm::find(rdma_cm_id const* raw, char const* call) {
  for (auto const& id : ids_)
    if (&id->raw == raw) return id.get();
  violations.push_back(std::string{call} + " of an id that is gone");
  return nullptr;
}

FakeCm::Id* FakeCm::listener_at(std::uint16_t port) {
  for (auto const& id : ids_)
    if (id->state == IdState::listening && id->port == port) return id.get();
  return nullptr;
}

void FakeCm::let_destroy() {
  Lock const lock{mutex};
  holds_destruction = false;
  may_destroy_.notify_all();
}

void FakeCm::destroy(rdma_cm_id* raw) {
  std::unique_lock lock{mutex};
  Id* const id = find(raw, "rdma_destroy_id");
  if (id == nullptr) return;
  // The real call waits then, for good where the same thread is to acknowledge.
  for (auto const& event : unacknowledged_)
    if (event->of == id) violations.emplace_back("an id ended before its event was acknowledged");
  auto const owed = [&] { return id->state == IdState::asked || id->state == IdState::answered; };
  while (holds_destruction && is_iwarp && owed()) may_destroy_.wait(lock);

  auto const own = taken_from(ids_, [&](auto const& one) { return one.get() == id; });
  forget_events_of(*id);
  // Requests that nobody has taken die with their listener.
  for (;;) {
    auto const request = std::ranges::find(ids_, id, [](auto const& one) { return one->listener; });
    if (request == ids_.end()) break;
    destroy(&(*request)->raw);
  }
  if (Id* const peer = std::exchange(id->peer, nullptr)) {
    peer->peer = nullptr;
    auto const was = std::exchange(peer->state, IdState::over);
    if (was == IdState::established)
      send(*peer, {RDMA_CM_EVENT_DISCONNECTED});
    else if (was != IdState::requested)  // the kernel tells it nothing before it has accepted
      send(*peer, {RDMA_CM_EVENT_REJECTED, is_iwarp ? -ECONNRESET : 28});
  }
}

// ---- events ----

void FakeCm::send(Id& to, OtherEvent event) {
  if (lost.contains(event.type)) return;
  if (auto const other = replaced.find(event.type); other != replaced.end()) event = other->second;
  auto made = std::make_unique<Event>();
  made->of = to.listener != nullptr ? to.listener : &to;
  made->raw.event = event.type;
  made->raw.status = event.status;
  bool const is_request = event.type == RDMA_CM_EVENT_CONNECT_REQUEST;
  made->raw.id = is_request ? &to.raw : &made->of->raw;
  made->raw.listen_id = is_request ? &made->of->raw : nullptr;
  made->bytes = std::move(event.private_data);
  made->raw.param.conn.private_data = made->bytes.empty() ? nullptr : made->bytes.data();
  made->raw.param.conn.private_data_len = static_cast<std::uint8_t>(made->bytes.size());
  made->raw.param.conn.responder_resources = responder_resources;
  made->raw.param.conn.initiator_depth = initiator_depth;
  if (holds_events)
    held_.push_back(std::move(made));
  else
    put(std::move(made));
}

void FakeCm::put(std::unique_ptr<Event> event) {
  for (auto const& channel : channels_) {
    if (&channel->raw != event->of->raw.channel) continue;
    std::uint64_t const one = 1;
    [[maybe_unused]] auto const written = ::write(channel->raw.fd, &one, sizeof one);
    channel->ready.push_back(std::move(event));
    return;
  }
}

void FakeCm::deliver(std::size_t n) {
  Lock const lock{mutex};
  Id const* const of = held_.at(n)->of;
  put(taken_from(held_, [&](auto const& event) { return event->of == of; }));
}

void FakeCm::raise(rdma_cm_event_type type, int status) {
  Lock const lock{mutex};
  send(*ids_.back(), {type, status});
}

rdma_cm_event* FakeCm::take(rdma_event_channel* raw) {
  std::uint64_t count = 0;
  if (::read(raw->fd, &count, sizeof count) < 0) return nullptr;
  for (auto const& channel : channels_) {
    if (&channel->raw != raw) continue;
    auto& event = *unacknowledged_.emplace_back(std::move(channel->ready.front()));
    channel->ready.pop_front();
    for (auto const& id : ids_)
      if (&id->raw == event.raw.id) id->listener = nullptr;
    return &event.raw;
  }
  errno = EBADF;
  return nullptr;
}

void FakeCm::acknowledge(rdma_cm_event* raw) {
  if (!taken_from(unacknowledged_, [&](auto const& event) { return &event->raw == raw; }))
    violations.emplace_back("an event was acknowledged twice");
}

void FakeCm::forget_events_of(Id const& id) {
  std::erase_if(held_, [&](auto const& event) { return event->of == &id; });
  for (auto const& channel : channels_) {
    auto const gone =
        std::erase_if(channel->ready, [&](auto const& event) { return event->of == &id; });
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < gone; ++i)
      [[maybe_unused]] auto const got = ::read(channel->raw.fd, &count, sizeof count);
  }
}

}  // namespace lend::test
