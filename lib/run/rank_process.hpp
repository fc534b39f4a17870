// SPDX-License-Identifier: MIT OR Apache-2.0
// One rank as a process, with its output. One thread.
#pragma once

#include <base/unique_fd.hpp>
#include <run/tagged_lines.hpp>
#include <run/terminal.hpp>

#include <lend/base/result.hpp>

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lend::run {

/// The same for all ranks.
struct Setting {
  std::uint32_t ranks = 0;
  std::string desk{}, group{};
  sigset_t signals{};                   ///< blocked in each rank
  rlimit descriptors{};                 ///< of each rank
  bool needs_terminals = false;         ///< else a pipe will do where there is no terminal left
  std::array<bool, 2> are_terminals{};  ///< its standard output and standard error
  bool has_prefix = true;               ///< each line
  std::string output_in{};              ///< a directory; empty: lend-run passes output on
  std::vector<int> cpus{};              ///< to share among the ranks; empty: they are not bound
};

/// Where a rank's output goes: DIRECTORY/rank-3.log.
[[nodiscard]] std::string log_of(std::uint32_t rank, Setting const& setting);

class RankProcess {
 public:
  /// Starts `program` with its arguments, in a process group of its own. It is killed if this
  /// thread ends before it. `outputs` must outlive it.
  /// Errors:  exhausted, system_failed; os_error() says why the program cannot be executed.
  [[nodiscard]] static Result<RankProcess> start(std::uint32_t rank, Setting const& setting,
                                                 std::span<char* const> program, Outputs& outputs);

  [[nodiscard]] pid_t process() const noexcept { return process_; }
  [[nodiscard]] bool has_ended() const noexcept { return has_ended_; }
  /// It was waited for.
  void ended() noexcept { has_ended_ = true; }
  /// To all processes of its group.
  void signal(int number) const noexcept;

  /// Standard output and standard error; none once they are closed.
  [[nodiscard]] std::array<int, 2> outputs() const noexcept {
    return {outputs_[0].get(), outputs_[1].get()};
  }
  /// Passes on some of what has come, where its reader has taken what came before.
  void pass_on_all();
  /// When pass_on_all() has something to pass on though nothing more comes.
  [[nodiscard]] Deadline shows_at() const noexcept;
  /// Of its terminals, and tells its processes.
  void resize(winsize const& size) const noexcept;
  /// Passes on what is left. A process that it left behind may write on, unheard.
  void finish();

 private:
  /// Passes on what has come from outputs()[which]. False: nothing more now.
  bool pass_on(std::size_t which);
  RankProcess(std::uint32_t rank, std::string const& tag, pid_t process, base::UniqueFd output,
              base::UniqueFd error, Outputs& outputs);

  pid_t process_;
  bool has_ended_ = false;
  std::array<base::UniqueFd, 2> outputs_;
  std::array<TaggedLines, 2> lines_;
  std::array<bool, 2> are_drained_{};  // outputs_ had no more when they were read last
};

}  // namespace lend::run
