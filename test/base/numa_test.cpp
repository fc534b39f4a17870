// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a thread runs on the node that was named, or where it did.
// Method: what the kernel says of this thread before and after.
#include "support/catch.hpp"

#include <lend/base/numa.hpp>

#include <sched.h>

#include <fstream>
#include <thread>

using namespace lend;

namespace {

cpu_set_t cpus_of_this_thread() {
  cpu_set_t cpus;
  REQUIRE(::sched_getaffinity(0, sizeof cpus, &cpus) == 0);
  return cpus;
}

}  // namespace

TEST_CASE("a thread runs on a node's CPUs alone, and other threads where they did", "[base]") {
  if (!std::ifstream{"/sys/devices/system/node/node0/cpulist"}) {
    WARN("skipped: this kernel shows no NUMA nodes");
    return;
  }
  cpu_set_t const before = cpus_of_this_thread();
  std::thread{[&before] {
    auto const bound = run_on_node(0);
    if (bound.has_error()) return;  // a cpuset without the node
    cpu_set_t const after = cpus_of_this_thread();
    cpu_set_t both;
    CPU_AND(&both, &before, &after);
    CHECK(CPU_COUNT(&after) != 0);
    CHECK(CPU_EQUAL(&both, &after));
  }}.join();
  cpu_set_t const here = cpus_of_this_thread();
  CHECK(CPU_EQUAL(&before, &here));
}

TEST_CASE("a node that does not exist is refused, and the thread runs where it did", "[base]") {
  cpu_set_t const before = cpus_of_this_thread();
  auto const refused = run_on_node(12345);
  cpu_set_t const after = cpus_of_this_thread();

  REQUIRE(refused.has_error());
  CHECK(refused.error() == Errc::not_found);
  CHECK(refused.error().message().find("NUMA node 12345 does not exist") != std::string::npos);
  CHECK(CPU_EQUAL(&before, &after));
}
