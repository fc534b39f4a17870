// SPDX-License-Identifier: MIT OR Apache-2.0
// Chooses the clock and measures its rate. Any thread.
#include <base/unique_fd.hpp>
#include <observe/clock.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace lend::observe {

namespace {

constexpr std::uint64_t measured_nanoseconds = 2'000'000;

#if defined(__x86_64__)
bool kernel_trusts_tsc() noexcept {
  base::UniqueFd const file{::open(
      "/sys/devices/system/clocksource/clocksource0/available_clocksource", O_RDONLY | O_CLOEXEC)};
  if (!file) return false;
  std::array<char, 256> text{};
  auto const length = ::read(file.get(), text.data(), text.size());
  if (length <= 0) return false;
  std::string_view const names{text.data(), static_cast<std::size_t>(length)};
  // A word of the list; another one may contain it.
  for (auto at = names.find("tsc"); at != names.npos; at = names.find("tsc", at + 3))
    if ((at == 0 || names[at - 1] == ' ') &&
        (at + 3 == names.size() || names[at + 3] == ' ' || names[at + 3] == '\n'))
      return true;
  return false;
}

bool has_counter() noexcept {
  constexpr unsigned invariant = 1u << 8;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & invariant) != 0 &&
         kernel_trusts_tsc();
}
#elif defined(__aarch64__)
bool has_counter() noexcept {
  return true;
}
#else
bool has_counter() noexcept {
  return false;
}
#endif

struct Moment {
  std::uint64_t nanoseconds, ticks;
};
/// Both clocks at a time: of some looks the one that took the least, as a thread may lose its CPU.
Moment now_by_both() noexcept {
  Moment now{};
  for (std::uint64_t least = ~std::uint64_t{0}, looks = 0; looks < 8; ++looks) {
    auto const before = raw_nanoseconds();
    auto const ticks = Clock::counter();
    auto const took = raw_nanoseconds() - before;
    if (took < least) now = {before + (least = took) / 2, ticks};
  }
  return now;
}

Clock measure() noexcept {
  Clock const called{};
  if (!has_counter()) return called;
  auto const from = now_by_both();
  while (raw_nanoseconds() - from.nanoseconds < measured_nanoseconds) {
  }
  auto const to = now_by_both();
  if (to.ticks <= from.ticks) return called;  // a counter that stands still is none
  return {.is_counter = true,
          .nanoseconds_a_tick = static_cast<double>(to.nanoseconds - from.nanoseconds) /
                                static_cast<double>(to.ticks - from.ticks)};
}

}  // namespace

Clock const& Clock::of_this_process() noexcept {
  static Clock const clock = measure();
  return clock;
}

}  // namespace lend::observe
