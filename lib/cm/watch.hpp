// SPDX-License-Identifier: MIT OR Apache-2.0
// A descriptor for an event loop: readable by events or by time. One thread at a time.
#pragma once

#include <base/unique_fd.hpp>
#include <cm/event_channel.hpp>
#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>
#include <verbs/device/forking.hpp>

namespace lend::cm {

/// Readable while an event channel has events, and from a moment on.
class Watch {
 public:
  /// Errors:  exhausted  out of descriptors or memory.
  [[nodiscard]] static Result<Watch> of(EventChannel const& events);
  Watch(Watch&&) noexcept = default;
  Watch& operator=(Watch&&) = delete;
  /// Before the channel is closed.
  ~Watch();

  /// The moment; the largest is none.
  void set(Deadline::Clock::time_point at) noexcept;
  [[nodiscard]] int descriptor() const noexcept { return both_.get(); }

 private:
  explicit Watch(int events) noexcept : events_{events} {}
  [[nodiscard]] Result<void> add(int fd) const;

  int events_;
  base::UniqueFd timer_{};
  base::UniqueFd both_{};
  verbs::Inheritance origin_{};
};

}  // namespace lend::cm
