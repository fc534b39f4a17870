// SPDX-License-Identifier: MIT OR Apache-2.0
// What one more costs when there are many: channels between two processes, processes on one host,
// devices open in one process. One thread each.
//
// Method: forked processes that share one board, on which they leave their endpoints and wait for
// each other. Times are of whole rounds, divided: CPU time of one process, but of messages
// (message, all_to_one, ring_hop) time on the wall, which with more processes than CPUs is mostly
// the scheduler's. Memory is a process's own pages and what its memory files hold.
// Usage: scale [--json] [--channels N] [--processes N] [--devices N]; JSON: one object a line.
// LEND_DEVICE chooses the device.
#include "number.hpp"

#include <lend/channel/unsafe.hpp>
#include <lend/lend.hpp>

#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace lend;

constexpr std::size_t channels_max = 2000;
constexpr std::size_t processes_max = 64;

/// CLOCK_MONOTONIC, or what this process has worked, CLOCK_PROCESS_CPUTIME_ID.
double seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}
double worked() {
  return seconds(CLOCK_PROCESS_CPUTIME_ID);
}

/// What the processes of a round share.
struct Board {
  pthread_barrier_t all_here;
  /// By owner and number.
  std::array<std::byte, Endpoint::encoded_size> endpoints[processes_max][channels_max];
  std::array<std::byte, RemoteRegion::encoded_size> exposed[processes_max];
  double figures[8];

  void meet() { pthread_barrier_wait(&all_here); }
};

using Body = std::function<Result<void>(Board&, std::size_t rank)>;

/// Forks `count` processes and runs `body` in each. False when one failed; it has said why.
bool run_processes(std::size_t count, std::span<double> figures, Body const& body) {
  void* const shared =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return false;
  auto* const board = static_cast<Board*>(shared);
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&board->all_here, &attributes, unsigned(count));
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (std::size_t rank = 0; rank < count; ++rank) {
    auto const child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      auto const done = body(*board, rank);
      if (!done) std::fprintf(stderr, "scale: %s\n", done.error().message().c_str());
      std::fflush(nullptr);
      _exit(done ? 0 : 1);
    }
    if (child > 0) children.push_back(child);
  }
  bool all_well = children.size() == count;
  for (std::size_t left = children.size(); left > 0; --left) {
    int status = 1;
    auto const ended = wait(&status);
    std::erase(children, ended);
    if (status == 0) continue;
    // The others would wait for it for ever.
    for (auto const other : children) kill(other, SIGKILL);
    all_well = false;
  }
  std::copy_n(board->figures, figures.size(), figures.begin());
  munmap(shared, sizeof(Board));
  return all_well;
}

struct Held {
  double kib = 0;  // own pages, and those of memory files
  double descriptors = 0;
};

Held held_now() {
  Held held;
  std::ifstream rollup{"/proc/self/smaps_rollup"};
  for (std::string line; std::getline(rollup, line);)
    if (line.starts_with("Anonymous:")) held.kib = std::stod(line.substr(10));
  for (auto const& entry : std::filesystem::directory_iterator{"/proc/self/fd"}) {
    ++held.descriptors;
    std::error_code gone;
    auto const target = std::filesystem::read_symlink(entry.path(), gone);
    struct stat file {};
    if (!gone && target.native().starts_with("/memfd:") && stat(entry.path().c_str(), &file) == 0)
      held.kib += double(file.st_blocks) / 2;  // of 512
  }
  return held;
}

/// Leaves the endpoints of `count` channels on the board, meets, and connects the i-th to
/// `peer_of(i)`.
template <class PeerOf>
Result<std::vector<Channel>> connect_all(Board& board, std::size_t rank, std::size_t count,
                                         ProtectionDomain const& domain, PeerOf&& peer_of) {
  std::vector<PreparedChannel> prepared;
  for (std::size_t i = 0; i < count; ++i) {
    LEND_TRY(next, prepare_channel(domain, {}));
    board.endpoints[rank][i] = next.endpoint().encode();
    prepared.push_back(std::move(next));
  }
  board.meet();
  std::vector<Channel> channels;
  for (std::size_t i = 0; i < count; ++i) {
    auto const [owner, number] = peer_of(i);
    LEND_TRY(peer, Endpoint::decode(board.endpoints[owner][number]));
    LEND_TRY(channel, std::move(prepared[i]).handshake(peer));
    channels.push_back(std::move(channel));
  }
  board.meet();
  return channels;
}

struct Place {
  std::size_t owner;
  std::size_t number;
};

/// Seconds of `rounds` operations, after some to warm up.
template <class Operation>
Result<double> time_of(clockid_t clock, std::size_t rounds, Operation&& operation) {
  for (std::size_t i = 0; i < rounds / 4; ++i) {
    LEND_TRYV(operation(i));
  }
  auto const start = seconds(clock);
  for (std::size_t i = 0; i < rounds; ++i) {
    LEND_TRYV(operation(i));
  }
  return (seconds(clock) - start) / double(rounds);
}

/// Seconds of a poll while a message on each channel waits for its receive, which the peer then
/// posts.
Result<double> poll_of_stalled(Board& board, std::size_t rank, std::vector<Channel>& channels,
                               MemoryRegion& memory) {
  if (rank != 0) {
    board.meet();
    for (auto& channel : channels) {
      LEND_TRYV(channel.receive(memory.scatter(16, 8)));
    }
    return 0.0;
  }
  std::vector<PendingWork> waiting;
  for (auto& channel : channels) {
    // SAFETY: these bytes do not change.
    LEND_TRY(work, unsafe_post_send(channel, memory.gather(0, 8)));
    waiting.push_back(std::move(work));
  }
  LEND_TRY(each, time_of(CLOCK_PROCESS_CPUTIME_ID, 2000, [&](std::size_t i) -> Result<void> {
             LEND_TRYV(lend::without_value(waiting[i % waiting.size()].poll()));
             return success();
           }));
  board.meet();
  for (auto& work : waiting) {
    LEND_TRYV(work.wait());
  }
  return each;
}

/// Two processes with `count` channels between them.
Result<void> pair_round(Board& board, std::size_t rank, std::size_t count) {
  LEND_TRY(device, open_device());
  LEND_TRY(domain, device.allocate_protection_domain());
  // SAFETY: nobody minds what the bytes are.
  LEND_TRY(memory, domain.unsafe_allocate_exposed(4096, RemoteAccess::read_write));
  LEND_TRY(told, memory.remote());
  board.exposed[rank] = told.encode();
  auto const before = held_now();
  board.meet();
  auto start = worked();
  LEND_TRY(channels, connect_all(board, rank, count, domain, [&](std::size_t i) {
             return Place{1 - rank, i};
           }));
  auto const set_up = worked() - start;
  auto const after = held_now();
  LEND_TRY(remote, RemoteRegion::decode(board.exposed[1 - rank]));

  auto const rounds = std::max<std::size_t>(20'000, 4 * count);
  if (rank == 0) {
    auto const write_on = [&](std::size_t i) {
      return channels[i % count].write({memory.gather(0, 8), remote.slice(8, 8)});
    };
    LEND_TRY(one,
             time_of(CLOCK_PROCESS_CPUTIME_ID, rounds, [&](std::size_t) { return write_on(0); }));
    LEND_TRY(each, time_of(CLOCK_PROCESS_CPUTIME_ID, rounds, write_on));
    board.figures[0] = set_up / double(count);
    board.figures[1] = (after.kib - before.kib) / double(count);
    board.figures[2] = (after.descriptors - before.descriptors) / double(count);
    board.figures[3] = one;
    board.figures[4] = each;
  }
  LEND_TRY(stalled, poll_of_stalled(board, rank, channels, memory));
  if (rank == 0) board.figures[7] = stalled;
  board.meet();
  // In turn, so that it is known where the next message comes.
  LEND_TRY(message, time_of(CLOCK_MONOTONIC, std::max<std::size_t>(2000, 2 * count),
                            [&](std::size_t i) -> Result<void> {
                              if (rank == 0) return channels[i % count].send(memory.gather(0, 8));
                              LEND_TRYV(channels[i % count].receive(memory.scatter(16, 8)));
                              return success();
                            }));
  if (rank == 1) board.figures[5] = message;
  board.meet();
  start = worked();
  channels.clear();
  if (rank == 0) board.figures[6] = (worked() - start) / double(count);
  board.meet();
  return success();
}

/// One process with a channel to each other, and a ring of all.
Result<void> crowd_round(Board& board, std::size_t rank, std::size_t count) {
  auto start = worked();
  LEND_TRY(device, open_device());
  auto const opened = worked() - start;
  LEND_TRY(domain, device.allocate_protection_domain());
  LEND_TRY(memory, domain.allocate(4096));
  auto const others = count - 1;
  auto const before = held_now();
  start = worked();
  LEND_TRY(spokes, connect_all(board, rank, rank == 0 ? others : 1, domain, [&](std::size_t i) {
             return rank == 0 ? Place{i + 1, 0} : Place{0, rank - 1};
           }));
  auto const set_up = worked() - start;
  auto const after = held_now();
  // Channel 0 leads to the next process, channel 1 comes from the one before.
  LEND_TRY(ring, connect_all(board, rank, 2, domain, [&](std::size_t i) {
             return i == 0 ? Place{(rank + 1) % count, 1} : Place{(rank + others) % count, 0};
           }));

  constexpr std::size_t messages = 500;  // from each
  start = seconds(CLOCK_MONOTONIC);
  for (std::size_t i = 0; i < messages; ++i)
    for (auto& spoke : spokes) {
      if (rank == 0) {
        LEND_TRYV(spoke.receive(memory.scatter(0, 8)));
      } else {
        LEND_TRYV(spoke.send(memory.gather(0, 8)));
      }
    }
  if (rank == 0) board.figures[2] = (seconds(CLOCK_MONOTONIC) - start) / double(messages * others);
  board.meet();

  constexpr std::size_t laps = 20;
  start = seconds(CLOCK_MONOTONIC);
  for (std::size_t lap = 0; lap < laps; ++lap) {
    if (rank == 0) {
      LEND_TRYV(ring[0].send(memory.gather(0, 8)));
    }
    LEND_TRYV(ring[1].receive(memory.scatter(8, 8)));
    if (rank != 0) {
      LEND_TRYV(ring[0].send(memory.gather(0, 8)));
    }
  }
  if (rank == 0) {
    board.figures[0] = opened;
    board.figures[1] = set_up / double(others);
    board.figures[4] = (after.kib - before.kib) / double(others);
    board.figures[5] = (after.descriptors - before.descriptors) / double(others);
    board.figures[3] = (seconds(CLOCK_MONOTONIC) - start) / double(laps * count);
  }
  board.meet();
  return success();
}

/// One process that opens the device `count` times.
Result<void> devices_round(Board& board, std::size_t, std::size_t count) {
  auto const before = held_now();
  std::vector<Context> devices;
  auto start = worked();
  for (std::size_t i = 0; i < count; ++i) {
    LEND_TRY(device, open_device());
    devices.push_back(std::move(device));
  }
  board.figures[0] = (worked() - start) / double(count);
  auto const after = held_now();
  board.figures[1] = (after.kib - before.kib) / double(count);
  board.figures[2] = (after.descriptors - before.descriptors) / double(count);
  start = worked();
  devices.clear();
  board.figures[3] = (worked() - start) / double(count);
  return success();
}

struct Column {
  char const* name;
  double unit;  // of the figure
};

using Round = Result<void>(Board&, std::size_t rank, std::size_t count);

/// Runs `round` for some counts up to `largest`, in `processes` or else in as many processes, and
/// prints what each measured.
bool run_table(char const* what, std::span<std::size_t const> counts, std::size_t largest,
               std::span<Column const> columns, bool json, std::size_t processes, Round* round) {
  if (!json && largest != 0) {
    std::printf("\n%10s", what);
    for (auto const& column : columns) std::printf(" %15s", column.name);
    std::printf("\n");
  }
  for (auto const count : counts) {
    if (count > largest) break;
    std::array<double, 8> figures{};
    auto const run = [=](Board& board, std::size_t rank) { return round(board, rank, count); };
    if (!run_processes(processes == 0 ? count : processes, figures, run)) return false;
    std::printf(json ? "{\"%s\": %zu" : "%.0s%10zu", what, count);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      auto const figure = figures[i] * columns[i].unit;
      if (json)
        std::printf(", \"%s\": %.3f", columns[i].name, figure);
      else
        std::printf(" %15.2f", figure);
    }
    std::printf(json ? "}\n" : "\n");
  }
  return true;
}

bool run(bool json, std::size_t channels, std::size_t processes, std::size_t devices) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  constexpr std::array<std::size_t, 5> by_ten{1, 10, 100, 1000, 2000};
  constexpr std::array<std::size_t, 6> doubled{2, 4, 8, 16, 32, 64};
  constexpr Column of_pair[] = {
      {"set_up_us", 1e6},     {"kib", 1},          {"descriptors", 1}, {"write_one_ns", 1e9},
      {"write_each_ns", 1e9}, {"message_ns", 1e9}, {"close_us", 1e6},  {"stalled_poll_ns", 1e9}};
  constexpr Column of_crowd[] = {{"open_us", 1e6},     {"set_up_us", 1e6}, {"all_to_one_ns", 1e9},
                                 {"ring_hop_ns", 1e9}, {"kib", 1},         {"descriptors", 1}};
  constexpr Column of_devices[] = {
      {"open_us", 1e6}, {"kib", 1}, {"descriptors", 1}, {"close_us", 1e6}};
  return run_table("channels", by_ten, channels, of_pair, json, 2, pair_round) &&
         run_table("processes", doubled, processes, of_crowd, json, 0, crowd_round) &&
         run_table("devices", by_ten, devices, of_devices, json, 1, devices_round);
}

}  // namespace

int main(int argument_count, char** arguments) {
  bool json = false;
  std::size_t channels = 1000, processes = processes_max, devices = 1000;
  for (int i = 1; i < argument_count; ++i) {
    std::string_view const argument = arguments[i];
    std::size_t* const number = argument == "--channels"    ? &channels
                                : argument == "--processes" ? &processes
                                : argument == "--devices"   ? &devices
                                                            : nullptr;
    if (argument == "--json") {
      json = true;
    } else if (number != nullptr && i + 1 < argument_count &&
               lend::bench::parse_number(arguments[i + 1], *number)) {
      ++i;
    } else {
      std::fputs("scale [--json] [--channels N] [--processes N] [--devices N]\n", stderr);
      return 2;
    }
  }
  return run(json, channels, processes, devices) ? 0 : 1;
}
