// SPDX-License-Identifier: MIT OR Apache-2.0
// What a WaitSet or DeviceEvents must tell of the events that lend has read. One program at a time,
// one thread.
#pragma once

#include <lend/verbs/device_events.hpp>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>

#include "soft/programs/spy.hpp"

namespace lend::test {

class EventModel {
 public:
  /// Made with its listener, which is told of the port alone, or of all.
  EventModel(Spy& spy, bool is_of_port)
      : spy_{spy}, is_of_port_{is_of_port}, noted_{spy.events().size()} {}

  /// Whether there is something to tell.
  [[nodiscard]] bool owes() {
    note();
    return !expected_.empty();
  }
  /// What is wrong with this event that the listener was told, or empty.
  [[nodiscard]] std::string take(DeviceEvent const& event) {
    note();
    if (expected_.empty()) return "an event is told that the device did not report, or once more";
    auto const seen = expected_.front();
    expected_.pop_front();
    if (seen.is_of_port()) is_told_down_ = seen.type == IBV_EVENT_PORT_ERR;
    if (event.code == seen.type && event.queue_pair == seen.queue_pair && event.port == seen.port &&
        event.object == seen.object)
      return {};
    return "an event is told before one that came earlier, or with the words of another: " +
           std::string{name_of(event.kind)};
  }
  /// Whether the port is down by what the listener was told.
  [[nodiscard]] bool is_told_down() const noexcept { return is_told_down_; }

 private:
  /// Of equal ones the last counts.
  void note() {
    for (; noted_ < spy_.events().size(); ++noted_) {
      auto const& seen = spy_.events()[noted_];
      if (is_of_port_ && !seen.is_of_port()) continue;
      std::erase(expected_, seen);
      expected_.push_back(seen);
    }
  }

  Spy& spy_;
  bool is_of_port_;
  std::size_t noted_;
  std::deque<SeenEvent> expected_{};
  bool is_told_down_ = false;
};

}  // namespace lend::test
