// SPDX-License-Identifier: MIT OR Apache-2.0
// The connection managers of a set's channels, whose events wake it. The thread of the set.
#pragma once

#include <base/unique_fd.hpp>

namespace lend::channel {

class ChannelState;

/// Which of them have events. A look is one system call, however many there are.
class ManagerEvents {
 public:
  /// Hears what `channel`'s connection manager has to say, whose descriptor is given, until
  /// remove(). False without a descriptor or memory of the kernel.
  [[nodiscard]] bool add(ChannelState& channel, int descriptor) noexcept;
  void remove(int descriptor) noexcept;
  /// Tells the channels whose managers have events.
  void look() noexcept;
  /// Whether add() was called.
  [[nodiscard]] bool has_any() const noexcept { return static_cast<bool>(epoll_); }
  /// Readable while one of them has events; -1 before the first add().
  [[nodiscard]] int descriptor() const noexcept { return epoll_.get(); }

 private:
  base::UniqueFd epoll_;
};

}  // namespace lend::channel
