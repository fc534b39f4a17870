// SPDX-License-Identifier: MIT OR Apache-2.0
// A million posts in one scope: what they cost in memory (nothing) and in time.
// Usage: million_posts [--json]
#include "support/allocation_counter.hpp"

#include <lend/lend.hpp>

#include <malloc.h>
#include <unistd.h>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string_view>

namespace {

constexpr std::uint64_t posts = 1'000'000;  // half of them sends, half receives
constexpr std::uint64_t warm_up = 1000;
constexpr std::size_t lanes = 256;  // bytes are lent until seen; no more receives are outstanding

struct Footprint {
  std::size_t heap_bytes = mallinfo2().uordblks;
  long resident_kib = [] {
    long size = 0, resident = 0;
    std::ifstream{"/proc/self/statm"} >> size >> resident;
    return resident * sysconf(_SC_PAGESIZE) / 1024;
  }();
};

lend::Result<void> measure(bool json) {
  LEND_TRY(device, lend::open_device(lend::DeviceChoice::soft()));
  LEND_TRY(domain, device.allocate_protection_domain());
  LEND_TRY(memory, domain.allocate(64 + lanes * 64));
  LEND_TRY(prepared, lend::channel_builder().protection_domain(domain).build());
  auto const itself = prepared.endpoint();
  LEND_TRY(channel, std::move(prepared).handshake(itself));

  lend::PollingScope scope{channel};
  std::size_t lane = 0;
  auto const exchange = [&](std::uint64_t times) -> lend::Result<void> {
    for (std::uint64_t i = 0; i < times; ++i) {
      lane = (lane + 1) % lanes;
      LEND_TRYV(scope.post_receive(memory.scatter(64 + lane * 64, 64)));
      LEND_TRYV(scope.post_send(memory.gather(0, 64)));
    }
    return lend::success();
  };
  LEND_TRYV(exchange(warm_up));

  Footprint const before;
  auto const allocations_before = lend::test::allocations();
  double tenths[10] = {};  // ns for each post
  for (double& tenth : tenths) {
    auto const started = std::chrono::steady_clock::now();
    LEND_TRYV(exchange(posts / 20));
    std::chrono::duration<double, std::nano> const took =
        std::chrono::steady_clock::now() - started;
    tenth = took.count() / (double(posts) / 10);
  }
  auto const allocations = lend::test::allocations() - allocations_before;
  Footprint const after;
  LEND_TRYV(scope.finish());

  char const* const format =
      json ? "{\"posts\": %llu, \"ns_of_first_tenth\": %.1f, \"ns_of_last_tenth\": %.1f, "
             "\"allocations\": %llu, "
             "\"heap_bytes_before\": %zu, \"heap_bytes_after\": %zu, "
             "\"resident_kib_before\": %ld, \"resident_kib_after\": %ld}\n"
           : "%llu posts in one scope on a loop-back, 64 B\n"
             "  ns for each   %.1f of the first tenth, %.1f of the last\n"
             "  allocations   %llu\n"
             "  heap bytes    %zu before, %zu after\n"
             "  resident KiB  %ld before, %ld after\n";
  std::printf(format, static_cast<unsigned long long>(posts), tenths[0], tenths[9],
              static_cast<unsigned long long>(allocations), before.heap_bytes, after.heap_bytes,
              before.resident_kib, after.resident_kib);
  return lend::success();
}

}  // namespace

int main(int argument_count, char** arguments) {
  bool const json = argument_count == 2 && std::string_view{arguments[1]} == "--json";
  if (argument_count > 1 && !json) {
    std::fputs("million_posts [--json]\n", stderr);
    return 2;
  }
  auto const done = measure(json);
  if (!done) std::fprintf(stderr, "million_posts: %s\n", done.error().message().c_str());
  return done ? 0 : 1;
}
