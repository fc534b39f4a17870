// SPDX-License-Identifier: MIT OR Apache-2.0
// The events of the device: who is told of them, and that none is lost.
#include <poll.h>

#include <algorithm>
#include <utility>

#include "soft/programs/run.hpp"
#include "support/two_ends.hpp"

namespace lend::test {

using namespace std::chrono_literals;

bool Run::is_port_down() {
  return must(context_.query_port()).state != PortState::active;
}

void Run::listen() {
  if (set_) events_of_set_.emplace(spy_, true);
  if (!program_.has_events) return;
  events_ = must(DeviceEvents::of(context_));
  events_of_device_.emplace(spy_, false);
}

void Run::complain_if(std::string wrong) {
  if (!wrong.empty()) complain(std::move(wrong));
}

void Run::check_events(std::span<Ready const> listed, bool is_full) {
  for (auto const& news : listed)
    if (news.what == Ready::What::device) complain_if(events_of_set_->take(news.event));
  if (!is_full && events_of_set_->owes()) complain("a set does not tell of an event");
}

/// A channel that was asked, by itself or by its set, knows what was read of its own queue pair.
void Run::check_reported(std::size_t end, std::span<std::uint32_t const> reported) {
  if (std::ranges::find(reported, model_.ends[end].queue_pair) != reported.end() &&
      !model_.ends[end].is_gone && !model_.is_broken(end))
    complain("a channel works whose queue pair has failed by an event");
}
void Run::check_all_reported(std::span<std::uint32_t const> reported) {
  for (std::size_t end = 0; end < model_.ends.size(); ++end) check_reported(end, reported);
}

bool Run::ask_events(bool waits) {
  if (!events_) return false;
  pollfd readable{events_->descriptor(), POLLIN, 0};
  if (events_of_device_->owes() && ::poll(&readable, 1, 0) != 1)
    complain("a descriptor is silent, and there are events");
  std::optional<DeviceEvent> event;
  if (waits) {
    auto const waited = events_->wait(within(50us));
    if (waited.has_value())
      event = waited.value();
    else if (waited.error() != Errc::timed_out)
      complain("a program cannot wait for the device's events");
  } else {
    event = must(events_->poll());
  }
  tell(event ? "an event: " + std::string{name_of(event->kind)} : "no event");
  if (event) complain_if(events_of_device_->take(*event));
  if (!event && events_of_device_->owes()) complain("an event is not told");
  return event.has_value();
}

/// Once all is quiet, everybody knows how the port is.
void Run::settle_events() {
  bool const is_down = is_port_down();
  if (events_) {
    while (ask_events(false)) {
    }
    if (events_of_device_->is_told_down() != is_down) complain("an event of the port was lost");
  }
  if (!set_) return;
  for (int i = 0; i < 6; ++i) ask_set({Do::ask_set, {i % 2 == 0 ? 0u : 4u, 5}});
  if (events_of_set_->is_told_down() != is_down) complain("a set has lost an event of the port");
}

}  // namespace lend::test
