// SPDX-License-Identifier: MIT OR Apache-2.0
// What one more channel costs in resident memory, at default depths: idle, and after use.
//
// Method: so many loop-back channels are made, kept, and then each is used until it has been round
// its rings. Memory is the process's own pages (Anonymous of smaps_rollup) plus what its memfds
// hold, mapped or not, since a peer may keep those pages resident without us.
// Usage: memory_per_channel [--json] [--channels N]
#include "number.hpp"

#include <lend/lend.hpp>

#include <sys/stat.h>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

struct Resident {
  double own = 0;     // KiB of pages of no file
  double shared = 0;  // KiB that memfds hold
  double rss = 0;     // KiB
  double pss = 0;     // KiB
  [[nodiscard]] double total() const { return own + shared; }
};

Resident resident() {
  Resident now;
  std::ifstream rollup{"/proc/self/smaps_rollup"};
  for (std::string line; std::getline(rollup, line);) {
    auto const value = [&](std::string_view name, double& target) {
      if (line.starts_with(name)) target = std::stod(line.substr(name.size()));
    };
    value("Rss:", now.rss);
    value("Pss:", now.pss);
    value("Anonymous:", now.own);
  }
  for (auto const& entry : std::filesystem::directory_iterator{"/proc/self/fd"}) {
    std::error_code gone;
    auto const target = std::filesystem::read_symlink(entry.path(), gone);
    struct stat file {};
    if (gone || !target.native().starts_with("/memfd:")) continue;
    if (stat(entry.path().c_str(), &file) == 0) now.shared += double(file.st_blocks) / 2;  // of 512
  }
  return now;
}

lend::Result<lend::Channel> loop_back(lend::ProtectionDomain const& domain) {
  LEND_TRY(prepared, lend::channel_builder().protection_domain(domain).build());
  auto const itself = prepared.endpoint();
  return std::move(prepared).handshake(itself);
}

/// Once round every ring, and a little further.
lend::Result<void> use(lend::Channel& channel, lend::MemoryRegion& memory) {
  for (std::uint32_t i = 0; i < 2 * channel.send_depth() + 2 * channel.receive_depth(); ++i) {
    lend::PollingScope scope{channel};
    LEND_TRYV(scope.post_receive(memory.scatter(64, 64)));
    LEND_TRYV(scope.post_send(memory.gather(0, 64)));
    LEND_TRYV(scope.finish());
  }
  return lend::success();
}

lend::Result<void> measure(std::size_t count, bool json) {
  LEND_TRY(device, lend::open_device(lend::DeviceChoice::soft()));
  LEND_TRY(domain, device.allocate_protection_domain());
  LEND_TRY(memory, domain.allocate(4096));
  std::vector<lend::Channel> channels;
  channels.reserve(count + 1);
  LEND_TRY(first, loop_back(domain));  // what the process itself and the first channel need
  LEND_TRYV(use(first, memory));
  channels.push_back(std::move(first));

  auto const before = resident();
  for (std::size_t i = 0; i < count; ++i) {
    LEND_TRY(channel, loop_back(domain));
    channels.push_back(std::move(channel));
  }
  auto const idle = resident();
  for (auto& channel : channels) {
    LEND_TRYV(use(channel, memory));
  }
  auto const used = resident();

  auto const each = [&](double Resident::*part, Resident const& now) {
    return (now.*part - before.*part) / double(count);
  };
  auto const idle_kib = (idle.total() - before.total()) / double(count);
  auto const used_kib = (used.total() - before.total()) / double(count);
  if (json) {
    std::printf("{\"channels\": %zu, \"idle_kib\": %.1f, \"used_kib\": %.1f}\n", count, idle_kib,
                used_kib);
    return lend::success();
  }
  std::printf("%zu more channels on %s, send depth %u, receive depth %u; KiB for each\n", count,
              device.name().c_str(), channels[0].send_depth(), channels[0].receive_depth());
  std::printf("              own   memfd   together      Rss      Pss\n");
  auto const row = [&](char const* name, Resident const& now, double together) {
    std::printf("  %-6s %8.1f %7.1f %10.1f %8.1f %8.1f\n", name, each(&Resident::own, now),
                each(&Resident::shared, now), together, each(&Resident::rss, now),
                each(&Resident::pss, now));
  };
  row("idle", idle, idle_kib);
  row("used", used, used_kib);
  std::printf("idle: %.1f KiB, aim below 2048: %s\n", idle_kib,
              idle_kib < 2048 ? "reached" : "missed");
  return lend::success();
}

}  // namespace

int main(int argument_count, char** arguments) {
  bool json = false;
  std::size_t channels = 64;
  for (int i = 1; i < argument_count; ++i) {
    std::string_view const argument = arguments[i];
    if (argument == "--json") {
      json = true;
    } else if (argument == "--channels" && i + 1 < argument_count &&
               lend::bench::parse_number(arguments[i + 1], channels) && channels > 0) {
      ++i;
    } else {
      std::fputs("memory_per_channel [--json] [--channels N]\n", stderr);
      return 2;
    }
  }
  auto const done = measure(channels, json);
  if (!done) std::fprintf(stderr, "memory_per_channel: %s\n", done.error().message().c_str());
  return done ? 0 : 1;
}
