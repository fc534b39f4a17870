// SPDX-License-Identifier: MIT OR Apache-2.0
// fork(2) and execvp(3) of a rank.
#include <command/cpus.hpp>
#include <run/rank_process.hpp>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

namespace lend::run {

namespace {

void set_environment(std::uint32_t rank, Setting const& setting) {
  ::setenv("LEND_RANK", std::to_string(rank).c_str(), 1);
  ::setenv("LEND_SIZE", std::to_string(setting.ranks).c_str(), 1);
  ::setenv("LEND_DESK", setting.desk.c_str(), 1);
  ::setenv("LEND_DESK_SERVED", "1", 1);
  ::setenv("LEND_GROUP", setting.group.c_str(), 1);
  ::unsetenv("LEND_SECRET_FILE");  // the desk has none: the kernel tells the user of each rank
}

/// In the new process. Reports the errno by `failed` if the program cannot be executed.
[[noreturn]] void become(std::uint32_t rank, Setting const& setting, pid_t parent,
                         std::array<int, 2> outputs, int failed, char* const* program) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(125);  // it ended before that
  if (rank != 0 || ::isatty(STDIN_FILENO) != 0) {
    base::UniqueFd const nothing{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
    ::dup2(nothing.get(), STDIN_FILENO);
  }
  ::dup2(outputs[0], STDOUT_FILENO);
  ::dup2(outputs[1], STDERR_FILENO);
  ::setrlimit(RLIMIT_NOFILE, &setting.descriptors);
  ::signal(SIGPIPE, SIG_DFL);
  if (!setting.cpus.empty())
    command::bind_to(command::part_of(setting.cpus, rank, setting.ranks, command::system_devices));
  set_environment(rank, setting);
  ::sigprocmask(SIG_SETMASK, &setting.signals, nullptr);
  ::execvp(program[0], program);
  int const why = errno;
  (void)!::write(failed, &why, sizeof why);
  ::_exit(127);
}

}  // namespace

std::string log_of(std::uint32_t rank, Setting const& setting) {
  return setting.output_in + "/rank-" + std::to_string(rank) + ".log";
}

RankProcess::RankProcess(std::uint32_t rank, std::string const& tag, pid_t process,
                         base::UniqueFd output, base::UniqueFd error, Outputs& outputs)
    : process_{process},
      outputs_{std::move(output), std::move(error)},
      lines_{TaggedLines{outputs[0], tag, static_cast<int>(2 * rank)},
             TaggedLines{outputs[1], tag, static_cast<int>(2 * rank + 1)}} {}

Result<RankProcess> RankProcess::start(std::uint32_t rank, Setting const& setting,
                                       std::span<char* const> program, Outputs& outputs) {
  auto const make = [&](bool is_terminal) -> Result<Ends> {
    if (!setting.output_in.empty()) {
      auto const path = log_of(rank, setting);
      base::UniqueFd log{::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC)};
      if (!log) return Error::from_errno("opening " + path, errno);
      return Ends{{}, std::move(log)};
    }
    if (!is_terminal) return make_pipe();
    auto terminal = make_terminal(own_window_size());
    return terminal || setting.needs_terminals ? std::move(terminal) : make_pipe();
  };
  LEND_TRY(output, make(setting.are_terminals[0]));
  LEND_TRY(error, make(setting.are_terminals[1]));
  LEND_TRY(failure, make_pipe());
  pid_t const parent = ::getpid();
  pid_t const process = ::fork();
  if (process < 0) return Error::from_errno("fork", errno);
  if (process == 0)
    become(rank, setting, parent, {output.writing.get(), error.writing.get()},
           failure.writing.get(), program.data());
  ::setpgid(process, process);  // whichever of the two is first
  failure.writing = base::UniqueFd{};
  int why = 0;
  if (::read(failure.reading.get(), &why, sizeof why) == sizeof why) {
    ::waitpid(process, nullptr, 0);
    return Error::from_errno(std::string{"execvp of "} + program.front(), why);
  }
  for (auto* const end : {&output, &error})
    if (end->reading)
      ::fcntl(end->reading.get(), F_SETFL, ::fcntl(end->reading.get(), F_GETFL) | O_NONBLOCK);
  auto const tag = setting.has_prefix ? "[" + std::to_string(rank) + "] " : std::string{};
  return RankProcess{rank,   tag, process, std::move(output.reading), std::move(error.reading),
                     outputs};
}

void RankProcess::signal(int number) const noexcept {
  if (has_ended_ || ::kill(-process_, number) == 0) return;
  ::kill(process_, number);  // it has joined another process group
}

bool RankProcess::pass_on(std::size_t which) {
  auto& source = outputs_[which];
  if (!source) return false;
  std::array<char, 16'384> bytes;
  auto const got = ::read(source.get(), bytes.data(), bytes.size());
  are_drained_[which] = got < static_cast<ssize_t>(bytes.size());
  if (got > 0) {
    lines_[which].add({bytes.data(), static_cast<std::size_t>(got)});
    return true;
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  lines_[which].end();
  source = base::UniqueFd{};
  return false;
}

void RankProcess::pass_on_all() {
  for (std::size_t which = 0; which < outputs_.size(); ++which) {
    if (lines_[which].output().is_behind()) continue;
    pass_on(which);
    if (are_drained_[which]) lines_[which].show_part();
  }
}

Deadline RankProcess::shows_at() const noexcept {
  auto first = Deadline::never();
  for (auto const& lines : lines_)
    if (!lines.output().is_behind()) first = sooner(first, lines.shows_at());
  return first;
}

void RankProcess::resize(winsize const& size) const noexcept {
  for (auto const& source : outputs_)
    if (source) ::ioctl(source.get(), TIOCSWINSZ, &size);
  signal(SIGWINCH);
}

void RankProcess::finish() {
  for (std::size_t which = 0; which < outputs_.size(); ++which) {
    // What is in the pipe now, of 64 KiB at most: a process that the rank left may write on.
    for (int i = 0; i < 16 && pass_on(which); ++i) {
    }
    lines_[which].end();
    outputs_[which] = base::UniqueFd{};
  }
}

}  // namespace lend::run
