// SPDX-License-Identifier: MIT OR Apache-2.0
// lend bench
#include <command/cpus.hpp>
#include <command/terminal.hpp>
#include <tools/bench/line.hpp>
#include <tools/bench/pinning.hpp>
#include <tools/bench/results.hpp>
#include <tools/by_cm.hpp>
#include <tools/commands.hpp>
#include <tools/loops/stream.hpp>
#include <tools/loops/tcp.hpp>
#include <tools/secret_file.hpp>

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <numeric>

namespace lend::tools {

namespace {

using Role = BenchOptions::Role;

/// What both ends do for one order.
Result<BenchRow> measure(End& end, Order const& order) {
  BenchRow row{.is_latency = order.is_latency, .load = order.load};
  if (order.is_latency) {
    LEND_TRY(rounds, measure_rounds(end, order.load));
    row.rounds = std::move(rounds);
  } else {
    LEND_TRY(stream, measure_stream(end, order.load));
    row.stream = stream;
  }
  return row;
}

Result<BenchRow> measure_by_order(BenchLine& line, Order const& order) {
  LEND_TRYV(line.give(order));
  return measure(line.end(), order);
}

/// How long the whole of it took, in s.
double seconds_of(BenchRow const& row) {
  if (!row.is_latency) return row.stream.count();
  auto const parts = row.load.operation == "read" ? 1 : 2;
  return std::accumulate(row.rounds.begin(), row.rounds.end(), 0.0) * 1e-9 * parts;
}

Result<BenchRow> measure_row(BenchLine& line, BenchOptions const& options, Order order) {
  constexpr std::uint64_t most = 200'000;
  constexpr std::size_t slow_bytes = std::size_t{4} << 20;
  std::uint64_t const first = order.load.bytes > slow_bytes ? 4 : 50;
  constexpr double probe_s = 0.02, wanted_s = 0.2;
  order.load.count = options.count == 0 ? first : options.count / 10 + 1;
  LEND_TRY(probe, measure_by_order(line, order));
  if (options.count != 0) {
    order.load.count = options.count;
    return measure_by_order(line, order);
  }
  // Longer ones, until scheduling and wake-ups are in them, too.
  while (seconds_of(probe) < probe_s && order.load.count < most / 4) {
    order.load.count *= 4;
    LEND_TRY(longer, measure_by_order(line, order));
    probe = std::move(longer);
  }
  auto const mean = seconds_of(probe) / double(order.load.count);
  // As many rounds as usual ones need for the time; where few slow ones take most of it, at most
  // five times as long.
  auto const usual = probe.is_latency ? probe.percentile(50) * 1e-9 : mean;
  auto const wanted = std::min(wanted_s / usual, 5 * wanted_s / mean);
  order.load.count = static_cast<std::uint64_t>(std::clamp(wanted, 20.0, double(most)));
  return measure_by_order(line, order);
}

/// Each row is printed once it is measured; for programs all are at the end.
Result<std::vector<BenchRow>> measure_all(BenchLine& line, BenchOptions const& options) {
  std::vector<BenchRow> rows;
  command::Progress progress;
  for (bool const is_latency : {true, false}) {
    if (!(is_latency ? options.latency : options.bandwidth)) continue;
    if (!options.json) std::fputs(head_of(is_latency).data(), stdout);
    for (auto const operation : options.operations)
      for (auto const bytes : options.sizes) {
        Order const order{is_latency, {operation, options.via, bytes, 0}};
        progress.show((is_latency ? "latency of " : "bandwidth of ") + std::string{operation} +
                      ", " + name_of_bytes(bytes));
        LEND_TRY(row, measure_row(line, options, order));
        progress.clear();
        if (!options.json) std::fputs(text_of(row).c_str(), stdout);
        std::fflush(stdout);
        rows.push_back(std::move(row));
      }
  }
  return rows;
}

/// As measure_row() does, for some 0.1 s a size; printed likewise.
Result<void> measure_tcp(TcpLoopback& tcp, BenchOptions const& options,
                         std::vector<BenchRow>& rows) {
  constexpr std::uint64_t first = 20, most = 20'000;
  constexpr double wanted_ns = 5e7;
  if (!options.json) std::fputs(head_of(true).data(), stdout);
  for (auto const bytes : options.sizes) {
    if (bytes > tcp_bytes_max) continue;
    BenchRow row{.is_latency = true, .load = {"tcp", "sockets", bytes, options.count}};
    LEND_TRY(probe, tcp.measure(bytes, first));
    row.rounds = std::move(probe);
    if (options.count == 0)
      row.load.count = static_cast<std::uint64_t>(
          std::clamp(wanted_ns / row.percentile(50), double(first), double(most)));
    LEND_TRY(rounds, tcp.measure(bytes, row.load.count));
    row.rounds = std::move(rounds);
    if (!options.json) std::fputs(text_of(row).c_str(), stdout);
    std::fflush(stdout);
    rows.push_back(std::move(row));
  }
  return success();
}

/// Files that are written once all is measured, but opened before.
struct Files {
  std::ofstream svg{}, hgrm{};

  static Result<Files> open(BenchOptions const& options) {
    Files files;
    for (auto const& [file, path] :
         {std::pair{&files.svg, &options.svg}, {&files.hgrm, &options.hgrm}}) {
      if (path->empty()) continue;
      file->open(*path, std::ios::binary);
      if (!*file) return Error::from_errno(Errc::system_failed, "opening " + *path, errno);
    }
    return files;
  }
};

Result<void> write_to(std::ofstream& file, std::string const& path, std::string const& text) {
  if (path.empty()) return success();
  file << text;
  file.close();
  if (file) return success();
  return Error::from_errno(Errc::system_failed, "writing " + path, errno);
}

Result<void> report(BenchRun const& run, std::vector<BenchRow> const& rows,
                    BenchOptions const& options, Files& files) {
  if (options.json) std::fputs(json_of(run, rows).c_str(), stdout);
  if (options.histogram && !options.json)
    for (auto const& row : rows)
      if (row.is_latency) std::fputs(bars_of(row).c_str(), stdout);
  LEND_TRYV(write_to(files.svg, options.svg, svg_of(run, rows)));
  return options.hgrm.empty() ? success()
                              : write_to(files.hgrm, options.hgrm, hgrm_of(rows.front()));
}

/// What makes figures worse than they could be.
std::vector<std::string> notes_on(std::size_t cpus) {
  std::vector<std::string> notes;
  if (cpus < 2) notes.emplace_back("one CPU: each wait yields it to other processes");
  std::string governor;
  std::ifstream{"/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"} >> governor;
  if (!governor.empty() && governor != "performance")
    notes.push_back("the CPU's frequency varies (governor " + governor + ")");
  return notes;
}

/// How often the scheduler took the CPU from this process.
long switches() noexcept {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

/// Each end takes a CPU of its own, also where they are started apart on one host.
BenchPlace place_of(std::vector<int> const& cpus, bool near) {
  auto const bind = [cpus, near](Context const& device) {
    auto const two = bench_cpus(cpus, device.attributes().numa_node, command::system_devices);
    if (two.size() > 1) command::bind_to({&two[near ? 0 : 1], 1});
  };
  return {.one_core = cpus.size() < 2, .by_cm = by_cm(), .bind = bind};
}

BenchRun run_on(Context const& device, BenchOptions const& options, std::size_t cpus) {
  std::array<char, 256> host{}, when{};
  ::gethostname(host.data(), host.size() - 1);
  auto const now = std::time(nullptr);
  std::tm parts{};
  if (::localtime_r(&now, &parts) != nullptr)
    std::strftime(when.data(), when.size(), "%Y-%m-%d %H:%M", &parts);
  return {.device = device.name(),
          .kind = std::string{name_of(device.kind())},
          .peer = options.address,
          .notes = notes_on(cpus),
          .host = host.data(),
          .when = when.data(),
          .options = "via " + std::string{options.via} + ", memory " +
                     (options.own_memory ? "own" : "allocated")};
}

Result<void> be_near(std::string_view address, BenchOptions const& options,
                     std::vector<int> const& cpus, TcpLoopback* tcp = nullptr) {
  LEND_TRY(files, Files::open(options));
  LEND_TRY(line, BenchLine::connect(address, options, place_of(cpus, true)));
  auto run = run_on(line.device(), options, cpus.size());
  if (!options.json) std::fputs(text_of(run).c_str(), stdout);
  std::fflush(stdout);
  auto const before = switches();
  LEND_TRY(rows, measure_all(line, options));
  if (auto const taken = switches() - before; taken > 0) {
    run.notes.push_back("the scheduler took the CPU " +
                        (taken == 1 ? "once" : std::to_string(taken) + " times") +
                        ": figures are disturbed");
    if (!options.json) std::printf("\nnote: %s\n", run.notes.back().c_str());
  }
  LEND_TRYV(line.give(std::nullopt));
  if (tcp != nullptr) LEND_TRYV(measure_tcp(*tcp, options, rows));
  return report(run, rows, options, files);
}

Result<void> be_far(Listener& listener, BenchOptions const& options, std::vector<int> const& cpus) {
  LEND_TRY(line, BenchLine::accept(listener, options, place_of(cpus, false)));
  for (;;) {
    LEND_TRY(order, line.take());
    if (!order) return success();
    LEND_TRYV(without_value(measure(line.end(), *order)));
  }
}

Result<void> listen_for_peer(BenchOptions const& options, std::vector<int> const& cpus) {
  LEND_TRY(secret, secret_in(options.secret_in));
  LEND_TRY(listener, Listener::open(options.address, {.secret = std::move(secret)}));
  std::fprintf(stderr, "listening at %s\n", listener.address().c_str());
  return be_far(listener, options, cpus);
}

/// Each process has a CPU of its own, if there are two.
Result<void> be_both(BenchOptions const& options, std::vector<int> const& cpus) {
  auto const address = "unix:@lend-bench-" + std::to_string(::getpid());
  LEND_TRY(listener, Listener::open(address));
  LEND_TRY(tcp, TcpLoopback::open());
  std::fflush(nullptr);
  // Before a device is opened, which a child would not inherit.
  auto const child = ::fork();
  if (child < 0) return Error::from_errno("fork", errno);
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto done = be_far(listener, options, cpus);
    if (done && options.tcp) done = tcp.answer();
    ::_exit(done ? 0 : complain(done.error(), status_of_failure));
  }
  auto done = be_near(address, options, cpus, options.tcp ? &tcp : nullptr);
  if (!done) ::kill(child, SIGKILL);
  tcp.close();
  ::waitpid(child, nullptr, 0);
  return done;
}

}  // namespace

int bench(CommandLine const& line) {
  auto const& options = line.bench;
  auto const cpus = command::allowed_cpus();
  auto const done = options.role == Role::near  ? be_near(options.address, options, cpus)
                    : options.role == Role::far ? listen_for_peer(options, cpus)
                                                : be_both(options, cpus);
  if (done) return 0;
  bool const is_input = done.error() == Errc::invalid_argument || done.error() == Errc::not_found;
  return complain(done.error(), is_input ? status_of_usage : status_of_failure);
}

}  // namespace lend::tools
