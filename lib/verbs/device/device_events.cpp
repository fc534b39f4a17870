// SPDX-License-Identifier: MIT OR Apache-2.0
// The events of a device for a program: its queue, and what it sleeps on. One thread at a time.
#include <base/giving_up.hpp>
#include <base/unique_fd.hpp>
#include <lend/base/stop.hpp>
#include <lend/verbs/device_events.hpp>
#include <verbs/device/event_reader.hpp>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

namespace lend {

struct DeviceEvents::State {
  base::UniqueFd wake;                        // an eventfd; outlives the next
  std::optional<verbs::EventQueue> events{};  // empty until the descriptors are there
  base::UniqueFd both{};                      // an epoll of it and of the device's descriptor
};

namespace {

Error cannot_make(char const* call) noexcept {
  return Error::from_errno(Errc::exhausted, call, errno, "A DeviceEvents takes two descriptors.");
}

bool watches(int epoll, int descriptor) noexcept {
  epoll_event event{.events = EPOLLIN, .data = {.fd = descriptor}};
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

}  // namespace

std::string_view name_of(DeviceEvent::Kind kind) noexcept {
  using Kind = DeviceEvent::Kind;
  switch (kind) {
    case Kind::queue_pair_failed: return "queue pair failed";
    case Kind::request_refused: return "request refused";
    case Kind::access_refused: return "access refused";
    case Kind::completion_queue_failed: return "completion queue failed";
    case Kind::receive_queue_failed: return "receive queue failed";
    case Kind::receives_low: return "receives low";
    case Kind::last_receive: return "last receive";
    case Kind::established: return "established";
    case Kind::sends_drained: return "sends drained";
    case Kind::port_active: return "port active";
    case Kind::port_down: return "port down";
    case Kind::addresses_changed: return "addresses changed";
    case Kind::device_failed: return "device failed";
    case Kind::other: return "other";
    case Kind::missed: return "missed";
  }
  return "unknown";
}

Result<DeviceEvents> DeviceEvents::of(Context const& context) {
  std::unique_ptr<State> state{
      new State{.wake = base::UniqueFd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)}}};
  if (!state->wake) return cannot_make("eventfd");
  state->both = base::UniqueFd{::epoll_create1(EPOLL_CLOEXEC)};
  if (!state->both) return cannot_make("epoll_create1");
  state->events.emplace(context, verbs::EventQueue::Wanted::all, state->wake.get());
  int const of_device = state->events->reader().descriptor();
  if (of_device < 0)
    return Error{Errc::unsupported, "the events of " + context.name() +
                                        " cannot be read without blocking (fcntl of its async_fd)"};
  if (!watches(state->both.get(), state->wake.get()) || !watches(state->both.get(), of_device))
    return cannot_make("epoll_ctl");
  return DeviceEvents{std::move(state)};
}

DeviceEvents::DeviceEvents(std::unique_ptr<State> state) noexcept : state_{std::move(state)} {}
DeviceEvents::DeviceEvents(DeviceEvents&&) noexcept = default;
DeviceEvents& DeviceEvents::operator=(DeviceEvents&&) noexcept = default;
DeviceEvents::~DeviceEvents() = default;

DeviceEvents::State& DeviceEvents::state() const noexcept {
  if (state_ == nullptr) [[unlikely]]
    stop("a DeviceEvents was used after it had been moved from");
  return *state_;
}

Result<std::optional<DeviceEvent>> DeviceEvents::poll() noexcept {
  verbs::EventQueue& events = *state().events;
  if (events.reader().is_inherited())
    return Error{Errc::system_failed,
                 "this device was opened before fork(): open it again in the child"};
  if (auto const event = events.next()) return event;
  // Before the device is asked: what another thread reads after this makes it readable again.
  std::uint64_t count = 0;
  [[maybe_unused]] auto const got = ::read(state_->wake.get(), &count, sizeof count);
  events.reader().read();
  return events.next();
}

Result<DeviceEvent> DeviceEvents::wait(Deadline deadline) noexcept {
  for (;;) {
    LEND_TRY(event, poll());
    if (event) return *event;
    if (deadline.has_passed()) return base::gave_up(deadline, "the device had no event");
    pollfd wait{descriptor(), POLLIN, 0};
    static_cast<void>(::poll(&wait, 1, base::poll_milliseconds(deadline)));
  }
}

int DeviceEvents::descriptor() const noexcept {
  return state().both.get();
}

}  // namespace lend
