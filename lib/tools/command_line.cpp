// SPDX-License-Identifier: MIT OR Apache-2.0
// The command line of lend.
#include <base/printable.hpp>
#include <command/command_line.hpp>
#include <command/version.hpp>
#include <tools/command_line.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

namespace lend::tools {

namespace {

using Arguments = std::span<char* const>;

constexpr command::About about_lend{
    "lend COMMAND [OPTION…] [WORD…]\nlend help COMMAND\nlend --version",
    "Examines and measures RDMA, and shows what channels of lend did.",
    "Exit status: 0; 1 if the doctor found a failure, or if a command failed; 2 for a wrong "
    "command line. `lend run` ends as PROGRAM does."};

constexpr command::About about_doctor{
    "lend doctor [OPTION…]\n"
    "lend doctor [OPTION…] HOST:PORT | --listen [HOST:PORT]\n"
    "lend doctor [OPTION…] --capture FILE | --replay FILE",
    "Examines whether this process can use RDMA, and says what to change if it cannot. "
    "Limits and permissions are those of the process itself: run it in the job (srun lend doctor). "
    "It changes nothing. With HOST:PORT, the address of another doctor that listens, both compare "
    "their findings and send messages between their ports.",
    "Example:\n"
    "  node1$ lend doctor --listen\n"
    "  node2$ lend doctor node1:7472\n"
    "\n"
    "Exit status: 0; 1 if something failed; 2 for a wrong command line."};

constexpr command::About about_info{
    "lend info [--json | --environment]",
    "Prints the version, the devices with their ports and addresses, and which device "
    "open_device() takes, and why.",
    "Example:\n"
    "  LEND_DEVICE=soft lend info\n"
    "\n"
    "Exit status: 0; 1 if no device can be opened; 2 for a wrong command line."};

constexpr command::About about_run{
    "lend run [--faults PLAN] [--record DIRECTORY] [--] PROGRAM [ARGUMENT…]",
    "Starts a verbs program on the soft device, which it sees as soft0 beside its other devices. "
    "PROGRAM must be linked dynamically.",
    "PLAN is a list of faults, KIND@N or KIND@N:AMOUNT, such as \"drop@3:1 peer-death@10\": the "
    "fault occurs at the Nth operation, control at the Nth control call. KIND, with the meaning of "
    "AMOUNT, is drop (times), delay (ns), rnr (times), flush, peer-death, queue-error, control "
    "(errno), port-down or port-up.\n"
    "\n"
    "Example:\n"
    "  lend run ib_write_lat -d soft0\n"
    "\n"
    "Exit status: that of PROGRAM; 126 or 127 if it cannot be started; 1 without the library that "
    "it preloads; 2 for a wrong command line."};

constexpr command::About about_trace{
    "lend trace [--json | --follow] DIRECTORY|FILE…",
    "Prints the events that channels recorded. Channels record if LEND_RECORD names a directory. "
    "Their processes may have ended or still run.",
    "Example:\n"
    "  LEND_RECORD=/tmp/records ./program; lend trace /tmp/records\n"
    "\n"
    "Exit status: 0; 1 if the output cannot be written; 2 if what is named is no recording."};

constexpr command::About about_explain{
    "lend explain [NAME]",
    "Says what an error code, a status or a finding means, and what to do. NAME is a code of lend, "
    "the number or name of a completion's status, or a finding of the doctor. Without NAME it "
    "lists all names.",
    "Example:\n"
    "  lend explain 12\n"
    "\n"
    "Exit status: 0; 2 if the name is not known."};

Error refusal(std::string text) {
  return {Errc::invalid_argument, std::move(text)};
}

Result<void> check_doctor(CommandLine& line, std::vector<std::string> const& words) {
  for (auto const& word : words) {
    if (!is_address(word))
      return refusal("doctor takes an address HOST:PORT, not " + base::shown(word));
    if (!line.address.empty())
      return refusal("doctor takes one address, and no second " + base::shown(word));
    line.address = word;
  }
  if (line.address.empty() && !line.secret_in.empty())
    return refusal("--secret is for a peer: name its address, or --listen");
  if (!line.address.empty() + !line.capture_in.empty() + !line.replay_of.empty() > 1)
    return refusal("doctor takes an address, --capture or --replay, not two");
  return success();
}

constexpr command::About about_top{
    "lend top [--every D] [--count N] DIRECTORY|FILE…\n"
    "lend top --format F [--write FILE] [OPTION…] DIRECTORY|FILE…",
    "Shows the requests of running processes: completed and failed per second, bytes and "
    "latencies. Processes count if LEND_METRICS names a directory. On a terminal it repeats until "
    "Ctrl-C, or until all processes have ended; elsewhere it prints one table. With --format it "
    "prints the counts of all processes together, also of those that have ended.",
    "Example:\n"
    "  LEND_METRICS=/dev/shm/metrics ./program & lend top /dev/shm/metrics\n"
    "\n"
    "Exit status: 0; 1 if the output cannot be written; 2 if what is named has no metrics."};

/// All commands, with what their words are put into.
class Parser {
 public:
  Parser() {
    doctor_
        .optional_value("--listen", "HOST:PORT", listen_at_, std::string{listen_address},
                        "waits for one other doctor, at [::]:7472 by default")
        .path("--secret", "FILE", line_.secret_in,
              "reads the secret from FILE; it is the same at both ends")
        .flag("--strict", line_.strict, "counts warnings as failures")
        .flag("-v,--verbose", line_.verbose, "says why each skipped check was skipped")
        .flag("--json", line_.json, "prints the findings as JSON")
        .path("--capture", "FILE", line_.capture_in,
              "saves what it examined in a new file, as text without addresses")
        .path("--replay", "FILE", line_.replay_of,
              "examines a file of --capture instead of this process")
        .words("HOST:PORT", words_, "the address of the other doctor");
    add_bench_options(bench_, bench_words_);
    run_.value("--faults", "PLAN", keep_in(line_.faults), "makes operations of the device fail")
        .path("--record", "DIRECTORY", line_.record_in,
              "keeps the last events of each channel of lend in DIRECTORY");
    info_.flag("--json", line_.json, "prints the same as JSON, with the limits of each device")
        .flag("--environment", line_.environment,
              "prints the variables that lend reads, with their values");
    trace_.flag("--json", line_.json, "prints JSON for ui.perfetto.dev and chrome://tracing")
        .flag("--follow", line_.follow,
              "prints new events, too, until Ctrl-C or until the processes have ended")
        .words("DIRECTORY|FILE", line_.paths, "recordings, or directories that contain them");
    top_.value("--every", "D", take_interval(),
               "time between two tables or texts, such as 15s; 2s by default")
        .value("--count", "N", take_count(), "ends after N tables or texts")
        .value("--format", "F", take_format(), "openmetrics, prometheus or json")
        .path("--write", "FILE", line_.top.write_to,
              "replaces FILE with each text, for node_exporter's textfile collector")
        .words("DIRECTORY|FILE", line_.paths, "the directory of LEND_METRICS, or files in it");
    explain_.words("NAME", words_, "the code, status or finding");
    help_.words("COMMAND", words_, "the command");
    lend_.version(command::version_of("lend"));
  }

  Result<CommandLine> parse(Arguments arguments) {
    std::vector<std::string> own{arguments.begin(), arguments.end()};
    if (!own.empty() && own.front() == "run") {
      auto split = run_.split_off_program(arguments.subspan(1));
      line_.program = split.program;
      own = std::move(split.own);
      own.insert(own.begin(), "run");
    }
    LEND_TRY(text, lend_.parse(std::move(own)));
    if (text) return print(*std::move(text));
    LEND_TRYV(finish(lend_.parsed_command()));
    return std::move(line_);
  }

 private:
  static command::CommandLine::Take keep_in(std::string& place) {
    return [&place](std::string const& value) -> Result<void> {
      place = value;
      return success();
    };
  }

  command::CommandLine::Take take_interval() {
    return [this](std::string const& text) -> Result<void> {
      auto const time = command::time_in(text);
      if (!time)
        return refusal("--every takes a time such as 500ms or 15s, not " + base::shown(text));
      line_.top.every = *time;
      return success();
    };
  }
  command::CommandLine::Take take_count() {
    return [this](std::string const& text) -> Result<void> {
      std::uint64_t count = 0;
      auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
      if (error != std::errc{} || end != text.data() + text.size() || count == 0)
        return refusal("--count takes a number from 1, not " + base::shown(text));
      line_.top.count = count;
      return success();
    };
  }
  command::CommandLine::Take take_format() {
    return [this](std::string const& text) -> Result<void> {
      constexpr auto names = std::to_array<std::string_view>({"openmetrics", "prometheus", "json"});
      auto const at = std::ranges::find(names, text);
      if (at == names.end())
        return refusal("--format takes openmetrics, prometheus or json, not " + base::shown(text));
      line_.top.format = static_cast<MetricsFormat>(at - names.begin());
      return success();
    };
  }

  Result<CommandLine> print(std::string text) {
    line_.command = Command::text;
    line_.text = std::move(text);
    return std::move(line_);
  }

  Result<void> finish(std::string_view command) {
    if (command == "help") return finish_help();
    constexpr auto names = std::to_array<std::string_view>(
        {"doctor", "info", "bench", "run", "trace", "top", "explain"});
    line_.command = static_cast<Command>(std::ranges::find(names, command) - names.begin());
    switch (line_.command) {
      case Command::doctor:
        line_.listens = !listen_at_.empty();
        if (line_.listens && is_address(listen_at_))
          line_.address = listen_at_;
        else if (line_.listens)
          words_.push_back(listen_at_);
        return check_doctor(line_, words_);
      case Command::bench: {
        LEND_TRY(bench, bench_options(std::move(bench_words_)));
        line_.bench = std::move(bench);
        return success();
      }
      case Command::run:
        return line_.program.empty() ? refusal("PROGRAM is missing") : Result<void>{success()};
      case Command::trace:
        if (line_.json && line_.follow) return refusal("--follow prints lines: leave out --json");
        return line_.paths.empty() ? refusal("DIRECTORY or FILE is missing")
                                   : Result<void>{success()};
      case Command::top:
        if (!line_.top.write_to.empty() && !line_.top.format)
          return refusal("--write takes a text: say which by --format");
        return line_.paths.empty() ? refusal("DIRECTORY or FILE is missing")
                                   : Result<void>{success()};
      case Command::explain:
        if (words_.size() > 1) return refusal("explain takes one NAME");
        if (!words_.empty()) line_.name = words_.front();
        return success();
      case Command::info:
        if (line_.json && line_.environment)
          return refusal("--environment prints lines: leave out --json");
        return success();
      case Command::text: break;
    }
    return success();
  }

  Result<void> finish_help() {
    line_.command = Command::text;
    if (words_.empty()) {
      LEND_TRY(help, lend_.parse({"--help"}));
      line_.text = *std::move(help);
      return success();
    }
    auto help = lend_.help_of(words_.front());
    if (!help) return refusal("unknown command " + base::shown(words_.front()));
    line_.text = *std::move(help);
    return success();
  }

  CommandLine line_{};
  std::string listen_at_{};
  std::vector<std::string> words_{};
  BenchWords bench_words_{};
  command::CommandLine lend_{about_lend};
  command::CommandLine doctor_ = lend_.add_command("doctor", about_doctor);
  command::CommandLine info_ = lend_.add_command("info", about_info);
  command::CommandLine bench_ = lend_.add_command("bench", about_bench);
  command::CommandLine run_ = lend_.add_command("run", about_run);
  command::CommandLine trace_ = lend_.add_command("trace", about_trace);
  command::CommandLine top_ = lend_.add_command("top", about_top);
  command::CommandLine explain_ = lend_.add_command("explain", about_explain);
  command::CommandLine help_ = lend_.add_command(
      "help", {"lend help [COMMAND]", "Prints what `lend COMMAND --help` does.", ""});
};

}  // namespace

Result<CommandLine> parse(Arguments arguments) {
  return Parser{}.parse(arguments);
}

}  // namespace lend::tools
