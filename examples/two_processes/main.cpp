// SPDX-License-Identifier: MIT OR Apache-2.0
// Two processes exchange messages: one sends the other a file, then they measure latency and
// bandwidth. The near side sends commands as short texts; the far side executes them.
#include "file_transfer.hpp"
#include "line.hpp"
#include "measure.hpp"
#include "peer_process.hpp"

#include <sched.h>
#include <cerrno>
#include <cstdio>
#include <sstream>
#include <string_view>

namespace {

constexpr char usage[] =
    "two_processes [--pin A,B] [FILE]    start a peer process, send it FILE, measure\n"
    "two_processes --listen HOST:PORT    be the peer of the process that connects\n"
    "two_processes --connect HOST:PORT [FILE]\n"
    "                                    send FILE to the peer that listens there, measure\n"
    "\n"
    "FILE is this program itself unless given. --pin A,B binds the sender to CPU A and the peer\n"
    "it starts to CPU B. LEND_DEVICE=card|software|soft|NAME chooses the device.\n";

struct Options {
  std::string listen{};
  std::string connect{};
  std::string file = "/proc/self/exe";
  std::optional<std::pair<int, int>> pin{};
};

std::optional<Options> parse(std::vector<std::string> const& arguments) {
  Options options;
  bool file_given = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    auto const& argument = arguments[i];
    bool const takes_value =
        argument == "--listen" || argument == "--connect" || argument == "--pin";
    if (takes_value && i + 1 == arguments.size()) return {};
    if (argument == "--listen") {
      options.listen = arguments[++i];
    } else if (argument == "--connect") {
      options.connect = arguments[++i];
    } else if (argument == "--pin") {
      std::pair<int, int> cpus;
      char comma = 0;
      std::istringstream text{arguments[++i]};
      if (!(text >> cpus.first >> comma >> cpus.second) || comma != ',' || !text.eof()) return {};
      options.pin = cpus;
    } else if (argument.starts_with("--") || file_given) {
      return {};
    } else {
      options.file = argument;
      file_given = true;
    }
  }
  bool const listens = !options.listen.empty();
  if (listens && (file_given || !options.connect.empty())) return {};
  return options;
}

lend::Result<void> pin_to(int cpu) {
  cpu_set_t only;
  CPU_ZERO(&only);
  if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(std::size_t(cpu), &only);
  if (sched_setaffinity(0, sizeof only, &only) == 0) return lend::success();
  return lend::Error::from_errno("sched_setaffinity to CPU " + std::to_string(cpu), errno);
}

/// Does what the near side says until it says "bye". What it says is checked before it is done.
lend::Result<void> obey(Line& line) {
  for (;;) {
    LEND_TRY(order, hear(line));
    std::istringstream words{order};
    std::string verb;
    std::uint64_t first = 0, second = 0;
    words >> verb >> first >> second;
    bool const is_sane = first > 0 && first <= line_bytes / 2 && second > 0 && second < (1u << 24);
    if (verb == "bye") return lend::success();
    if (verb == "file" && first > 0) {
      LEND_TRYV(receive_file(line, first));
    } else if (verb == "rounds" && is_sane) {
      LEND_TRYV(answer_rounds(line, first, second));
    } else if (verb == "stream" && is_sane) {
      LEND_TRYV(take_messages(line, first, second));
    } else {
      return lend::Error{lend::Errc::incompatible_peer,
                         "the peer says something unknown: " + order};
    }
  }
}

/// The far side.
lend::Result<void> wait_for_orders(std::string const& address) {
  LEND_TRY(prepared, PreparedLine::open());
  LEND_TRY(listener, lend::Listener::open(address));
  std::printf("listening at %s on %s\n", listener.address().c_str(),
              prepared.device.name().c_str());
  LEND_TRY(channel,
           listener.accept(std::move(prepared.channel), lend::within(std::chrono::minutes{1})));
  Line line{std::move(channel), std::move(prepared.memory)};
  return obey(line);
}

void print_row(std::size_t bytes, char const* latency, char const* rate) {
  bool const big = bytes >= megabyte, small = bytes < kilobyte;
  auto const count = big ? bytes / megabyte : small ? bytes : bytes / kilobyte;
  std::printf("  %6zu %-3s   %15s   %12s\n", count,
              big     ? "MiB"
              : small ? "B"
                      : "KiB",
              latency, rate);
}

lend::Result<void> print_measurements(Line& line) {
  struct Row {
    std::size_t bytes;
    bool latency, bandwidth;
  };
  static constexpr std::array<Row, 4> rows{{{8, true, false},
                                            {4 * kilobyte, true, false},
                                            {64 * kilobyte, true, true},
                                            {megabyte, false, true}}};
  std::printf("\n     message   half round trip      streaming\n");
  for (auto const& row : rows) {
    char latency[32] = "", rate[32] = "";
    if (row.latency) {
      LEND_TRY(half, half_round_trip(line, row.bytes));
      std::snprintf(latency, sizeof latency, "%.2f us", half.count());
    }
    if (row.bandwidth) {
      LEND_TRY(bytes_per_second, bandwidth(line, row.bytes));
      std::snprintf(rate, sizeof rate, "%.2f GB/s", bytes_per_second / 1e9);
    }
    print_row(row.bytes, latency, rate);
  }
  return lend::success();
}

/// The near side.
lend::Result<void> give_orders(std::string const& address, SourceFile& file) {
  LEND_TRY(prepared, PreparedLine::open());
  LEND_TRY(channel, lend::connect(address, std::move(prepared.channel), lend::within(patience)));
  Line line{std::move(channel), std::move(prepared.memory)};
  auto const kind = lend::name_of(prepared.device.kind());
  std::printf("connected to %s over %s (%.*s)\n", address.c_str(), prepared.device.name().c_str(),
              int(kind.size()), kind.data());

  LEND_TRY(delivery, send_file(line, file));
  std::printf("sent %s, %s in %.3f s; the peer confirms checksum %016llx\n", file.path().c_str(),
              readable_bytes(file.size()).c_str(), delivery.took.count(),
              static_cast<unsigned long long>(delivery.checksum));
  LEND_TRYV(print_measurements(line));
  return say(line, "bye");
}

/// Starts the far side as a process of its own, then is the near side.
lend::Result<void> be_both(Options const& options, SourceFile& file) {
  std::vector<std::string> arguments{"two_processes", "--listen", "127.0.0.1:0"};
  if (options.pin) {
    auto const cpu = std::to_string(options.pin->second);
    arguments.insert(arguments.end(), {"--pin", cpu + ',' + cpu});
  }
  LEND_TRY(peer, PeerProcess::start(std::move(arguments)));
  LEND_TRY(greeting, peer.next_line());  // "listening at ADDRESS on DEVICE"
  std::istringstream words{greeting};
  std::string listening, at, address;
  words >> listening >> at >> address;
  std::printf("process %d started its peer, process %d\n", int(getpid()), int(peer.id()));

  LEND_TRYV(give_orders(address, file));
  while (auto const said = peer.next_line())
    std::printf("the peer says: %s\n", said.value().c_str());
  return peer.finish();
}

lend::Result<void> run(Options const& options) {
  if (options.pin) {
    LEND_TRYV(pin_to(options.pin->first));
  }
  if (!options.listen.empty()) return wait_for_orders(options.listen);
  LEND_TRY(file, SourceFile::open(options.file));  // before anybody else is troubled
  if (!options.connect.empty()) return give_orders(options.connect, file);
  return be_both(options, file);
}

}  // namespace

int main(int count, char** arguments) {
  auto const options = parse({arguments + 1, arguments + count});
  if (!options) {
    std::fputs(usage, stderr);
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a reader of the pipe gets each line at once
  auto const done = run(*options);
  if (!done) std::fprintf(stderr, "two_processes: %s\n", done.error().describe().c_str());
  return done ? 0 : 1;
}
