// SPDX-License-Identifier: MIT OR Apache-2.0
// Starts the ranks, serves their desk, passes on output and signals, and ends them together. One
// thread.
#pragma once

#include <base/unique_fd.hpp>
#include <run/guard.hpp>
#include <run/options.hpp>
#include <run/rank_process.hpp>

#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>
#include <lend/launch/desk.hpp>

#include <poll.h>

#include <string>
#include <string_view>
#include <vector>

namespace lend::run {

inline constexpr int status_of_timeout = 124;
inline constexpr int own_writer = -2;            // of lend-run's own lines
inline constexpr std::chrono::seconds grace{5};  // between SIGTERM and SIGKILL
// For a reader that takes nothing after ranks that all ended with 0.
inline constexpr std::chrono::seconds reader_patience{30};

class Launcher {
 public:
  /// Opens the desk.
  /// Errors:  those of Desk::open(); system_failed.
  [[nodiscard]] static Result<Launcher> make(Options options, Guarded const& guarded);

  /// Runs all ranks to their end. The exit status of lend-run.
  /// Errors:  exhausted, system_failed.
  [[nodiscard]] Result<int> run();

 private:
  Launcher(Options options, Setting setting, Desk desk, base::UniqueFd signals, int lifeline);
  [[nodiscard]] Result<void> start_all();
  [[nodiscard]] Result<void> wait(Deadline until);
  [[nodiscard]] Result<void> serve_desk();
  void take_signals();
  [[nodiscard]] Result<void> collect_ended();
  [[nodiscard]] Result<void> on_end(RankProcess& one, int status);
  void on_failure(int status, std::string const& what, std::string_view ending = "the other ranks");
  [[nodiscard]] Result<void> write_rest();
  void write_outputs();
  void lose_output(std::string const& why);
  [[nodiscard]] std::size_t unwritten() const noexcept;
  void kill_all();
  void say(std::string const& what);
  [[nodiscard]] bool all_have_ended() const noexcept;

  Options options_;
  Setting setting_;
  Desk desk_;
  base::UniqueFd signals_;
  int lifeline_;
  Outputs outputs_ = open_outputs();
  std::vector<RankProcess> ranks_{};
  std::vector<pollfd> polled_{};
  int status_ = 0;               // of the first failure
  std::uint32_t restarts_ = 0;   // so far
  bool has_finished_ = false;    // a rank without failure
  bool is_told_to_end_ = false;  // by a signal that was passed on
  bool is_alone_ = false;        // the process that was called is gone
  bool has_lost_output_ = false;
  Deadline ends_at_ = Deadline::never();   // --timeout
  Deadline kills_at_ = Deadline::never();  // once the ranks were asked to end
};

}  // namespace lend::run
