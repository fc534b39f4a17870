// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: memory is of the pages and on the node that were asked for, or the error says what to do.
// Method: the device that LEND_TEST_DEVICE names (default: soft); what the kernel says of the pages
// in /proc/self/smaps. Reserved pages are looked at where the administrator has reserved some.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>

#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr std::size_t far_too_much = std::size_t{1} << 44;

struct Bench {
  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
};

/// `field` of the mapping that `address` lies in, in KiB.
std::size_t mapping_field(void const* address, std::string const& field) {
  std::ifstream maps{"/proc/self/smaps"};
  bool is_it = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t first = 0;
    std::uintptr_t end = 0;
    auto const [dash_at, failed] =
        std::from_chars(line.data(), line.data() + line.size(), first, 16);
    if (failed == std::errc{} && *dash_at == '-') {
      std::from_chars(dash_at + 1, line.data() + line.size(), end, 16);
      auto const place = reinterpret_cast<std::uintptr_t>(address);
      is_it = first <= place && place < end;
    } else if (is_it && line.starts_with(field + ':')) {
      return std::stoul(line.substr(field.size() + 1));
    }
  }
  return 0;
}

std::string first_line(std::string const& path) {
  std::ifstream file{path};
  std::string line;
  std::getline(file, line);
  return line;
}

std::string pool(Pages pages) {
  return "/sys/kernel/mm/hugepages/hugepages-" + std::to_string(bytes_of(pages) / 1024) + "kB/";
}
bool has(Pages pages) {
  return ::access(pool(pages).c_str(), F_OK) == 0;
}

void check_says(Error const& error, Errc code, std::vector<std::string> const& words) {
  INFO(error.message());
  CHECK(error == code);
  for (auto const& word : words) {
    INFO(word);
    CHECK(error.message().find(word) != std::string::npos);
  }
}

/// Writes all of it, sends half of it to the other half over a channel, and looks.
void use(Bench const& bench, MemoryRegion& memory) {
  auto const prepared_options = options_with_depth(4);
  auto prepared = must(prepare_channel(bench.domain, prepared_options));
  auto const half = std::min<std::size_t>(memory.size() / 2, mib);
  auto const bytes = must(memory.mutable_bytes());
  std::fill(bytes.begin(), bytes.end(), std::byte{0});
  std::fill_n(bytes.begin(), half, std::byte{0x5a});
  if (!bench.context.capabilities().endpoints) return;  // a loop-back has no second process here
  auto const itself = prepared.endpoint();
  auto channel = must(std::move(prepared).handshake(itself));
  PollingScope scope{channel};
  auto received = must(scope.post_receive(memory.scatter(half, half)));
  must(channel.send(memory.gather(0, half)));
  must(received.wait(within(std::chrono::seconds{20})));
  must(scope.finish());
  CHECK(std::memcmp(bytes.data(), bytes.data() + half, half) == 0);
}

}  // namespace

TEST_CASE("memory has the pages that were asked for, and says so", "[verbs]") {
  Bench const bench;
  auto normal = must(bench.domain.allocate(8 * mib));
  CHECK(normal.pages() == Pages::normal);
  std::vector<std::byte> own(4096);
  CHECK_FALSE(must(bench.domain.register_memory(own)).pages().has_value());

  auto transparent = bench.domain.allocate(8 * mib, {.pages = Pages::transparent});
  if (transparent) {
    auto& memory = transparent.value();
    CHECK(memory.pages() == Pages::transparent);
    use(bench, memory);
    auto const* const start = must(memory.bytes()).data();
    CHECK(reinterpret_cast<std::uintptr_t>(start) % (2 * mib) == 0);
    // Where the kernel may not do it on its own, it was done by hand, and all of it.
    auto const by_hand = first_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
    if (bench.context.kind() == DeviceKind::soft && by_hand.find("[never]") != std::string::npos)
      CHECK(mapping_field(start, "ShmemPmdMapped") == 8192);
  } else {
    check_says(transparent.error(), Errc::unsupported, {"disabled", "transparent_hugepage/"});
  }
}

TEST_CASE("reserved pages are used as any memory, and go back", "[verbs]") {
  Bench const bench;
  auto const pages = GENERATE(Pages::huge_2m, Pages::huge_1g);
  auto const free_before = first_line(pool(pages) + "free_hugepages");
  if (!has(pages) || free_before == "0") {
    std::string const why = "cannot: no pages of " + std::string{name_of(pages)} + " are reserved";
    return skip(bench.context, why.c_str());
  }
  auto const length = bytes_of(pages) - 12'288;  // rounded up inside
  {
    auto memory = must(bench.domain.allocate(length, {.pages = pages}));
    CHECK(memory.size() == length);
    CHECK(memory.pages() == pages);
    use(bench, memory);
    auto const* const start = must(memory.bytes()).data();
    CHECK(mapping_field(start, "KernelPageSize") == bytes_of(pages) / 1024);
    CHECK(first_line(pool(pages) + "free_hugepages") != free_before);

    auto preferred = must(bench.domain.allocate(2 * mib, {.pages = Pages::prefer_huge}));
    CHECK(preferred.pages() != Pages::prefer_huge);
  }
  CHECK(first_line(pool(pages) + "free_hugepages") == free_before);
}

TEST_CASE("reserved pages that there are not are refused with how many there are and what to do",
          "[verbs]") {
  Bench const bench;
  auto const pages = GENERATE(Pages::huge_2m, Pages::huge_1g);

  auto const error = error_of(bench.domain.allocate(far_too_much, {.pages = pages}));

  std::string const size{name_of(pages)};
  if (!has(pages)) return check_says(error, Errc::unsupported, {"no pages of " + size});
  check_says(error, Errc::exhausted,
             {std::to_string(far_too_much / bytes_of(pages)) + " pages of " + size + " are needed",
              first_line(pool(pages) + "nr_hugepages") + " are free", pool(pages) + "nr_hugepages",
              "Pages::prefer_huge"});
  if (pages == Pages::huge_2m) CHECK(error.message().find("vm.nr_hugepages") != std::string::npos);
}

TEST_CASE("memory lies on the NUMA node that was asked for, or the error lists the nodes",
          "[verbs]") {
  Bench const bench;
  auto const online = first_line("/sys/devices/system/node/online");
  auto const first = static_cast<std::uint32_t>(std::atoi(online.c_str()));
  auto memory = bench.domain.allocate(mib, {.node = first});
  if (!memory && (memory.error() == Errc::denied || memory.error() == Errc::unsupported))
    return skip(bench.context, "cannot: mbind(2) is not for this process, or not in this kernel");
  use(bench, memory.value());
  int node = -1;
  // MPOL_F_NODE | MPOL_F_ADDR: where this byte lies. Source: get_mempolicy(2).
  auto const* const start = must(memory.value().bytes()).data();
  REQUIRE(::syscall(SYS_get_mempolicy, &node, nullptr, 0ul, start, 3ul) == 0);
  CHECK(node == static_cast<int>(first));
  int policy = 0;
  unsigned long nodes[16] = {};
  REQUIRE(::syscall(SYS_get_mempolicy, &policy, nodes, 1024ul, start, 2ul) == 0);
  CHECK(policy == 2);  // MPOL_BIND: no other node's
  CHECK(nodes[first / 64] == 1ul << first % 64);

  for (std::uint32_t const absent : {1023u, 1024u, 4'000'000'000u})
    check_says(error_of(bench.domain.allocate(mib, {.node = absent})), Errc::not_found,
               {"NUMA node " + std::to_string(absent), online});
}
