// SPDX-License-Identifier: MIT OR Apache-2.0
// Two processes that watch over each other, so that whichever ends, nothing is left of what they
// started: the one that was called takes signals, and its child, the launcher, starts the ranks.
// Both get the orphans of their descendants. Source: prctl(2), PR_SET_CHILD_SUBREAPER.
#pragma once

#include <signal.h>

#include <chrono>
#include <functional>

namespace lend::run {

inline constexpr int status_of_own_failure = 125;

/// Of the signals that are passed on to the ranks, those that are to end them.
[[nodiscard]] bool ends_ranks(int signal) noexcept;

/// What the launcher starts with. All signals that it takes are blocked.
struct Guarded {
  int lifeline = -1;  ///< readable once the process that was called is gone
  sigset_t taken{};   ///< SIGCHLD, and those that are passed on
  sigset_t before{};  ///< what was blocked before
};

/// Runs `launch` in a child, and passes signals on to it. In both processes: the exit status.
/// Stops with SIGTSTP once that was passed on. 125 with a message: no child can be started, or the
/// child was killed.
[[nodiscard]] int run_guarded(std::function<int(Guarded const&)> const& launch);

/// How long processes may take: to end of themselves, as a filter that still writes, and then after
/// SIGTERM.
struct Patience {
  std::chrono::milliseconds alone{}, asked{};
};

/// Ends all processes that descend from this one: by SIGTERM, and by SIGKILL after `patience` or
/// once `lifeline` is readable. Returns when none is left, or 1 s after it has killed them.
void end_children(Patience patience, int lifeline);

}  // namespace lend::run
