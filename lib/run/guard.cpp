// SPDX-License-Identifier: MIT OR Apache-2.0
// fork(2), signals, and the children of this process as /proc lists them.
#include <base/unique_fd.hpp>
#include <run/guard.hpp>
#include <run/terminal.hpp>

#include <lend/base/deadline.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace lend::run {

namespace {

using namespace std::chrono_literals;

constexpr std::array passed_on{SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
                               SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH};

/// Blocks what is taken. Signals that were ignored stay so, as nohup(1) asks.
Guarded take_signals() noexcept {
  Guarded guarded;
  ::sigemptyset(&guarded.taken);
  ::sigaddset(&guarded.taken, SIGCHLD);
  for (int const number : passed_on) {
    struct sigaction how {};
    ::sigaction(number, nullptr, &how);
    if (how.sa_handler != SIG_IGN) ::sigaddset(&guarded.taken, number);
  }
  ::signal(SIGCHLD, SIG_DFL);  // a parent that ignores it would have the kernel collect children
  ::sigprocmask(SIG_BLOCK, &guarded.taken, &guarded.before);
  return guarded;
}

/// Stops this process as `signal` would have. One of a terminal does not where no shell could
/// continue it, which the kernel decides. Source: setpgid(2) and credentials(7), orphaned groups.
void stop_as(siginfo_t const& signal) noexcept {
  if (signal.si_code <= 0) {  // of a process
    ::raise(SIGSTOP);
    return;
  }
  sigset_t stopping;
  ::sigemptyset(&stopping);
  ::sigaddset(&stopping, SIGTSTP);
  ::sigprocmask(SIG_UNBLOCK, &stopping, nullptr);
  ::raise(SIGTSTP);
  ::sigprocmask(SIG_BLOCK, &stopping, nullptr);
}

/// Passes on signals until `child` ends. Its status as waitpid(2) tells it.
int watch(pid_t child, sigset_t const& taken) noexcept {
  for (;;) {
    siginfo_t signal{};
    int const number = ::sigwaitinfo(&taken, &signal);
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child) return status;
    if (number < 0 || number == SIGCHLD) continue;
    ::kill(child, number);
    if (number != SIGTSTP) continue;
    stop_as(signal);
    ::kill(child, SIGCONT);  // this process was continued, or did not stop
  }
}

/// The parent of a process; 0 if it is gone. Source: proc(5), /proc/PID/stat.
pid_t parent_of(std::string const& process) {
  base::UniqueFd const file{::open(("/proc/" + process + "/stat").c_str(), O_RDONLY | O_CLOEXEC)};
  std::array<char, 512> text;
  auto const length = file ? ::read(file.get(), text.data(), text.size()) : 0;
  if (length <= 0) return 0;
  std::string_view rest{text.data(), static_cast<std::size_t>(length)};
  rest.remove_prefix(std::min(rest.rfind(") "), rest.size()));  // the name may have any bytes
  constexpr std::size_t before_parent = 4;                      // ") S "
  rest.remove_prefix(std::min(before_parent, rest.size()));
  pid_t parent = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), parent);
  return parent;
}

std::vector<pid_t> children() {
  std::vector<pid_t> found;
  std::error_code error;
  std::filesystem::directory_iterator entries{"/proc", error};
  for (; !error && entries != std::filesystem::directory_iterator{}; entries.increment(error)) {
    auto const name = entries->path().filename().string();
    pid_t process = 0;
    auto const [end, wrong] = std::from_chars(name.data(), name.data() + name.size(), process);
    if (wrong == std::errc{} && parent_of(name) == ::getpid()) found.push_back(process);
  }
  return found;
}

/// Readable within `time`.
bool hears(int descriptor, std::chrono::milliseconds time) noexcept {
  pollfd waiting{descriptor, POLLIN, 0};
  return ::poll(&waiting, 1, static_cast<int>(time.count())) > 0;
}

int fail(char const* what) {
  std::fprintf(stderr, "lend-run: %s: %s\n", what, std::strerror(errno));
  return status_of_own_failure;
}

}  // namespace

bool ends_ranks(int signal) noexcept {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

int run_guarded(std::function<int(Guarded const&)> const& launch) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  auto guarded = take_signals();
  auto lifeline = make_pipe();
  if (!lifeline) return fail("pipe2");
  pid_t const child = ::fork();
  if (child < 0) return fail("fork");
  if (child == 0) {
    // Not in the group of the process that was called: a signal to that group comes once, and one
    // that kills the group leaves the launcher.
    ::setpgid(0, 0);
    ::prctl(PR_SET_NAME, "lend-launcher");  // killall(1) ends one of the two
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigset_t writing_there;  // to the terminal of that group
    ::sigemptyset(&writing_there);
    ::sigaddset(&writing_there, SIGTTOU);
    ::sigprocmask(SIG_BLOCK, &writing_there, nullptr);
    lifeline.value().writing = base::UniqueFd{};
    guarded.lifeline = lifeline.value().reading.get();
    auto const status = launch(guarded);
    end_children({.alone = status == 0 ? 1s : 0s, .asked = 1s}, guarded.lifeline);
    return status;
  }
  int const status = watch(child, guarded.taken);
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  end_children({}, -1);
  std::fprintf(stderr, "lend-run: its launcher was ended by signal %d\n", WTERMSIG(status));
  return status_of_own_failure;
}

void end_children(Patience patience, int lifeline) {
  auto const asks_at = within(patience.alone);
  auto const kills_at = within(patience.alone + patience.asked);
  auto const gives_up_at = within(patience.alone + patience.asked + 1s);
  std::vector<pid_t> asked;
  while (!gives_up_at.has_passed()) {
    pid_t ended = 0;
    do ended = ::waitpid(-1, nullptr, WNOHANG);
    while (ended > 0);
    if (ended < 0) return;
    bool const kills = kills_at.has_passed() || hears(lifeline, 0s);
    if (!kills && !asks_at.has_passed()) {
      static_cast<void>(hears(lifeline, 5ms));
      continue;
    }
    for (pid_t const process : children()) {
      if (kills) ::kill(process, SIGKILL);
      if (kills || std::ranges::find(asked, process) != asked.end()) continue;
      asked.push_back(process);
      ::kill(process, SIGTERM);
      ::kill(process, SIGCONT);  // a stopped one, too
    }
    static_cast<void>(hears(kills ? -1 : lifeline, 5ms));
  }
}

}  // namespace lend::run
