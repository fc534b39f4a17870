// SPDX-License-Identifier: MIT OR Apache-2.0
// Names of waiting threads, one per CPU, and what yields teach.
#include <base/yielding.hpp>

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>

namespace lend::base {

namespace {

// A few µs of polls: a little longer than a round trip of small messages on one host. Yielding
// within one would make it half as long again (0.63 µs to 0.95 µs at 50). Far more would be lost
// whenever the scheduler puts both ends on one CPU: 44 µs a message at 1000.
constexpr std::uint32_t usual_spins = 250;
// With more runnable threads than CPUs nearly all of them find nothing, and the thread that could
// send has no CPU meanwhile. Source: measured, test/bench/against_mpi.py with 4 and 8 ranks.
constexpr std::uint32_t crowded_spins = 4;
// A yield that finds no other thread takes less than one of these, one that switches takes more.
constexpr std::chrono::microseconds switch_time{2};
// So many quick yields in a row: this thread has its CPU to itself, also where a launcher bound it
// to one. After few the waits of a crowded program spin again too soon.
constexpr std::uint32_t quick_yields_before_spinning = 64;
// Waiters that share a CPU meet now and then only: one of them may compute for many slices.
constexpr std::uint32_t yields_of_a_crowd = 64;

struct alignas(64) Line {
  std::atomic<std::uint32_t> name;  // 0: no thread
};
struct WaiterNames {
  Line given;
  Line last[waiter_names_bytes / sizeof(Line) - 1];

  Line& of_this_cpu() noexcept {
    return last[static_cast<unsigned>(::sched_getcpu()) % std::size(last)];
  }
};
static_assert(sizeof(WaiterNames) == waiter_names_bytes);

constinit std::atomic<WaiterNames*> shared_names{nullptr};
constinit thread_local std::uint32_t own_name = 0;

// A child of fork(2) is somebody else.
[[maybe_unused]] int const renamed_by_forks =
    ::pthread_atfork(nullptr, nullptr, [] { own_name = 0; });

// Relaxed throughout: names publish nothing.
void name_itself(WaiterNames& names) noexcept {
  while (own_name == 0) own_name = names.given.name.fetch_add(1, std::memory_order_relaxed) + 1;
  auto& line = names.of_this_cpu();
  if (line.name.load(std::memory_order_relaxed) != own_name)
    line.name.store(own_name, std::memory_order_relaxed);
}

Ran look_who_ran(WaiterNames& names) noexcept {
  auto const last = names.of_this_cpu().name.load(std::memory_order_relaxed);
  return last == 0 || last == own_name ? Ran::unrelated : Ran::waiter;
}

}  // namespace

void share_waiter_names(UniqueFd file) noexcept {
  if (shared_names.load(std::memory_order_relaxed) != nullptr) return;
  void* const mapped =
      ::mmap(nullptr, sizeof(WaiterNames), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) return;
  WaiterNames* none = nullptr;
  // Never unmapped: a thread may be in a yield. Release: what is behind the pointer is mapped.
  if (!shared_names.compare_exchange_strong(none, static_cast<WaiterNames*>(mapped),
                                            std::memory_order_release, std::memory_order_relaxed))
    ::munmap(mapped, sizeof(WaiterNames));
}

SpinRule SpinRule::of_this_thread() noexcept {
  // With one CPU the peer cannot run while this thread spins: two spinning processes on one core
  // cost a scheduler tick a message.
  cpu_set_t cpus;
  bool const one_cpu = ::sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) == 1;
  return {.spins = one_cpu ? 0 : usual_spins};
}

bool SpinRule::yield(std::chrono::steady_clock::time_point now) noexcept {
  auto* const names = shared_names.load(std::memory_order_acquire);
  auto ran = Ran::unknown;
  if (names != nullptr) name_itself(*names);
  ::sched_yield();
  if (names != nullptr) {
    ran = look_who_ran(*names);
    name_itself(*names);  // for those that yield to what this thread does next
  }
  return note(std::chrono::steady_clock::now() - now, ran);
}

bool SpinRule::note(std::chrono::nanoseconds took, Ran ran) noexcept {
  if (ran == Ran::waiter)
    crowded_yields = yields_of_a_crowd;
  else if (crowded_yields > 0)
    --crowded_yields;
  if (took <= switch_time) {
    if (++quick_yields < quick_yields_before_spinning) return false;
    quick_yields = 0;
    spins = usual_spins;
    return true;
  }
  quick_yields = 0;
  if (ran == Ran::unrelated && crowded_yields == 0) {
    spins = patient_spins;
    return true;
  }
  spins = std::min(spins, crowded_spins);
  return false;
}

}  // namespace lend::base
