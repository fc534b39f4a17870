// SPDX-License-Identifier: MIT OR Apache-2.0
// One poll loop over signals, the desk and what the ranks say.
#include <base/giving_up.hpp>
#include <command/cpus.hpp>
#include <launch/launchers.hpp>
#include <run/launcher.hpp>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace lend::run {

namespace {

/// A name that no other process guesses, nor takes by chance.
Result<std::string> random_name() {
  std::array<unsigned char, 16> bytes;
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return Error::from_errno("getrandom", errno);
  std::string name;
  for (auto const byte : bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    name += digits[byte >> 4];
    name += digits[byte & 15];
  }
  return name;
}

/// Of this process as many descriptors as it may have; the limit that its ranks are to have.
rlimit raise_limit() noexcept {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  rlimit const raised{limit.rlim_max, limit.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &raised);
  return limit;
}

/// Empty files for the output of the ranks, if it goes to files.
Result<void> make_logs(Setting const& setting) {
  if (setting.output_in.empty()) return success();
  if (::mkdir(setting.output_in.c_str(), 0777) != 0 && errno != EEXIST)
    return Error::from_errno("making " + setting.output_in, errno);
  for (std::uint32_t rank = 0; rank < setting.ranks; ++rank) {
    auto const path = log_of(rank, setting);
    base::UniqueFd const log{::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
    if (!log) return Error::from_errno("opening " + path, errno);
  }
  return success();
}

}  // namespace

Launcher::Launcher(Options options, Setting setting, Desk desk, base::UniqueFd signals,
                   int lifeline)
    : options_{std::move(options)},
      setting_{std::move(setting)},
      desk_{std::move(desk)},
      signals_{std::move(signals)},
      lifeline_{lifeline} {}

Result<Launcher> Launcher::make(Options options, Guarded const& guarded) {
  Setting setting{.ranks = options.ranks};
  LEND_TRY(name, random_name());
  setting.group = name;
  setting.desk = std::string{launch::lend_run_desk} + name;
  setting.descriptors = raise_limit();
  LEND_TRY(desk, Desk::open(setting.desk, {.group = setting.group}));
  LEND_TRYV(desk.begin(options.ranks, Deadline::never()));
  setting.signals = guarded.before;
  setting.has_prefix = options.has_prefix;
  setting.output_in = options.output_in;
  if (options.binds) {
    setting.cpus = command::allowed_cpus();
    if (setting.cpus.size() < options.ranks)
      return Error{Errc::invalid_argument, "--bind needs a CPU for each rank, and there are " +
                                               std::to_string(setting.cpus.size())};
  }
  LEND_TRYV(make_logs(setting));
  setting.needs_terminals = options.pty;
  setting.are_terminals = {options.pty || ::isatty(STDOUT_FILENO) != 0,
                           options.pty || ::isatty(STDERR_FILENO) != 0};
  ::signal(SIGPIPE, SIG_IGN);
  base::UniqueFd signals{::signalfd(-1, &guarded.taken, SFD_NONBLOCK | SFD_CLOEXEC)};
  if (!signals) return Error::from_errno("signalfd", errno);
  return Launcher{std::move(options), std::move(setting), std::move(desk), std::move(signals),
                  guarded.lifeline};
}

Result<int> Launcher::run() {
  if (auto const started = start_all(); !started) {
    for (auto& one : ranks_) one.signal(SIGKILL);
    return started.error();
  }
  if (options_.timeout) ends_at_ = within(*options_.timeout);
  while (!all_have_ended()) {
    LEND_TRYV(wait(sooner(ends_at_, kills_at_)));
    write_outputs();
    for (auto& one : ranks_) one.pass_on_all();
    if (is_alone_) break;
    take_signals();
    LEND_TRYV(collect_ended());
    LEND_TRYV(serve_desk());
    if (ends_at_.has_passed()) {
      ends_at_ = Deadline::never();
      on_failure(status_of_timeout, "the time of --timeout has passed", "all ranks");
    }
    if (kills_at_.has_passed()) {
      kills_at_ = Deadline::never();
      for (auto const& one : ranks_) one.signal(SIGKILL);
    }
  }
  if (is_alone_) kill_all();
  for (auto& one : ranks_) one.finish();
  LEND_TRYV(write_rest());
  return status_ == 0 && has_lost_output_ ? status_of_own_failure : status_;
}

Result<void> Launcher::start_all() {
  for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) {
    LEND_TRY(one, RankProcess::start(rank, setting_, options_.program, outputs_));
    ranks_.push_back(std::move(one));
  }
  return success();
}

Result<void> Launcher::wait(Deadline until) {
  polled_.clear();
  polled_.push_back({signals_.get(), POLLIN, 0});
  polled_.push_back({desk_.descriptor(), POLLIN, 0});
  polled_.push_back({is_alone_ ? -1 : lifeline_, POLLIN, 0});
  for (auto const& output : outputs_)
    polled_.push_back({output.is_behind() ? output.target() : -1, POLLOUT, 0});
  // Where one is behind, ranks wait for its reader, as they would without lend-run.
  for (auto const& one : ranks_)
    for (std::size_t which = 0; which < outputs_.size(); ++which)
      polled_.push_back({outputs_[which].is_behind() ? -1 : one.outputs()[which], POLLIN, 0});
  for (auto const& one : ranks_) until = sooner(until, one.shows_at());
  if (::poll(polled_.data(), polled_.size(), base::poll_milliseconds(until)) < 0 && errno != EINTR)
    return Error::from_errno("poll", errno);
  is_alone_ |= polled_[2].revents != 0;
  return success();
}

/// After one meeting the next: the ranks may join again.
Result<void> Launcher::serve_desk() {
  LEND_TRY(met, desk_.poll());
  if (!met) return success();
  return desk_.begin(options_.ranks, Deadline::never());
}

void Launcher::take_signals() {
  signalfd_siginfo signal{};
  while (::read(signals_.get(), &signal, sizeof signal) == sizeof signal) {
    if (signal.ssi_signo == SIGCHLD) continue;
    auto const number = static_cast<int>(signal.ssi_signo);
    is_told_to_end_ |= ends_ranks(number);
    for (auto const& one : ranks_)
      number == SIGWINCH ? one.resize(own_window_size()) : one.signal(number);
  }
}

Result<void> Launcher::collect_ended() {
  int status = 0;
  for (pid_t ended; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    auto const found = std::ranges::find_if(
        ranks_, [=](auto const& rank) { return !rank.has_ended() && rank.process() == ended; });
    if (found == ranks_.end()) continue;  // an orphan of a rank
    auto& one = *found;
    // Processes that a failed rank started are to end as it did.
    if (status != 0 || status_ != 0) one.signal(SIGTERM);
    one.ended();
    LEND_TRYV(on_end(one, status));
  }
  return success();
}

Result<void> Launcher::on_end(RankProcess& one, int status) {
  auto const rank = static_cast<std::uint32_t>(&one - ranks_.data());
  if (status == 0) {
    has_finished_ = true;
    return success();
  }
  auto what = "rank " + std::to_string(rank);
  int const number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (number != 0)
    what += " was ended by signal " + std::to_string(number) + " (SIG" +
            (::sigabbrev_np(number) != nullptr ? ::sigabbrev_np(number) : "?") + ")";
  else
    what += " ended with status " + std::to_string(WEXITSTATUS(status));
  // One that has finished would be missed.
  bool const starts_again =
      status_ == 0 && !is_told_to_end_ && !has_finished_ && restarts_ < options_.restarts;
  if (!starts_again) {
    on_failure(number != 0 ? 128 + number : WEXITSTATUS(status), what);
    return success();
  }
  ++restarts_;
  say(what + "; starting it again, " + std::to_string(restarts_) + " of " +
      std::to_string(options_.restarts));
  one.finish();
  LEND_TRY(again, RankProcess::start(rank, setting_, options_.program, outputs_));
  one = std::move(again);
  return success();
}

/// The first one decides the status and ends the others.
void Launcher::on_failure(int status, std::string const& what, std::string_view ending) {
  if (status_ != 0) return;
  status_ = status;
  say(what + (all_have_ended() ? "" : "; ending " + std::string{ending}));
  for (auto const& one : ranks_) one.signal(SIGTERM);
  for (auto const& one : ranks_) one.signal(SIGCONT);  // a stopped one, too
  kills_at_ = within(grace);
}

/// No process waits for the ranks any more.
void Launcher::kill_all() {
  for (auto const& one : ranks_) one.signal(SIGKILL);
  end_children({}, -1);
  for (auto& one : ranks_) one.ended();
  status_ = status_of_own_failure;
}

/// A reader that takes no more holds up a run that failed no longer than ranks may; another one
/// until --timeout, a signal, or its patience is over.
Result<void> Launcher::write_rest() {
  if (status_ != 0) ends_at_ = within(is_alone_ ? std::chrono::milliseconds{} : grace);
  auto gives_up_at = within(reader_patience);
  is_told_to_end_ = false;
  for (auto left = unwritten(); left != 0 && !is_told_to_end_ && !is_alone_;) {
    if (ends_at_.has_passed() || gives_up_at.has_passed()) break;
    LEND_TRYV(wait(sooner(ends_at_, gives_up_at)));
    write_outputs();
    take_signals();
    LEND_TRYV(serve_desk());
    if (std::exchange(left, unwritten()) != left) gives_up_at = within(reader_patience);
  }
  write_outputs();
  if (unwritten() == 0 || status_ != 0) return success();
  if (ends_at_.has_passed())
    status_ = status_of_timeout;
  else if (gives_up_at.has_passed())
    lose_output("its reader took nothing for " + std::to_string(reader_patience.count()) + " s");
  return success();
}

std::size_t Launcher::unwritten() const noexcept {
  return outputs_[0].unwritten() + outputs_[1].unwritten();
}

void Launcher::write_outputs() {
  for (auto& output : outputs_) {
    output.write();
    int const why = output.take_failure();
    if (why != 0) lose_output(std::string{"write: "} + ::strerrordesc_np(why));
  }
}

void Launcher::lose_output(std::string const& why) {
  if (!std::exchange(has_lost_output_, true)) say("output is lost: " + why);
}

void Launcher::say(std::string const& what) {
  outputs_[1].add(own_writer, "lend-run: " + what + "\n");
}

bool Launcher::all_have_ended() const noexcept {
  return std::ranges::all_of(ranks_, [](auto const& one) { return one.has_ended(); });
}

}  // namespace lend::run
