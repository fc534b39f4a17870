// SPDX-License-Identifier: MIT OR Apache-2.0
// How long a cache line takes from CPU 0 to CPU 1. Virtual CPUs may be two threads of one core, or
// two cores, and a host may change that while programs run: the time tells which they are now.
// Usage: cpu_distance    Prints {"handover_ns": N}; exits 77 where there is no CPU 0 or 1.
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

namespace {

constexpr int blocks = 51, rounds_of_a_block = 200;  // some 2 to 10 ms

bool run_on(unsigned cpu) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(cpu, &only);
  return pthread_setaffinity_np(pthread_self(), sizeof only, &only) == 0;
}

// Two threads write it in turns: the near one odd numbers, the far one even numbers.
alignas(64) std::atomic<int> turn{0};

void wait_for(int value) {
  while (turn.load(std::memory_order_acquire) != value) {
  }
}

void answer_all() {
  for (int round = 0; round < blocks * rounds_of_a_block; ++round) {
    wait_for(2 * round + 1);
    turn.store(2 * round + 2, std::memory_order_release);
  }
}

// ns of each block
std::vector<double> ask_all() {
  std::vector<double> handovers;
  for (int block = 0; block < blocks; ++block) {
    auto const began = std::chrono::steady_clock::now();
    for (int i = 0; i < rounds_of_a_block; ++i) {
      auto const round = block * rounds_of_a_block + i;
      turn.store(2 * round + 1, std::memory_order_release);
      wait_for(2 * round + 2);
    }
    std::chrono::duration<double, std::nano> const took = std::chrono::steady_clock::now() - began;
    handovers.push_back(took.count() / (2 * rounds_of_a_block));
  }
  return handovers;
}

}  // namespace

int main() {
  if (!run_on(0) || !run_on(1)) {
    std::puts("skipped: there is no CPU 0, or no CPU 1");
    return 77;
  }
  std::thread far{answer_all};  // on CPU 1
  run_on(0);
  auto handovers = ask_all();
  far.join();
  std::nth_element(handovers.begin(), handovers.begin() + blocks / 2, handovers.end());
  std::printf("{\"handover_ns\": %.1f}\n", handovers[blocks / 2]);
}
