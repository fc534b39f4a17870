// SPDX-License-Identifier: MIT OR Apache-2.0
// What `lend` is asked to do. Values.
#pragma once

#include <lend/base/result.hpp>

#include <tools/bench/options.hpp>

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace lend::tools {

inline constexpr std::string_view usage =
    "usage: lend doctor [--strict] [--json] [--secret FILE] [HOST:PORT | --listen [HOST:PORT]]\n"
    "       lend doctor [--strict] [--json] --capture FILE | --replay FILE\n"
    "       lend info\n"
    "       lend bench [lat] [bw] [send] [write] [read] [OPTION…] [HOST:PORT]\n"
    "       lend bench --listen [HOST:PORT]\n"
    "       lend run [--faults PLAN] [--record DIRECTORY] [--] PROGRAM [ARGUMENT…]\n"
    "       lend trace [--json | --follow] DIRECTORY|FILE…\n"
    "       lend explain NAME\n"
    "       lend --help | --version\n"
    "\n"
    "doctor   examines whether this process can do RDMA, and says how to mend what keeps it from\n"
    "         that. Limits and permissions are those of the process itself: run it in the job\n"
    "         (srun lend doctor). It changes nothing. With HOST:PORT, where another doctor "
    "listens,\n"
    "         both compare what they found and move bytes between their ports.\n"
    "  --listen [HOST:PORT]\n"
    "                 serves one peer; [::]:7472 unless given\n"
    "  --secret FILE  has the secret that both sides prove to know\n"
    "  --strict       warnings count as failures\n"
    "  --json         for programs; lib/guide/doctor.md has the fields\n"
    "  --capture FILE keeps in a new file what it looked at, for others: text without addresses\n"
    "  --replay FILE  examines such a file instead of this process\n"
    "info     prints this build, the devices with their ports and addresses, and which of them\n"
    "         open_device() takes and why.\n"
    "bench    measures latency and bandwidth between two processes of this host, or to HOST:PORT,\n"
    "         where another bench listens.\n"
    "  --listen [HOST:PORT]\n"
    "                 answers one peer; [::]:7472 unless given\n"
    "  --bytes LIST   of a message: 8,4096,65536,1048576\n"
    "  --count N      rounds or messages; what takes 0.2 s unless given\n"
    "  --via WAY      scoped, unsafe, blocking (latency) or batch (bandwidth)\n"
    "  --device NAME  as LEND_DEVICE\n"
    "  --secret FILE  has the secret that both sides prove to know\n"
    "  --histogram    draws the latencies here; --svg FILE, in a file; --hgrm FILE, one of them\n"
    "                 for the plotter of HdrHistogram\n"
    "  --json         for programs; lib/guide/doctor.md has the fields\n"
    "run      starts a program of verbs on the soft device, which it sees as soft0 beside its\n"
    "         other devices. The program must be linked dynamically.\n"
    "  --faults PLAN  what fails there, as FaultPlan::parse() takes it: \"drop@3:1 "
    "peer-death@10\"\n"
    "  --record DIRECTORY\n"
    "                 where its channels of lend keep their last events\n"
    "trace    prints the events that channels recorded, of processes that ended or still run.\n"
    "  --json         for ui.perfetto.dev and chrome://tracing\n"
    "  --follow       goes on with what they record, until Ctrl-C or until they have ended\n"
    "explain  says what a code of lend, a status of a completion (its number or name) or a "
    "finding\n"
    "         of the doctor means, and what to do.\n"
    "\n"
    "Exit status: 0; 1 if the doctor found a failure, or if a command failed; 2 for a wrong "
    "command\n"
    "line. run ends as PROGRAM does, 126 or 127 if it cannot be started.\n";

enum class Command { doctor, info, bench, run, trace, explain, help, version };

struct CommandLine {
  Command command{};
  bool strict = false;
  bool json = false;
  bool follow = false;
  bool listens = false;              ///< the doctor, at `address`
  std::string_view address{};        ///< of its peer; empty: it examines this process alone
  std::string_view secret_in{};      ///< a file; empty: none
  std::string_view capture_in{};     ///< the doctor: a file to make; empty: none
  std::string_view replay_of{};      ///< the doctor: a file; empty: it examines this process
  std::string_view faults{};         ///< empty: none
  std::string_view record_in{};      ///< empty: nowhere
  std::span<char* const> paths{};    ///< of recordings
  std::span<char* const> program{};  ///< with its arguments
  std::string_view name{};           ///< to explain
  BenchOptions bench{};
};

/// Shape:   without the name of the program itself; a null pointer follows the last.
/// Errors:  invalid_argument  the message names the nearest word that is known.
[[nodiscard]] Result<CommandLine> parse(std::span<char* const> arguments);

/// "`what` `word`; the nearest is …", if any are known.
[[nodiscard]] Error unknown_word(std::string_view what, std::string_view word,
                                 std::span<std::string_view const> known);

/// The one that takes the fewest changes of characters to become `word`.
[[nodiscard]] std::string_view nearest(std::string_view word,
                                       std::span<std::string_view const> known);

}  // namespace lend::tools
