// SPDX-License-Identifier: MIT OR Apache-2.0
// Starts this program again with a pipe as its output, and ends it. One thread.
#include "peer_process.hpp"

#include "line.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <thread>

lend::Result<PeerProcess> PeerProcess::start(std::vector<std::string> arguments) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return lend::Error::from_errno("pipe2", errno);

  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (auto& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t id = 0;
  int const failed = posix_spawn(&id, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (failed != 0) {
    close(ends[0]);
    return lend::Error::from_errno("posix_spawn", failed);
  }
  return PeerProcess{id, ends[0]};
}

PeerProcess::PeerProcess(PeerProcess&& other) noexcept
    : id_{std::exchange(other.id_, 0)},
      output_{std::exchange(other.output_, -1)},
      unread_{std::move(other.unread_)} {}

PeerProcess::~PeerProcess() {
  if (id_ != 0) {
    kill(id_, SIGKILL);
    waitpid(id_, nullptr, 0);
  }
  if (output_ >= 0) close(output_);
}

lend::Result<void> PeerProcess::finish() {
  auto const deadline = lend::within(2 * patience);
  int status = 0;
  while (waitpid(id_, &status, WNOHANG) == 0) {
    if (deadline.has_passed())
      return lend::Error{lend::Errc::timed_out, "the peer process does not end"};
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  id_ = 0;
  if (status == 0) return lend::success();
  return lend::Error{lend::Errc::peer_lost, "the peer process ended in failure"};
}

lend::Result<std::string> PeerProcess::next_line() {
  auto const deadline = lend::within(2 * patience);
  for (;;) {
    if (auto const end = unread_.find('\n'); end != std::string::npos) {
      auto line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    auto const left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left());
    pollfd readable{output_, POLLIN, 0};
    if (poll(&readable, 1, int(left.count())) == 0)
      return lend::Error{lend::Errc::timed_out, "the peer process says nothing"};
    char text[256];
    auto const got = read(output_, text, sizeof text);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return lend::Error{lend::Errc::peer_lost, "the peer process has ended"};
    unread_.append(text, std::size_t(got));
  }
}
