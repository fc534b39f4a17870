// SPDX-License-Identifier: MIT OR Apache-2.0
// Another process that runs this program, and its standard output. One thread.
#pragma once

#include <lend/lend.hpp>

#include <sys/types.h>
#include <string>
#include <vector>

/// A child process. It is ended when this goes, unless it was finished.
class PeerProcess {
 public:
  /// Starts this same executable. No device may be open yet: children do not inherit them.
  /// Errors:  system_failed.
  [[nodiscard]] static lend::Result<PeerProcess> start(std::vector<std::string> arguments);
  PeerProcess(PeerProcess&& other) noexcept;
  PeerProcess& operator=(PeerProcess&&) = delete;
  ~PeerProcess();

  /// The next line of its output. Errors: timed_out, and peer_lost when there is no more.
  [[nodiscard]] lend::Result<std::string> next_line();

  /// Waits for its end. Errors: timed_out, and peer_lost when it ended in failure.
  [[nodiscard]] lend::Result<void> finish();

  [[nodiscard]] pid_t id() const { return id_; }

 private:
  PeerProcess(pid_t id, int output) : id_{id}, output_{output} {}

  pid_t id_;
  int output_;
  std::string unread_{};
};
