// SPDX-License-Identifier: MIT OR Apache-2.0
// What large memory costs: taking it, touching it, registering it, opening it to a peer for a
// while, and moving 1 GiB of it.
//
// Method: for each kind of page and each length, memory is allocated, touched, registered once more
// and deregistered; the best of some rounds is kept. A card pins every page of a registration, so
// that its cost grows with their number; the soft device writes one table entry.
// The transfer is of two channels in one process, one of which writes into the other's memory,
// beside memcpy of the same bytes, in turn.
// Usage: registration [--json] [--largest MIB]; LEND_DEVICE chooses the device. JSON: one object a
// line. registration --opened TIMES opens bytes so often in both ways and prints nothing, for
// loan_price.py, which counts.
#include "number.hpp"

#include <lend/lend.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace lend;
using Clock = std::chrono::steady_clock;

constexpr std::size_t mib = std::size_t{1} << 20;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Row {
  std::size_t length = 0;
  Pages pages{};
  double allocate = std::numeric_limits<double>::max();  // seconds each
  double touch = std::numeric_limits<double>::max();
  double register_again = std::numeric_limits<double>::max();
  double deregister = std::numeric_limits<double>::max();
};

void keep_least(double& least, double value) {
  least = std::min(least, value);
}

/// Nothing where the device or the machine has no such pages; the reason goes to `why`.
Result<std::optional<Row>> measure(ProtectionDomain const& domain, std::size_t length, Pages pages,
                                   std::string& why) {
  Row row{length, pages};
  auto const rounds = std::clamp<std::size_t>(64 * mib / length, 2, 64);
  for (std::size_t round = 0; round < rounds; ++round) {
    auto start = Clock::now();
    auto taken = domain.allocate(length, {.pages = pages});
    auto const allocated = seconds_since(start);
    if (!taken) {
      why = taken.error().message();
      return std::optional<Row>{};
    }
    keep_least(row.allocate, allocated);
    auto memory = std::move(taken).assume_value();
    LEND_TRY(bytes, memory.mutable_bytes());
    start = Clock::now();
    for (std::size_t at = 0; at < length; at += 4096) bytes[at] = std::byte{1};
    keep_least(row.touch, seconds_since(start));

    start = Clock::now();
    std::optional<MemoryRegion> view;
    {
      LEND_TRY(again, domain.register_memory(bytes));
      view = std::move(again);
    }
    keep_least(row.register_again, seconds_since(start));
    start = Clock::now();
    view.reset();
    keep_least(row.deregister, seconds_since(start));
  }
  return std::optional{row};
}

void print(Row const& row, bool json) {
  auto const per_mib = [&](double seconds) {
    return seconds * 1e9 / (double(row.length) / double(mib));
  };
  if (json) {
    std::printf(
        "{\"bytes\": %zu, \"pages\": \"%s\", \"allocate_ns\": %.0f, \"touch_ns\": %.0f, "
        "\"register_ns\": %.0f, \"deregister_ns\": %.0f}\n",
        row.length, std::string{name_of(row.pages)}.c_str(), row.allocate * 1e9, row.touch * 1e9,
        row.register_again * 1e9, row.deregister * 1e9);
    return;
  }
  auto const size = row.length >= mib ? std::to_string(row.length / mib) + " MiB"
                                      : std::to_string(row.length / 1024) + " KiB";
  std::printf("%9s  %-11s %12.0f %12.0f %12.0f   %10.0f %10.0f\n", size.c_str(),
              std::string{name_of(row.pages)}.c_str(), per_mib(row.allocate), per_mib(row.touch),
              per_mib(row.register_again), row.register_again * 1e9, row.deregister * 1e9);
}

Result<std::pair<Channel, Channel>> connect(ProtectionDomain const& domain) {
  LEND_TRY(one, prepare_channel(domain, {}));
  LEND_TRY(other, prepare_channel(domain, {}));
  return connect_local(std::move(one), std::move(other));
}

/// Writes `length` bytes, in messages as long as the port carries, and copies as many by memcpy.
Result<void> transfer(Context const& device, ProtectionDomain const& domain, std::size_t length,
                      Pages pages, bool json) {
  LEND_TRY(two, connect(domain));
  LEND_TRY(source, domain.allocate(length, {.pages = pages}));
  // SAFETY: nobody minds what the bytes are.
  LEND_TRY(target,
           domain.unsafe_allocate_exposed(length, RemoteAccess::read_write, {.pages = pages}));
  LEND_TRY(from, source.mutable_bytes());
  std::fill(from.begin(), from.end(), std::byte{0x5a});
  LEND_TRY(remote, target.remote());
  LEND_TRY(to, target.mutable_bytes());
  std::fill(to.begin(), to.end(), std::byte{0});
  auto const message = std::min<std::size_t>(length, device.port().message_bytes_max);
  double written = std::numeric_limits<double>::max();
  double copied = written;
  for (int round = 0; round < 4; ++round) {
    auto start = Clock::now();
    for (std::size_t at = 0; at < length; at += message) {
      auto const part = std::min(message, length - at);
      LEND_TRYV(two.first.write({source.gather(at, part), remote.slice(at, part)}));
    }
    keep_least(written, seconds_since(start));
    start = Clock::now();
    std::memcpy(to.data(), from.data(), length);
    keep_least(copied, seconds_since(start));
  }
  auto const rate = [&](double seconds) { return double(length) / seconds / 1073741824.0; };
  std::printf(json ? "{\"transfer_bytes\": %zu, \"pages\": \"%s\", \"write_gib_s\": %.2f, "
                     "\"memcpy_gib_s\": %.2f}\n"
                   : "%zu bytes, %s pages: write %.2f GiB/s, memcpy %.2f GiB/s\n",
              length, std::string{name_of(pages)}.c_str(), rate(written), rate(copied));
  return success();
}

// loan_price.py finds these two by their names.
[[gnu::noinline]] Result<void> expose_and_end(MemoryRegion& memory, int times) {
  for (int i = 0; i < times; ++i) {
    // SAFETY: no peer is told the key.
    LEND_TRY(exposure, memory.unsafe_expose(RemoteAccess::write));
    LEND_TRYV(exposure.finish());
  }
  return success();
}

[[gnu::noinline]] Result<void> lend_and_recall(PollingScope& scope, MemoryRegion& memory,
                                               int times) {
  for (int i = 0; i < times; ++i) {
    LEND_TRY(loan, scope.post_lend(memory.scatter()));
    LEND_TRYV(loan.recall());
  }
  return success();
}

/// The least seconds that one of `operation(times)` took, in some rounds.
template <class Operation>
Result<double> least_of(Operation operation) {
  constexpr int times = 1000;
  double least = std::numeric_limits<double>::max();
  for (int round = 0; round < 16; ++round) {
    auto const start = Clock::now();
    LEND_TRYV(operation(times));
    keep_least(least, seconds_since(start) / times);
  }
  return least;
}

/// What it costs to open bytes to a peer for a while: as an Exposure, which is a registration, and
/// as a PeerLoan, which is recalled.
Result<void> open_for_a_while(Context const& device, ProtectionDomain const& domain, bool json) {
  if (!device.capabilities().peer_loans) return success();
  LEND_TRY(two, connect(domain));
  LEND_TRY(memory, domain.allocate(65'536));
  LEND_TRY(exposed, least_of([&](int times) { return expose_and_end(memory, times); }));
  PollingScope scope{two.first};
  LEND_TRY(lent, least_of([&](int times) { return lend_and_recall(scope, memory, times); }));
  std::printf(json ? "{\"exposure_ns\": %.0f, \"peer_loan_ns\": %.0f, \"share\": %.3f}\n"
                   : "64 KiB opened to a peer and closed: exposure %.0f ns, peer loan %.0f ns, a "
                     "share of %.3f\n",
              exposed * 1e9, lent * 1e9, lent / exposed);
  return scope.finish();
}

/// As often as that, in both ways.
Result<void> open_often(int times) {
  LEND_TRY(device, open_device());
  LEND_TRY(domain, device.allocate_protection_domain());
  LEND_TRY(two, connect(domain));
  LEND_TRY(memory, domain.allocate(65'536));
  LEND_TRYV(expose_and_end(memory, times));
  PollingScope scope{two.first};
  LEND_TRYV(lend_and_recall(scope, memory, times));
  return scope.finish();
}

Result<void> run(std::size_t largest, bool json) {
  LEND_TRY(device, open_device());
  LEND_TRY(domain, device.allocate_protection_domain());
  if (!json)
    std::printf("on %s          ns for each MiB: %8s %12s %12s   ns: %6s %10s\n",
                device.name().c_str(), "allocate", "touch", "register", "register", "deregister");
  std::array<std::string, 3> missing;
  constexpr std::array kinds{Pages::normal, Pages::transparent, Pages::huge_2m};
  for (auto const length :
       {std::size_t{4096}, std::size_t{65'536}, mib, 16 * mib, 256 * mib, 1024 * mib}) {
    if (length > largest) break;
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
      if (kinds[kind] != Pages::normal && length < 2 * mib) continue;
      LEND_TRY(row, measure(domain, length, kinds[kind], missing[kind]));
      if (!row) continue;
      print(*row, json);
    }
  }
  LEND_TRYV(open_for_a_while(device, domain, json));
  for (auto const& why : missing)
    if (!why.empty()) std::fprintf(stderr, "left out: %s\n", why.c_str());
  for (auto const pages : {Pages::normal, Pages::prefer_huge}) {
    LEND_TRYV(transfer(device, domain, largest, pages, json));
  }
  return success();
}

}  // namespace

int main(int argument_count, char** arguments) {
  bool json = false;
  std::size_t largest = 1024;
  std::size_t opened = 0;
  for (int i = 1; i < argument_count; ++i) {
    std::string_view const argument = arguments[i];
    if (argument == "--json") {
      json = true;
    } else if (argument == "--largest" && i + 1 < argument_count &&
               lend::bench::parse_number(arguments[i + 1], largest) && largest > 0) {
      ++i;
    } else if (argument == "--opened" && i + 1 < argument_count &&
               lend::bench::parse_number(arguments[i + 1], opened) && opened > 0) {
      ++i;
    } else {
      std::fputs("registration [--json] [--largest MIB] | --opened TIMES\n", stderr);
      return 2;
    }
  }
  auto const done = opened > 0 ? open_often(static_cast<int>(opened)) : run(largest * mib, json);
  if (!done) std::fprintf(stderr, "registration: %s\n", done.error().message().c_str());
  return done ? 0 : 1;
}
