// SPDX-License-Identifier: MIT OR Apache-2.0
// An epoll of its own: what it finds is of channels alone. The thread of the set.
#include <channel/state/channel_state.hpp>
#include <channel/state/manager_events.hpp>

#include <sys/epoll.h>

#include <array>

namespace lend::channel {

bool ManagerEvents::add(ChannelState& channel, int descriptor) noexcept {
  if (!epoll_) epoll_ = base::UniqueFd{::epoll_create1(EPOLL_CLOEXEC)};
  epoll_event event{.events = EPOLLIN, .data = {.ptr = &channel}};
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0;
}

void ManagerEvents::remove(int descriptor) noexcept {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
}

void ManagerEvents::look() noexcept {
  if (!epoll_) return;
  std::array<epoll_event, 16> events;
  int count = 0;
  do {
    count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < count; ++i)
      static_cast<ChannelState*>(events[static_cast<std::size_t>(i)].data.ptr)
          ->losses.hear_manager();
  } while (count == static_cast<int>(events.size()));
}

}  // namespace lend::channel
